// Attention, as one op or as two products around a softmax: one of kernels/attention_*.cuh, with
// generated code for what is applied to the scores, the weights and the result.

#include <fmt/format.h>

#include <utility>

#include "codegen/attention_writer.hpp"
#include "codegen/kernel_facts.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"
#include "plan/capability.hpp"

namespace fusecalc {

// The Scores struct of attention.cuh.
std::string AttentionWriter::scores_struct() const {
  if (plain()) return {};
  const std::string_view type = name_of(epilogue_.made_type());
  const auto function = [&](std::string_view name, const std::optional<CodeBlock>& block) {
    if (!block) return std::string();
    return fmt::format(
        "  __device__ __forceinline__ {0} {1}(int batch, int head, i64 query, i64 key, {0} score) "
        "const {{\n    const i64 s = (((i64)batch * {2} + head) * {3} + query) * {4} + key;\n"
        "    {0} result = score;\n{5}    return result;\n  }}\n",
        type, name, parts_.heads, parts_.queries, parts_.keys, block->text("    "));
  };
  return fmt::format(
      "struct Scores {{\n  static constexpr bool kActive = {}, kWeighs = {}, kInProportion = {};\n"
      "{}{}{}}};\n",
      parts_.scores.has_value(), parts_.weights.has_value(), parts_.in_proportion,
      code_.parameters().members(), function("operator()", parts_.scores),
      function("weight", parts_.weights));
}

std::string AttentionWriter::made_scores() const {
  return plain() ? "PlainScores{}" : "Scores{" + code_.parameters().arguments() + "}";
}

std::string AttentionWriter::shape() const {
  return fmt::format(
      "constexpr AttentionShape kShape = {{{}, {}, {}, {}, {}, {}, (float){:.17g}, {}, {}}};\n",
      parts_.batches, parts_.heads, parts_.key_heads, parts_.queries, parts_.keys,
      static_cast<std::int64_t>(parts_.keys) - static_cast<std::int64_t>(parts_.queries),
      parts_.scale, parts_.size, parts_.value_size);
}

// Functions that load an operand's element, given its matrix, line and index in the line.
std::string AttentionWriter::operands_of_any() {
  std::string functions;
  for (std::size_t i = 0; i < parts_.operands.size(); ++i) {
    const Matrices& operand = parts_.operands[i];
    IndexTransform matrices;
    for (std::size_t axis = 0; axis < operand.batch.size(); ++axis) {
      matrices.append(operand.batch[axis], operand.order.batch[axis]);
    }
    functions += element_function(
        code_, fmt::format("{}(int matrix, int line, int k)", "qkv"[i]), operand.tensor,
        fmt::format("{} + (idx)line * {} + (idx)k * {}", matrices.text("((idx)matrix)"),
                    operand.order.line, operand.order.depth),
        epilogue_.made_type());
  }
  return functions;
}

// Without tensor cores: operands of any type and order.
void AttentionWriter::write_any() {
  const ComputeType type = epilogue_.made_type();
  const std::uint64_t element = type == ComputeType::kF64 ? 8 : 4;
  const auto shared_bytes = [&](std::uint64_t tile) {
    return attention_tile_bytes(tile, parts_.size, parts_.value_size, element);
  };
  std::uint64_t tile = 64;
  while (tile > kSmallestAttentionTile && shared_bytes(tile) > device_.on_chip_bytes) tile /= 2;
  if (shared_bytes(tile) > device_.on_chip_bytes) {
    refuse(graph_, {Obstacle::kHeads, last_});
  }
  const std::string functions = operands_of_any();
  epilogue_.write_attention(parts_.heads, parts_.queries,
                            parts_.batches * parts_.heads * parts_.queries, parts_.value_size);
  std::string& text = result_.source.text;
  text = epilogue_.preamble();
  for (const char* block : {"attention", "attention_any"}) {
    text += std::string(embedded_kernel(block)) + "\n";
  }
  text += shape() + scores_struct() + epilogue_.text() + "struct Operands {\n" +
          code_.parameters().members() + functions + "};\n";
  text += fmt::format(
      "typedef AttentionAny<{}, {}, {}, {}, {}, Operands, {}, Epilogue> Attention;\n",
      name_of(type), tile, parts_.size, parts_.value_size, parts_.causal, name_of_scores());
  const KernelFacts facts{.threads = tile / 4 * (tile / 4),
                          .shared_bytes = shared_bytes(tile),
                          .tile_rows = tile,
                          .tile_keys = tile};
  text += facts.asserted_of("Attention");
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(Attention::kThreads) fused({}) {{\n"
      "  Attention::run(kShape, {:.17g}, Operands{{{}}}, {}, {});\n}}\n",
      code_.parameters().declarations(), parts_.scale, code_.parameters().arguments(),
      made_scores(), epilogue_.made());
  facts.launch(result_);
  result_.blocks = ceil_div(parts_.queries, tile) * parts_.heads * parts_.batches;
  result_.schedule = fmt::format("attention without tensor cores, {} queries per block", tile);
}

GeneratedKernel AttentionWriter::write() {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  if (parts_.batches * parts_.heads > kMost || parts_.queries > kMost || parts_.keys > kMost) {
    cannot_generate(graph_.ops[last_], "it has more blocks than a launch");
  }
  if (fits_tensor_cores()) {
    write_tensor_cores();
  } else {
    write_any();
  }
  result_.source.entries = {"fused"};
  result_.storages = code_.parameters().storages();
  return std::move(result_);
}

GeneratedKernel generate_attention(const KernelView& kernel, const std::vector<OpId>& contractions,
                                   const Device& device) {
  if (contractions.size() > 2) {
    cannot_generate(kernel.op(contractions[2]), "a third contraction in one kernel");
  }
  return AttentionWriter(kernel, contractions, device).write();
}

}  // namespace fusecalc
