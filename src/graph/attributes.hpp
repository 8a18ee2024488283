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
// What a scatter makes of an element and of an update that goes there.
enum class Combine : std::uint8_t { kReplace, kAdd, kMul, kMax, kMin };
// Which elements a pad adds: a number, or elements of its input, mirrored at its ends, repeated
// from its ends, or as if it went on with its other end.
enum class Border : std::uint8_t { kConstant, kReflect, kReplicate, kCircular };

// Every attribute that some op takes, each with its default. Axes may be negative.
struct Attributes {
  std::optional<std::vector<std::int64_t>> axes;
  std::vector<std::int64_t> perm;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> sizes;
  // One number for each spatial axis, or one for all of them: see along().
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  std::vector<std::int64_t> output_padding;
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> gradients;
  std::int64_t groups = 1;
  std::int64_t seed = 0;
  double p = 0.5;
  double eps = 1e-5;
  double momentum = 0.1;
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
  std::optional<std::int64_t> window;  // of keys
  bool ceil_mode = false;
  bool count_include_pad = true;
  bool align_corners = false;
  GeluKind approximate = GeluKind::kExact;
  BatchNormMode mode = BatchNormMode::kInference;
  LossReduction reduction = LossReduction::kMean;
  double correction = 0;
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
  double value = 0;
  Border border = Border::kConstant;
  std::vector<std::int64_t> shifts;
  std::vector<std::int64_t> repeats;
  std::int64_t diagonal = 0;
  std::int64_t classes = 0;
  double first = 0;
  double delta = 1;
  std::optional<std::int64_t> k;
  bool largest = true;
  bool descending = false;
  Combine combine = Combine::kReplace;
  bool interleaved = false;
  std::optional<std::int64_t> rotated;  // of the last axis
};

// The number for one of the spatial axes; `otherwise` where the list is empty.
std::int64_t along(const std::vector<std::int64_t>& values, std::size_t axis,
                   std::int64_t otherwise);

// The order is that of the table in attributes.cpp.
enum class Attribute : std::uint8_t {
  kAxes,
  kPerm,
  kShape,
  kStarts,
  kEnds,
  kSteps,
  kSizes,
  kKernel,
  kStride,
  kPadding,
  kDilation,
  kOutputPadding,
  kSize,
  kGradients,
  kGroups,
  kSeed,
  kP,
  kEps,
  kMomentum,
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
  kWindow,
  kCeilMode,
  kCountIncludePad,
  kAlignCorners,
  kApproximate,
  kMode,
  kReduction,
  kCorrection,
  kBefore,
  kAfter,
  kValue,
  kBorder,
  kShifts,
  kRepeats,
  kDiagonal,
  kClasses,
  kFirst,
  kDelta,
  kK,
  kLargest,
  kDescending,
  kCombine,
  kInterleaved,
  kRotated,
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
