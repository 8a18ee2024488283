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
    CodeBlock loads = *block;
    loads.lanes.clear();
    CodeBlock changes = *block;
    changes.before.clear();
    return fmt::format(
        "  template <int kCount>\n  __device__ __forceinline__ auto {}(int batch, int head, i64 "
        "query, i64 column) const {{\n    const i64 q = ((i64)batch * {} + head) * {} + query;\n"
        "    const u32 q32 = (u32)q;\n    const i64 i = q * {} + column;\n"
        "{}    return [=]({} (&v)[kCount]) {{\n{}    }};\n  }}\n",
        name, parts_.heads, parts_.queries, parts_.keys, loads.text("    "), type,
        changes.text("      "));
  };
  return fmt::format(
      "struct Scores {{\n  static constexpr bool kActive = {}, kWeighs = {}, kInProportion = {};\n"
      "  static constexpr int kTogether = {};\n  static constexpr bool kEights = {};\n{}{}{}}};\n",
      parts_.scores.has_value(), parts_.weights.has_value(),
      in_proportion(graph_, kernel_.ops(), first_, last_), parts_.keys % 2 == 0 ? 2 : 1,
      scores_load_eights(), code_.parameters().members(), function("operator()", parts_.scores),
      function("weight", parts_.weights));
}

// Whether eight neighbouring scores need one load of eight aligned neighbours and nothing else.
bool AttentionWriter::scores_load_eights() const {
  if (!parts_.scores || parts_.keys % 8 != 0) return false;
  const std::string& before = parts_.scores->before;
  const std::size_t first = before.find("load_neighbours<8, ");
  return first != std::string::npos && first == before.rfind("load_neighbours<") &&
         before.find("load_input") == std::string::npos;
}

std::string AttentionWriter::made_scores() const {
  return plain() ? "PlainScores{}" : "Scores{" + code_.parameters().arguments() + "}";
}

std::string AttentionWriter::shape() const {
  return fmt::format(
      "constexpr AttentionShape kShape = {{{}, {}, {}, {}, {}, {}, {}, (float){:.17g}, {}, {}}};\n",
      parts_.batches, parts_.heads, parts_.key_heads, parts_.queries, parts_.keys,
      static_cast<std::int64_t>(parts_.keys) - static_cast<std::int64_t>(parts_.queries),
      parts_.window, parts_.scale, parts_.size, parts_.value_size);
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
