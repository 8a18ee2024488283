#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "graph/accumulator.hpp"
#include "graph/attributes.hpp"

namespace fusecalc {

// What an op does to memory, which decides what it may be fused with.
enum class OpClass : std::uint8_t {
  kPointwise,  // each result element from one element of each input
  kReduce,     // rows to single values
  kNormalise,  // rows to rows, or to a loss: a reduction and, mostly, a second pass
  kMovement,   // copies elements to other places
  kView,       // renames elements in place; costs nothing
  kContract,   // sums of products
  kOpaque,     // not fused: only its bytes are known, or its threads do not follow its result
};

// Ops of one family follow one rule of shapes and types (infer_results) and are computed in one
// way; what still differs among them are the other columns of their rows.
enum class OpFamily : std::uint8_t {
  kPointwise,
  kWhere,
  kCast,
  kDropout,
  kReduce,
  kSoftmax,
  kRowNorm,
  kBatchNorm,
  kGroupNorm,
  kLoss,
  kTranspose,
  kConcat,
  kSlice,
  kSplit,
  kGather,
  kEmbedding,
  kScatter,
  kBroadcastTo,
  kReshape,
  kPad,
  kRoll,
  kFlip,
  kRepeat,
  kTriangle,
  kOneHot,
  kIota,
  kFull,
  kGatherElements,
  kScatterElements,
  kScan,
  kSort,
  kMatmul,
  kLinear,
  kGroupedMatmul,
  kScaledMatmul,
  kConvolution,
  kTransposedConvolution,
  kAttention,
  kPool,
  kAdaptivePool,
  kUpsample,
  kSoftmaxBackward,
  kLossBackward,
  kConvolutionBackward,
  kTransposedConvolutionBackward,
  kRowNormBackward,
  kNormBackward,
  kAttentionBackward,
  kEmbeddingBackward,
  kPoolBackward,
  kCustom,
  kRotary,
};

// Which elements a movement takes to where.
enum class Access : std::uint8_t {
  kSame,     // element by element, or a repetition
  kPermute,  // another order of axes
  kSelect,   // a part of one, or parts of several (slice, concat), or to computed places
  kGather,   // rows or elements named by indices
  kScatter,  // into rows or elements named by indices
  kWindow,   // out of a few neighbours each
};

enum class TypeRule : std::uint8_t {
  kPromote,     // of all inputs
  kFloat,       // the same, and Inference::float_of() it where that is no float
  kAccumulate,  // the same, and i64 where that is no float
  kBool,
  kIndex,  // i64
  kBits,   // of all inputs, which must be integers; the result keeps the bits that its type has
};

// What a vendor's matrix product can do on the way, besides the product: its epilogues.
enum class LibraryStep : std::uint8_t { kNone, kBias, kRelu, kGelu };

// What an op can be in the softmax of an attention: all of it, or a part of
// exp(x - max(x)) / sum(exp(x - max(x))).
enum class SoftmaxPart : std::uint8_t {
  kNone,
  kWhole,
  kMaximum,
  kDifference,
  kExponential,
  kSum,
  kQuotient,
};

// What an op computes, in exact arithmetic, as a function of numbers:
//   pointwise ops   of one element of each input, in order
//   reductions      of a whole row (argmax: the index within it); scans: of two numbers
//   softmaxes       of x, the row's maximum, and the row's sum of exp(x - maximum)
//   triangles       of x, its row and its column; iota: of the element's index
//   norms           of x, the mean, the variance and epsilon, before weight and bias
using ReferenceFunction = double (*)(std::span<const double> inputs, const Attributes& attributes);

// Of inputs.
inline constexpr std::uint32_t kAnyNumber = std::numeric_limits<std::uint32_t>::max();

// All that differs from op to op. Adding an op means adding a row.
struct OpRow {
  std::string_view name;
  OpClass op_class = OpClass::kPointwise;
  OpFamily family = OpFamily::kPointwise;
  std::uint32_t min_inputs = 1;
  std::uint32_t max_inputs = 1;
  std::uint32_t max_outputs = 1;
  // Floating-point operations per element of the space it loops over; contractions count their own.
  std::uint8_t flops = 0;
  // Instructions of its code for an element, where calls of special functions make them many more
  // than the FLOPs; 0: as many as FLOPs.
  std::uint8_t instructions = 0;
  // The same where its result has 16 bits, if they are fewer then; 0: as many.
  std::uint8_t narrow_instructions = 0;
  // How many of them the special function units take.
  std::uint8_t special_functions = 0;
  // Whether its code has a path for large arguments, which is seldom taken and several times as
  // long.
  bool slow_path = false;
  // Passes over its input: 2 if every result of a row needs the whole row first.
  std::uint8_t passes = 1;
  // Whether a row can be kept on chip for the second pass, if it fits.
  bool holds_rows = true;
  Access access = Access::kSame;
  TypeRule type_rule = TypeRule::kPromote;
  bool has_kernel = true;  // our runner can launch it; else it is only analysed
  // Of convolutions; 0 where the inputs tell.
  std::uint8_t spatial_axes = 0;
  AttributeSet attributes = 0;
  std::string_view summary;
  // In device code: an element of the first result, and of the further ones. a, b, c, d, e are the
  // inputs' elements, s what a row left behind, $name an attribute or a word of
  // codegen/expressions.cpp.
  std::string_view device{};
  std::array<std::string_view, 2> device_more{};
  // The further results where it goes on from running statistics, its last operands.
  std::array<std::string_view, 4> device_running{};
  // The first result in fewer instructions, with the functions of kernels/quick.cuh, for epilogues
  // in f32; empty where there are none.
  std::string_view quick{};
  // What is kept of a row while its elements are read; kNone for losses that only add up.
  Accumulator accumulator = Accumulator::kNone;
  // What it takes of each element, in device code and in fp64; the first input where there is none.
  std::string_view device_taken{};
  ReferenceFunction reference_taken = nullptr;
  std::uint8_t row_inputs = 1;  // of those that reduce rows: the inputs that are such rows
  bool per_channel = false;     // the inputs after the first lie along axis 1
  LibraryStep library = LibraryStep::kNone;
  SoftmaxPart softmax = SoftmaxPart::kNone;
  // The inputs that are factors of the result, as flags: both of a product, the first of a
  // quotient.
  std::uint8_t factors = 0;
  // A small change of an input may change the result by much: rounding, remainders, signs.
  bool jumps = false;
  // Integers from the range of a type give a result within it: selections, roundings, rests. So do
  // ops on bits.
  bool keeps_range = false;
  // Its `min` and `max` are, where they are not given, the ends of its result's type.
  bool has_type_bounds = false;
  // Null where an op moves or sums up elements and has no function of its own (movement, products,
  // losses, dropout), and for custom.
  ReferenceFunction reference = nullptr;
  // Of norms: the further results, of the same numbers.
  std::array<ReferenceFunction, 2> reference_more{};
};

std::span<const OpRow> op_table();
// The row of an op, or null.
const OpRow* op_named(std::string_view name);
std::span<const std::string_view> op_names();

// A single product of matrices, over batches: no convolution, and no attention.
constexpr bool is_matrix_product(OpFamily family) {
  return family == OpFamily::kMatmul || family == OpFamily::kLinear ||
         family == OpFamily::kScaledMatmul;
}

// Which of the first two inputs of a gather or an embedding is its table; the other has the
// indices. Frameworks disagree on the order of an embedding's inputs: its indices are the integers.
std::size_t table_input(OpFamily family, DType first, DType second);

std::string_view name_of(OpClass op_class);
std::span<const std::string_view> op_class_names();

}  // namespace fusecalc
