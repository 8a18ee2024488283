#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compare/match.hpp"
#include "compare/tolerance.hpp"

namespace fusecalc {

inline constexpr std::string_view kComparisonSchema = "fusecalc.comparison/1";

// A figure that is compared. The order is that of the table in comparison.cpp.
enum class Figure : std::uint8_t {
  kSpec,  // the document as a whole, if one side has none
  kBytes,
  kDramRead,
  kDramWrite,
  kTime,
  kPipelineDramRead,
  kPipelineDramWrite,
  kPipelineTime,
  kWrong,         // 1 if the results were wrong
  kUnlaunchable,  // 1 if our runner has no kernel for it
};

enum class Unit : std::uint8_t { kCount, kBytes, kPicoseconds };

struct FigureRow {
  std::string_view name;  // "pipeline_dram_read"
  std::string_view words;
  Unit unit = Unit::kCount;
  Quantity quantity = Quantity::kBytes;
};
const FigureRow& row_of(Figure figure);

// From worst to best: a table is sorted by it.
enum class Judgement : std::uint8_t {
  kWorse,    // beyond its tolerance
  kRemoved,  // only before
  kUnknown,  // null on one side
  kNoise,    // a time beyond its tolerance whose p10 to p90 range overlaps the other's
  kWithin,   // more bytes, within an explicit tolerance
  kAdded,    // only after
  kBetter,
  kSame,  // or, measured, within its tolerance
};

std::span<const std::string_view> judgement_names();  // in their order
std::string_view name_of(Judgement judgement);

// One figure of both sides.
struct Finding {
  std::string spec;
  std::string plan;       // empty: the spec as a whole
  std::string kernel;     // empty: the plan as a whole; "a+b -> a, b" where it was split
  bool headline = false;  // of the headline plan of the new result
  Change change = Change::kSame;
  Figure figure = Figure::kBytes;
  std::optional<std::uint64_t> before{};
  std::optional<std::uint64_t> after{};
  Judgement judgement = Judgement::kSame;
  bool failed = false;
  std::string note{};  // which tensors, or why it is unknown
  std::string op{};    // the first of its kernels' ops
  // Where the op list says so, if that is known and was asked for.
  std::string file{};
  std::uint64_t line = 0;

  // Empty if one side has no figure.
  std::optional<std::int64_t> delta() const;
  // The delta in percent of before; empty if that is 0 or one side has no figure.
  std::optional<double> share() const;
  bool changed() const { return judgement != Judgement::kSame || change != Change::kSame; }
};

// The result of `compare`: the model of every output format.
struct Comparison {
  std::string base;   // paths
  std::string fresh;  // the new one
  bool strict = false;
  bool allow_missing = false;  // what only BASE has is no failure
  Tolerances tolerances{};
  std::vector<std::string> specs{};              // compared, or missing on one side
  std::map<std::string, std::string> sources{};  // of specs: the op list that NEW was made from
  std::vector<Finding> findings{};
  std::size_t same_left_out = 0;  // findings removed by --only-changed
  std::vector<std::string> notes{};
  std::string refusal{};  // why results cannot be compared, of the first that cannot

  bool failed() const;
  std::size_t count(Judgement judgement) const;
  std::size_t count_failed(Judgement judgement) const;
  void leave_out_same();
};

enum class SortKey : std::uint8_t { kWorst, kDelta, kShare, kName };
std::span<const std::string_view> sort_names();
SortKey sort_named(std::string_view name);
void sort_findings(std::vector<Finding>& findings, SortKey key);

}  // namespace fusecalc
