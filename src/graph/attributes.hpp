#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace fusecalc {

enum class GeluKind : std::uint8_t { kExact, kTanh };
enum class BatchNormMode : std::uint8_t { kInference, kTraining };
enum class LossReduction : std::uint8_t { kNone, kMean, kSum };

// Every attribute that some op takes, each with its default. Axes may be negative.
struct Attributes {
  std::optional<std::vector<std::int64_t>> axes;
  std::vector<std::int64_t> perm;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> stride = {1, 1};
  std::vector<std::int64_t> padding = {0, 0};
  std::vector<std::int64_t> dilation = {1, 1};
  std::int64_t groups = 1;
  std::int64_t seed = 0;
  double p = 0.5;
  double eps = 1e-5;
  std::optional<double> scale;
  double alpha = 1;
  double beta = 1;
  double threshold = 20;
  double negative_slope = 0.01;
  std::optional<double> min;
  std::optional<double> max;
  std::optional<DType> to;
  bool keepdim = false;
  bool save_mask = false;
  bool transpose_a = false;
  bool transpose_b = false;
  bool causal = false;
  GeluKind approximate = GeluKind::kExact;
  BatchNormMode mode = BatchNormMode::kInference;
  LossReduction reduction = LossReduction::kMean;
};

// The order is that of the table in attributes.cpp.
enum class Attribute : std::uint8_t {
  kAxes,
  kPerm,
  kShape,
  kStarts,
  kEnds,
  kSteps,
  kStride,
  kPadding,
  kDilation,
  kGroups,
  kSeed,
  kP,
  kEps,
  kScale,
  kAlpha,
  kBeta,
  kThreshold,
  kNegativeSlope,
  kMin,
  kMax,
  kTo,
  kKeepdim,
  kSaveMask,
  kTransposeA,
  kTransposeB,
  kCausal,
  kApproximate,
  kMode,
  kReduction,
};

// A set of attributes, one bit each.
using AttributeSet = std::uint64_t;
constexpr AttributeSet only(Attribute attribute) {
  return AttributeSet{1} << static_cast<unsigned>(attribute);
}
constexpr AttributeSet operator|(Attribute a, Attribute b) { return only(a) | only(b); }
constexpr AttributeSet operator|(AttributeSet set, Attribute b) { return set | only(b); }

std::string_view name_of(Attribute attribute);
// What it takes, for people: "list of axes", "none|tanh".
std::string_view values_of(Attribute attribute);
// Finds an attribute by its name or by its other name ("axis" for "axes").
std::optional<Attribute> attribute_named(std::string_view name);
// The attributes of a set, in the table's order.
std::vector<Attribute> members_of(AttributeSet set);

}  // namespace fusecalc
