// Why ops cannot be one kernel, in words.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/format.hpp"
#include "graph/product_parts.hpp"
#include "plan/verdict.hpp"
#include "plan/weight_lines.hpp"

namespace fusecalc {
namespace {

// What each obstacle is called; {0}, {1} and {5} are the kinds of its ops, {2} and {3} the elements
// that the first two loop over, {4} what more is true of those.
constexpr std::array<std::string_view, 66> kReasons = {
    "",
    "the code of a {0} op is unknown, so it stays a separate kernel",
    "{0} and {1} share no tensor",
    "their code would evaluate more than 1,024 ops for an element, counting again those that "
    "are recomputed for each reader",
    "a thread would hold more values at once than its registers do",
    "more than 62 reductions would wait for each other",
    "together they read and write more than 96 tensors, too many for a thread's registers",
    "{0} and {1} loop over different numbers of elements ({2} and {3})",
    "{0} and {1} work on different rows, so no block holds the data that both need",
    "one of {0} and {1} sums rows and the other columns; one kernel does both only in a single "
    "pass of "
    "pointwise ops over rows that fit one block's shared memory and registers, in 32-bit floats",
    "{0} cannot start before the whole tensor is reduced, and the tensor does not fit on chip",
    "{1} reads elements at other places of the rows of {0}, which other threads of a kernel hold",
    "{0} and {1} work in different orders, and a kernel that holds whole rows for {5} changes "
    "their order only as it stores them, or where views (permute_view) of its inputs do",
    "{0} and {1} have the rows of {5} in different orders, and a general compiler keeps to one",
    "{1} may read rows that another block of {0} has not written yet",
    "the loss that {0} computes is known only after all rows are reduced",
    "{1} reads each element several times, and {0} would be recomputed for every read",
    "{1} aligns the result of {0} with another axis than the one that {5} reduces",
    "{1} loads its operands from memory as they are; only matmul and linear can compute one as "
    "they load it",
    "{1} can compute an operand as it loads it only if both are bf16 or both f16, the first is not "
    "transposed and the result has several columns",
    "with more than 64 rows {1} can compute its first operand as it loads it{4}",
    "{0} would run as {1} loads its operands, in the order of memory; a view between them selects "
    "or reorders elements",
    "{0} needs whole rows, and the main loop of {1} loads parts of them; at most elementwise ops "
    "(casts, activations) and gathers run there",
    "{0} moves elements; as {1} loads its operands, only elementwise ops run, and with more than "
    "64 "
    "rows gathers of the first one's rows",
    "a kernel that runs {0} as {1} loads its operand has only parts of the result of {0}, not what "
    "{5} needs",
    "a kernel that runs {0} as {1} loads its operand stores nothing that {0} makes, and some of it "
    "is needed in memory",
    "a kernel that runs {0} as {1} loads its operand cannot also reduce its result, as {5} does",
    "a kernel of two products loads their operands from memory as they are, so {0} must write its "
    "result before {1}",
    "{1} loads its queries and any mask from memory, and no other op runs ahead of its main loop; "
    "{0} must write its result first",
    "{1} loads keys and values from memory, again for each tile of queries; only a gather of them "
    "runs there, so {0} must write its result first",
    "{1} gathers keys and values itself in bf16 or f16, for at most 32 queries of the heads that "
    "share a key head; for others {0} stays a separate kernel",
    "{1} gathers keys and values itself where {0} takes whole pages along the first axis, and each "
    "row lies in one piece in its page",
    "the second contraction needs whole rows of the first, of which a tile holds a part; only an "
    "attention's softmax can run on parts",
    "two contractions side by side, and a kernel runs one main loop, except for up to four "
    "products of one input (more than 64 rows, weights of 2 axes in one layout){4}",
    "a kernel of several products cannot reduce their results, as {1} does",
    "{1} takes an element of each half of the columns of {0}, for which a kernel has tiles of both "
    "halves, and none of {5} beside them",
    "the scores between the two contractions are used elsewhere, so they must be written to memory",
    "{1} does not use the result of {0}; the other ops of a contraction's kernel work on its "
    "result",
    "the epilogue of {0} writes its tiles in order; {1} rearranges elements",
    "the epilogue of {0} processes its tiles in order; {1} reads an operand in a different order",
    "an epilogue computes each element from one element of the result of {0}{4}; {1} reads a part "
    "of that result as a tensor of its own",
    "the tiles of {0} hold only parts of what {1} reduces",
    "{1} needs whole rows of the result of {0}, of which a tile holds a part",
    "{1} cannot be combined across the tiles of {0}; sum, mean, max and logsumexp can",
    "the epilogue of {0} can perform only one reduction; {1} would be the second",
    "the epilogue of {0} accumulates 32-bit floats; {1} needs another type",
    "{1} reads the log-sum-exp of {0}, which is known after the rows of its first result",
    "below compute capability 8.0 the kernel of {1} computes one product and what follows it; {0} "
    "stays a separate kernel",
    "a general compiler leaves {0} to a library, as a separate kernel",
    "{0} needs whole rows in an order of its own, so it stays a separate kernel",
    "{0} takes the elements of its rows in order, and only elementwise ops run in its kernel",
    "{1} reads the result of {0} at other places than {5}, whose kernel takes elements in order",
    "a kernel has one scan at most; {0} and {1} are two",
    "another kernel must run between them: it uses the result of one, and the other uses its "
    "result",
    "fusecalc generates no {0} kernels; it counts their bytes only",
    "{0} makes integers; fusecalc generates scaled products for floating-point results only",
    "a tensor that {0} reads or writes is empty",
    "{0} would write a type that packs two elements into a byte",
    "{1} may leave rows as they were, so {0} has to write all of them before {1} runs",
    "{1} overwrites memory in place that other threads of {0} may not have read yet",
    "nothing uses the result of {0}",
    "{0} computes attention on integers; fusecalc generates it for floating point only",
    "the heads of {0} do not fit on chip",
    "a row of {0} and the sums of its columns do not fit one block's shared memory and registers",
    "{0} reads and writes more than the 500 tensors whose addresses a launch passes",
    "{0} is larger than what one launch covers",
};
static_assert(kReasons.size() == static_cast<std::size_t>(Obstacle::kTooLarge) + 1);

// Whether one contraction could compute both: of the same input, with their weights concatenated.
bool concatenate(const OpGraph& graph, const Op& one, const Op& other) {
  if (one.row != other.row || one.operands[0].tensor != other.operands[0].tensor) return false;
  const Attributes& a = *one.attributes;
  const Attributes& b = *other.attributes;
  const Shape& weights = graph.tensors[one.operands[1].tensor].type.shape;
  const Shape& others = graph.tensors[other.operands[1].tensor].type.shape;
  switch (one.row->family) {
    case OpFamily::kLinear: return true;
    case OpFamily::kMatmul:
      return weights.size() == 2 && others.size() == 2 && a.transpose_a == b.transpose_a;
    case OpFamily::kConvolution:
      return a.groups == 1 && b.groups == 1 && a.stride == b.stride && a.padding == b.padding &&
             a.dilation == b.dilation &&
             std::equal(weights.begin() + 1, weights.end(), others.begin() + 1, others.end());
    default: return false;
  }
}

// What the second op could compute with fewer rows, and what the first one makes instead.
std::string rows_and_operand(const OpGraph& graph, OpId maker, OpId product) {
  const Op& op = graph.ops[product];
  const auto makes = [&](std::size_t operand) {
    const TensorId tensor = op.operands[operand].tensor;
    return tensor != kNone && graph.value_of(tensor).producer == maker;
  };
  const bool linear = op.row->family == OpFamily::kLinear;
  std::string_view made = bias_of(op) != kNone && graph.value_of(bias_of(op)).producer == maker
                              ? "its bias"
                              : "its scales";
  if (makes(1)) made = linear ? "its weights" : "its second operand";
  if (makes(0)) made = makes(1) ? "both operands" : "its first operand";
  const bool uneven = linear && makes(1) && op.matrix.depth % 8 != 0;
  return fmt::format("{}; it has {} row{}{}, and {} makes {}",
                     linear ? ", with at most 32 its weights" : ", but not its second",
                     grouped_digits(op.matrix.rows), op.matrix.rows == 1 ? "" : "s",
                     uneven ? " of a length that 8 does not divide" : "",
                     graph.ops[maker].row->name, made);
}

std::string more_of(const OpGraph& graph, const Verdict& verdict) {
  if (verdict.first == kNone || verdict.second == kNone) return "";
  const Op& first = graph.ops[verdict.first];
  if (verdict.obstacle == Obstacle::kPrologueOperand) {
    return rows_and_operand(graph, verdict.first, verdict.second);
  }
  if (verdict.obstacle == Obstacle::kSideContraction &&
      concatenate(graph, first, graph.ops[verdict.second])) {
    const auto lines = weight_lines(graph, first);
    const auto others = weight_lines(graph, graph.ops[verdict.second]);
    return lines && others && lines != others
               ? "; here one's weights are stored as [in, out], the other's as [out, in]"
               : "; one contraction with their weights concatenated would read their common input "
                 "once";
  }
  const bool halves =
      verdict.obstacle == Obstacle::kEpiloguePart && first.row->family == OpFamily::kLinear;
  return halves ? ", or from one of each half of its columns" : "";
}

}  // namespace

std::string explain(const OpGraph& graph, const Verdict& verdict) {
  const auto kind = [&](OpId id) {
    return id == kNone ? std::string_view() : graph.ops[id].row->name;
  };
  const auto work = [&](OpId id) {
    return id == kNone ? std::string() : grouped_digits(graph.ops[id].work);
  };
  return fmt::format(fmt::runtime(kReasons[static_cast<std::size_t>(verdict.obstacle)]),
                     kind(verdict.first), kind(verdict.second), work(verdict.first),
                     work(verdict.second), more_of(graph, verdict), kind(verdict.third));
}

}  // namespace fusecalc
