#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json/reader.hpp"

namespace fusecalc {

// The kinds of figures that have a tolerance of their own.
enum class Quantity : std::uint8_t { kBytes, kDram, kTime };
inline constexpr std::size_t kQuantities = 3;

std::string_view name_of(Quantity quantity);

// How much a figure may grow: a percentage of the old value, or an amount (bytes, picoseconds),
// whichever is larger.
struct Tolerance {
  double percent = 0;
  std::uint64_t amount = 0;

  bool allows(std::uint64_t growth, std::uint64_t before) const {
    return growth <= amount ||
           static_cast<long double>(growth) * 100 <=
               static_cast<long double>(percent) * static_cast<long double>(before);
  }
  bool operator==(const Tolerance&) const = default;
};

// Tolerances for the figures whose spec, plan and kernel match the patterns (* and ?).
struct ToleranceRule {
  std::string spec = "*";
  std::string plan = "*";
  std::string kernel = "*";
  std::array<std::optional<Tolerance>, kQuantities> tolerances{};
};

// The figures of a plan as a whole have no kernel; a rule with a kernel pattern does not match
// them.
struct Place {
  std::string_view spec;
  std::string_view plan;
  std::span<const std::string> kernels;  // all of its names
};

// The last rule that matches a place and has a tolerance for the quantity applies. The first rule
// is the default: bytes 0, dram 1 %, time 5 %.
class Tolerances {
 public:
  Tolerances();

  void add(ToleranceRule rule);
  Tolerance of(Quantity quantity, const Place& place);

  std::span<const ToleranceRule> rules() const { return rules_; }
  // Rules that have not matched any place so far: most likely misspelt.
  std::vector<const ToleranceRule*> unused() const;

 private:
  std::vector<ToleranceRule> rules_;
  std::vector<bool> used_;
};

// "1%", "4096" (bytes), "0", "2.5us"; empty for anything else.
std::optional<Tolerance> parse_tolerance(Quantity quantity, std::string_view text);
// The forms that parse_tolerance accepts, for messages.
std::string_view tolerance_forms(Quantity quantity);
// In a form that parse_tolerance accepts.
std::string to_string(Quantity quantity, const Tolerance& tolerance);

// "bytes=0,dram=1%", "auto.bytes=1%", "SPEC:bytes=0" or "SPEC/KERNEL:auto.time=10%": one rule for
// each plan that is named, in their order. Throws std::invalid_argument with what is wrong.
std::vector<ToleranceRule> parse_tolerance_rules(std::string_view text);

// A document of tolerances (specs/schema/tolerances.schema.json), as rules in their order.
std::vector<ToleranceRule> read_tolerances(JsonReader& reader);

// "spec adam*, kernel add": the figures that a rule applies to.
std::string scope_of(const ToleranceRule& rule);

}  // namespace fusecalc
