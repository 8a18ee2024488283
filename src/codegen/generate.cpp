#include "codegen/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <iterator>
#include <limits>
#include <numeric>

#include "codegen/elements.hpp"
#include "codegen/indices.hpp"
#include "codegen/memory_access.hpp"
#include "codegen/movement.hpp"
#include "codegen/schedule.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "plan/halves.hpp"
#include "plan/legality.hpp"
#include "plan/reordering.hpp"
#include "plan/siblings.hpp"

namespace fusecalc {

std::string preamble(const OpGraph& graph, std::uint64_t space) {
  std::uint64_t most = space;
  for (const Tensor& tensor : graph.tensors) most = std::max(most, tensor.elements);
  // Leaves room for the last block's threads beyond the end.
  constexpr std::uint64_t kMostIn32Bits = std::uint64_t{1} << 31U;
  std::string text = std::string(embedded_kernel("elements")) + '\n';
  text += fmt::format("typedef u{0} idx;\ntypedef i{0} signed_idx;\n\n",
                      most < kMostIn32Bits ? 32 : 64);
  for (const std::string_view part : {"arithmetic", "rows", "combine"}) {
    text += embedded_kernel(part);
    text += '\n';
  }
  return text;
}

Roots find_roots(const KernelView& kernel, std::uint64_t space) {
  Roots roots;
  std::vector<TensorId> all;
  for (const OpId id : kernel.ops()) {
    const Op& op = kernel.op(id);
    for (const TensorId output : op.outputs) {
      if (!kernel.needed_outside(output)) continue;
      // Of several results in one storage the last is what remains.
      const TensorId storage = kernel.graph().storage_of(output);
      if (op.row->access != Access::kScatter) {
        std::erase_if(
            all, [&](TensorId earlier) { return kernel.graph().storage_of(earlier) == storage; });
      }
      all.push_back(output);
    }
  }
  for (const TensorId output : all) {
    const Tensor& tensor = kernel.graph().tensors[output];
    const Op& op = kernel.op(tensor.producer);
    const bool scatters = op.row->access == Access::kScatter;
    const std::uint64_t elements = scatters ? op.work : tensor.elements;
    const bool looped = !kernel.phases().rows.empty();
    if (looped && kernel.ends_in_loss(tensor.producer) && output == op.outputs[0]) {
      roots.losses.push_back(tensor.producer);
    } else if (looped && kernel.is_row_result(output)) {
      roots.rows.push_back(output);
    } else if (elements == space) {
      roots.full.push_back(output);
    } else {
      roots.small.push_back(output);
    }
  }
  return roots;
}

bool has_windows(const KernelView& kernel) {
  return std::ranges::any_of(kernel.ops(),
                             [&](OpId id) { return kernel.op(id).row->access == Access::kWindow; });
}

unsigned group_width(const KernelView& kernel, const Roots& roots, std::uint64_t space) {
  constexpr std::uint64_t kAccessBytes = 16;
  std::uint64_t widest = 1;
  const auto consider = [&](TensorId id) {
    const Tensor& tensor = kernel.graph().tensors[id];
    if (tensor.elements >= space / 4) widest = std::max(widest, bytes_of(tensor.type.dtype, 1));
  };
  for (const TensorId id : roots.full) consider(id);
  for (const Phases::Use& use : kernel.phases().reads) consider(use.value);
  return static_cast<unsigned>(kAccessBytes / widest);
}

std::optional<RepeatedRead> passes_side_by_side(const KernelView& kernel, const Device& device,
                                                const LoopSpace& space) {
  std::uint64_t moved = 0;
  for (const Phases::Use& use : kernel.phases().reads) {
    moved += use.passes * bytes_of(use.dtype, use.elements);
  }
  for (const OpId id : kernel.ops()) {
    for (const TensorId output : kernel.op(id).outputs) {
      if (kernel.needed_outside(output)) moved += kernel.tensor(output).bytes;
    }
  }
  return repeated_reads(kernel.graph(), kernel.ops(), space, static_cast<double>(moved),
                        device.l2_bytes)
      .side_by_side;
}

std::string in_passes(std::string_view block, const RepeatedRead& passes, std::uint64_t of_pass,
                      std::uint64_t of_chunk) {
  // Elements of one pass before those of the next: what is written follows what was written last.
  constexpr std::uint64_t kInARow = std::uint64_t{1} << 19U;
  const std::uint64_t most = std::bit_floor(std::max<std::uint64_t>(1, kInARow / of_chunk));
  const std::uint64_t chunks = std::gcd(of_pass, most);
  return fmt::format(
      "({0} / {1} * {1} + {0} % {2} / {3} * {4} + {0} % {1} / {2} * {3} + {0} % {3})", block,
      of_pass * passes.passes, chunks * passes.passes, chunks, of_pass);
}

std::string element_function(KernelCode& code, std::string_view signature, TensorId tensor,
                             const std::string& index, ComputeType type) {
  const Loop no_loop;
  CodeBlock block;
  const Scope scope{code, no_loop, block};
  const Index at = scope.define_index(index, LanePattern::kUniform, false);
  const Value value = converted(element(scope, tensor, at), type);
  return fmt::format(
      "  __device__ __forceinline__ {} {} const {{\n    const int j = 0;\n{}    return {};\n  }}\n",
      name_of(type), signature, block.text("    "), value.text);
}

namespace {

// Where scatters put a value, and what all others store.
void store_update(const Scope& scope, TensorId tensor, const Index& at, const Value& value,
                  std::string_view guard) {
  const Op& op = scope.op(scope.tensor(tensor).producer);
  const Combine how = op.attributes->combine;
  if (how == Combine::kReplace) {
    store(scope, tensor, at, value, guard);
  } else {
    combine(scope, tensor, at, value, how, guard);
  }
}

}  // namespace

void store_small(const Scope& scope, TensorId tensor, const std::string& e) {
  const OpId producer = scope.tensor(tensor).producer;
  const Op& op = scope.op(producer);
  const bool scatters = op.row->access == Access::kScatter;
  const std::uint64_t elements = scatters ? op.work : scope.tensor(tensor).elements;
  const std::string guard = fmt::format("{} + j < {}", e, elements);
  const Index at = scope.define_index(fmt::format("{} ? {} + j : {}", guard, e, elements - 1),
                                      LanePattern::kScattered, false);
  if (scatters) {
    const Value value = element(scope, op.operands[2].tensor, at);
    store_update(scope, tensor, scatter_target(scope, producer, at), value, guard);
  } else {
    store(scope, tensor, at, element(scope, tensor, at), guard);
  }
}

namespace {

// A loop over a matrix visits the elements that the kernel has just made in their own order, and
// stores them in another.
std::optional<StridedMap> reordering_in_matrix(const Scope& scope, const Op& op) {
  const bool made_here = scope.loop.matrix && op.op_class == OpClass::kMovement &&
                         scope.view().makes(op.operands[0].tensor);
  return made_here ? reordering_of(scope.view().graph(), op) : std::nullopt;
}

}  // namespace

void store_full(const Scope& scope, const std::vector<TensorId>& tensors, std::string_view guard) {
  struct Store {
    TensorId tensor;
    Index at;
    Value value;
  };
  const Index& e = scope.loop.element;
  std::vector<Store> stores;
  for (const TensorId tensor : tensors) {
    const OpId producer = scope.tensor(tensor).producer;
    const Op& op = scope.op(producer);
    if (op.row->access == Access::kScatter) {
      stores.push_back(
          {tensor, scatter_target(scope, producer, e), element(scope, op.operands[2].tensor, e)});
    } else if (const auto reordering = reordering_in_matrix(scope, op)) {
      const TensorId value = scope.tensor(op.operands[0].tensor).value;
      const Index at = scope.loop.matrix->stores_last ? e : mapped(scope, e, inverse(*reordering));
      stores.push_back({tensor, at, element(scope, value, e)});
    } else if (const StridedMap* const order = scope.view().order_of(producer)) {
      const Index at = mapped_back(scope, e, *order);
      stores.push_back({tensor, at, element(scope, tensor, at)});
    } else {
      stores.push_back({tensor, e, element(scope, tensor, e)});
    }
  }
  for (const Store& each : stores) {
    store_update(scope, each.tensor, each.at, each.value, guard);
  }
}

namespace {

// Why reads may be more than predicted under any schedule.
std::string more_reads(const KernelView& kernel) {
  std::uint64_t space = 0;
  for (const OpId id : kernel.ops()) {
    const Access access = kernel.op(id).row->access;
    if (access == Access::kGather || access == Access::kScatter) {
      return "rows that several indices name are fetched again once the L2 has evicted them, and "
             "partial rows are fetched in whole sectors";
    }
    if (access == Access::kWindow) {
      return "elements of overlapping windows are fetched again once the L2 has evicted them";
    }
    space = std::max(space, kernel.op(id).work);
    for (const Outline::Input& input : kernel.graph().outline.inputs_of(id)) {
      if (input.shown < input.elements && !kernel.makes(input.tensor)) {
        return "what a view leaves out is fetched where it shares a sector with what it shows";
      }
    }
  }
  for (const Phases::Use& use : kernel.phases().reads) {
    constexpr std::uint64_t kTelling = 4096;
    const std::uint64_t elements = kernel.graph().tensors[use.value].elements;
    if (elements < space && elements > kTelling) {
      return "an operand that is read repeatedly is fetched again once the L2 has evicted it";
    }
  }
  return {};
}

GeneratedKernel generate_group(TrafficCounter& counter, const Kernel& kernel,
                               const Device& device) {
  const OpGraph& graph = counter.graph();
  const KernelView view(graph, counter.phases(), kernel);
  const Phases& phases = view.phases();
  if (phases.mixed_rows && !phases.crossed) {
    cannot_generate(graph.ops[kernel.front()], "its reductions have different rows");
  }
  if (const std::vector<Kernel> parts = sibling_parts(graph, kernel); !parts.empty()) {
    std::vector<KernelView> views;
    for (const Kernel& part : parts) views.emplace_back(graph, counter.phases(), part);
    return generate_siblings(views, device);
  }
  std::vector<OpId> contractions;
  std::ranges::copy_if(kernel, std::back_inserter(contractions),
                       [&](OpId id) { return graph.ops[id].op_class == OpClass::kContract; });
  const bool one = contractions.size() == 1 ||
                   (contractions.size() == 2 && halves_of(graph, kernel, contractions[0]));
  if (one && graph.ops[contractions[0]].row->family != OpFamily::kAttention) {
    return generate_contraction(view, contractions[0], device);
  }
  const Op& first = graph.ops[kernel.front()];
  if (first.row->family == OpFamily::kRowNormBackward) return generate_norm_backward(view, device);
  if (phases.crossed) {
    return generate_rows_and_columns(view, counter.phases().resolve(kernel), device);
  }
  if (first.row->family == OpFamily::kSort) return generate_sort(view, device);
  const auto scan = std::ranges::find_if(
      kernel, [&](OpId id) { return graph.ops[id].row->family == OpFamily::kScan; });
  GeneratedKernel result = !contractions.empty()  ? generate_attention(view, contractions, device)
                           : scan != kernel.end() ? generate_scan(view, *scan)
                           : phases.rows.empty()
                               ? generate_map(view, device)
                               : generate_rows(view, counter.rows_fit(phases), device);
  const bool gathers = std::ranges::any_of(
      kernel, [&](OpId id) { return graph.ops[id].row->access == Access::kGather; });
  if (result.gaps.more_reads.empty() && (contractions.empty() || gathers)) {
    result.gaps.more_reads = more_reads(view);
  }
  return result;
}

}  // namespace

void refuse(const OpGraph& graph, const Verdict& verdict) {
  const Op& op = graph.ops[verdict.first == kNone ? 0 : verdict.first];
  throw Error(Fault::kUnavailable,
              fmt::format("{} ({}) cannot be generated: {}", in_quotes(op.name), op.row->name,
                          explain(graph, verdict)));
}

GeneratedKernel generate(TrafficCounter& counter, const Kernel& kernel, const Device& device) {
  const OpGraph& graph = counter.graph();
  Verdict verdict = check_launch(counter.phases(), kernel, runner_rules(device));
  if (verdict.first == kNone) verdict.first = kernel.front();
  if (!verdict.legal()) refuse(graph, verdict);
  try {
    GeneratedKernel made = generate_group(counter, kernel, device);
    if (made.blocks > std::numeric_limits<std::int32_t>::max()) {
      cannot_generate(graph.ops[kernel.front()], "it has more blocks than a launch");
    }
    return made;
  } catch (const NoCode& missing) {
    assert(false);  // check_launch() accepts what has code
    throw Error(Fault::kUnavailable, missing.why + " has no code");
  }
}

}  // namespace fusecalc
