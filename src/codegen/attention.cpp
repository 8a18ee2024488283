// Attention, as one op or as two products around a softmax: one of kernels/attention_*.cuh, with
// generated code for what is applied to the scores, the weights and the result.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/attention_parts.hpp"
#include "codegen/ceil_div.hpp"
#include "codegen/epilogue.hpp"
#include "codegen/kernel_facts.hpp"
#include "codegen/schedule.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

// An operand in memory: distances, in elements, between its rows, heads and batches.
struct OperandStrides {
  TensorId tensor = kNone;
  std::uint64_t row = 0;
  std::uint64_t head = 0;
  std::uint64_t batch = 0;
};

class AttentionWriter {
 public:
  AttentionWriter(const KernelView& kernel, const std::vector<OpId>& contractions,
                  const Target& target)
      : kernel_(kernel),
        code_(kernel),
        graph_(kernel.graph()),
        op_(kernel.op(contractions.back())),
        target_(target),
        epilogue_(Epilogue::of_attention(code_, contractions.back())),
        parts_(attention_parts(code_, contractions.front(), contractions.back(),
                               epilogue_.made_type())) {}

  GeneratedKernel write();

 private:
  std::optional<OperandStrides> strides_of_operand(const Matrices& operand) const;
  bool find_strides();
  bool fits_tensor_cores();
  bool fits_copy_engine() const;
  void write_tensor_cores();
  void write_sm90();
  void write_sm80();
  void write_any();
  std::string operands_of_any();
  MappedTensor map_of(const OperandStrides& strides, const Matrices& operand, std::uint64_t heads,
                      std::uint32_t box) const;
  bool plain() const { return !parts_.scores && !parts_.weights; }
  std::string_view name_of_scores() const { return plain() ? "PlainScores" : "Scores"; }
  std::string scores_struct() const;
  std::string made_scores() const;
  std::string shape() const;
  std::string entry(std::string_view bounds, std::string_view parameters,
                    std::string_view operands) const;

  const KernelView& kernel_;
  KernelCode code_;
  const OpGraph& graph_;
  const Op& op_;
  const Target& target_;
  Epilogue epilogue_;
  AttentionParts parts_;
  OperandStrides q_, k_, v_;
  std::uint64_t head_ = 0;  // the head size that the tensor cores' building blocks are compiled for
  GeneratedKernel result_;
};

// Nothing if views or broadcasts leave no contiguous rows at a constant stride.
std::optional<OperandStrides> AttentionWriter::strides_of_operand(const Matrices& operand) const {
  const TensorId tensor = operand.tensor;
  const auto row = distance(graph_, tensor, operand.lines, operand.order.line);
  const auto along = distance(graph_, tensor, operand.columns, operand.order.depth);
  if (!row || !along || (operand.columns > 1 && *along != 1)) return std::nullopt;
  OperandStrides strides{.tensor = graph_.tensors[tensor].value, .row = *row};
  std::uint64_t extent = 1;  // of the axes before it that are one
  for (std::size_t i = 0; i < operand.batch.size(); ++i) {
    const auto apart = distance(graph_, tensor, operand.batch[i], operand.order.batch[i]);
    if (!apart) return std::nullopt;
    if (i + 1 == operand.batch.size()) {
      strides.head = *apart;
    } else if (operand.batch[i] > 1) {
      if (extent > 1 && strides.batch != *apart * operand.batch[i]) return std::nullopt;
      strides.batch = *apart;
      extent *= operand.batch[i];
    }
  }
  return strides;
}

bool AttentionWriter::find_strides() {
  const std::array to = {&q_, &k_, &v_};
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::optional<OperandStrides> strides = strides_of_operand(parts_.operands[i]);
    if (!strides) return false;
    *to[i] = *strides;
  }
  return true;
}

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

bool AttentionWriter::fits_copy_engine() const {
  if (target_.capability != 90 || head_ < 64) return false;
  return std::ranges::all_of(std::array{q_, k_, v_}, [&](const OperandStrides& strides) {
    const bool repeats = (parts_.batches > 1 && strides.batch == 0) ||
                         (parts_.heads > 1 && strides.head == 0 && parts_.key_heads > 1);
    return !repeats;
  });
}

MappedTensor AttentionWriter::map_of(const OperandStrides& strides, const Matrices& operand,
                                     std::uint64_t heads, std::uint32_t box) const {
  const auto bytes = [](std::uint64_t apart) { return apart > 0 ? apart * 2 : 16; };
  return {.storage = graph_.storage_of(strides.tensor),
          .dtype = graph_.tensors[strides.tensor].type.dtype,
          .extents = {operand.columns, operand.lines, heads, parts_.batches},
          .strides = {bytes(strides.row), bytes(strides.head), bytes(strides.batch)},
          .box = {64, box, 1, 1}};
}

std::string AttentionWriter::shape() const {
  return fmt::format(
      "constexpr AttentionShape kShape = {{{}, {}, {}, {}, {}, {}, (float){:.17g}, {}, {}}};\n",
      parts_.batches, parts_.heads, parts_.key_heads, parts_.queries, parts_.keys,
      static_cast<std::int64_t>(parts_.keys) - static_cast<std::int64_t>(parts_.queries),
      parts_.scale, parts_.size, parts_.value_size);
}

std::string AttentionWriter::entry(std::string_view bounds, std::string_view parameters,
                                   std::string_view operands) const {
  return fmt::format(
      "extern \"C\" __global__ void {} fused({}{}) {{\n"
      "  Attention::run({}, {}, {});\n}}\n",
      bounds, parameters, code_.parameters().declarations(), operands, made_scores(),
      epilogue_.made());
}

void AttentionWriter::write_sm90() {
  const std::uint32_t rows = head_ == 64 && plain() ? 192 : 128;
  const std::uint32_t keys = head_ <= 128 ? 128 : head_ <= 192 ? 96 : 80;
  result_.maps = {map_of(q_, parts_.operands[0], parts_.heads, rows),
                  map_of(k_, parts_.operands[1], parts_.key_heads, keys),
                  map_of(v_, parts_.operands[2], parts_.key_heads, keys)};
  const std::uint32_t boxes = (static_cast<std::uint32_t>(head_) + 63) / 64;
  const KernelFacts facts{.threads = 128 + rows * 2,
                          .shared_bytes = (rows + 4 * keys) * boxes * 128 + 128,
                          .tile_rows = rows,
                          .tile_keys = keys};
  result_.source.architecture_bound = true;
  result_.source.text += facts.asserted_of("Attention") +
                         entry("__launch_bounds__(Attention::kThreads, 1)",
                               "const __grid_constant__ TensorMap q, const __grid_constant__ "
                               "TensorMap k, const __grid_constant__ TensorMap v, ",
                               "q, k, v, kShape");
  facts.launch(result_);
  result_.blocks = ceil_div(parts_.queries, rows);
  result_.schedule = fmt::format("attention with wgmma, {} queries per block", rows);
}

void AttentionWriter::write_sm80() {
  const std::uint32_t rows = head_ <= 128 ? 128 : 64;
  const std::uint32_t keys = head_ <= 128 ? 64 : 32;
  const KernelFacts facts{.threads = rows * 2,
                          .shared_bytes = (rows + 2 * keys) * head_ * 2,
                          .tile_rows = rows,
                          .tile_keys = keys};
  result_.source.text +=
      facts.asserted_of("Attention") +
      fmt::format("constexpr AttentionStrides kStrides = {{{}, {}, {}, {}, {}, {}, {}, {}, {}}};\n",
                  q_.row, q_.head, q_.batch, k_.row, k_.head, k_.batch, v_.row, v_.head, v_.batch);
  result_.source.text +=
      entry("__launch_bounds__(Attention::kThreads)", "",
            fmt::format("{}, {}, {}, kShape, kStrides", code_.parameters().input(q_.tensor),
                        code_.parameters().input(k_.tensor), code_.parameters().input(v_.tensor)));
  facts.launch(result_);
  result_.blocks = ceil_div(parts_.queries, rows);
  result_.schedule = fmt::format("attention with mma, {} queries per block", rows);
}

// Whether a building block for tensor cores takes the operands.
bool AttentionWriter::fits_tensor_cores() {
  if (parts_.apart || !find_strides()) return false;
  const DType type = graph_.tensors[q_.tensor].type.dtype;
  for (const OperandStrides& strides : {q_, k_, v_}) {
    const bool aligned = (strides.row | strides.head | strides.batch) % 8 == 0;
    if (!aligned || graph_.tensors[strides.tensor].type.dtype != type) return false;
  }
  // Shorter lines are padded with zeros.
  constexpr std::array<std::uint64_t, 6> kHeads = {32, 64, 96, 128, 192, 256};
  const auto* head = std::ranges::find_if(
      kHeads, [&](std::uint64_t size) { return size >= std::max(parts_.size, parts_.value_size); });
  if (head == kHeads.end() || (parts_.size | parts_.value_size) % 8 != 0) return false;
  head_ = *head;
  constexpr std::uint64_t kMostBlocks = 65535;
  const bool blocks = parts_.heads <= kMostBlocks && parts_.batches <= kMostBlocks;
  const bool types =
      (type == DType::kBf16 || type == DType::kF16) && epilogue_.made_type() == ComputeType::kF32;
  return blocks && types && parts_.in_proportion && (parts_.scale > 0 || parts_.scores);
}

void AttentionWriter::write_tensor_cores() {
  for (const OperandStrides& strides : {q_, k_, v_}) code_.parameters().input(strides.tensor);
  epilogue_.write_attention(parts_.heads, parts_.queries,
                            parts_.batches * parts_.heads * parts_.queries, parts_.value_size);
  const bool copies = fits_copy_engine();
  std::string& text = result_.source.text;
  text = epilogue_.preamble();
  constexpr std::array kSm90 = {"attention", "hopper", "attention_sm90"};
  constexpr std::array kSm80 = {"attention", "mma", "attention_sm80"};
  for (const char* block : copies ? kSm90 : kSm80) {
    text += std::string(embedded_kernel(block)) + "\n";
  }
  text += shape() + scores_struct() + epilogue_.text();
  text += fmt::format("typedef {}<{}, {}, {}, {}, Epilogue> Attention;\n",
                      copies ? "AttentionSm90" : "AttentionSm80",
                      name_of(graph_.tensors[q_.tensor].type.dtype), head_, parts_.causal,
                      name_of_scores());
  if (copies) {
    write_sm90();
  } else {
    write_sm80();
  }
  result_.blocks_y = static_cast<unsigned>(parts_.heads);
  result_.blocks_z = static_cast<unsigned>(parts_.batches);
}

// Functions that load an operand's element, given its matrix, line and index in the line.
std::string AttentionWriter::operands_of_any() {
  std::string functions;
  for (std::size_t i = 0; i < parts_.operands.size(); ++i) {
    const Matrices& operand = parts_.operands[i];
    IndexMap matrices;
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
  if (!is_float(type)) cannot_generate(op_, "attention is computed in floating point");
  const std::uint64_t element = type == ComputeType::kF64 ? 8 : 4;
  const auto shared_bytes = [&](std::uint64_t tile) {
    return tile * (2 * (parts_.size | 1U) + (parts_.value_size | 1U) + (tile | 1U)) * element;
  };
  std::uint64_t tile = 64;
  while (tile > 32 && shared_bytes(tile) > target_.shared_bytes_per_block) tile /= 2;
  if (shared_bytes(tile) > target_.shared_bytes_per_block) {
    cannot_generate(op_, fmt::format("heads of {} and {} elements do not fit on chip", parts_.size,
                                     parts_.value_size));
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
  if (graph_.tensors[op_.outputs[0]].elements == 0) cannot_generate(op_, "its result is empty");
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  if (parts_.batches * parts_.heads > kMost || parts_.queries > kMost || parts_.keys > kMost) {
    cannot_generate(op_, "it has too many heads or rows");
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

}  // namespace

GeneratedKernel generate_attention(const KernelView& kernel, const std::vector<OpId>& contractions,
                                   const Target& target) {
  if (contractions.size() > 2) {
    cannot_generate(kernel.op(contractions[2]), "a third contraction in one kernel");
  }
  return AttentionWriter(kernel, contractions, target).write();
}

}  // namespace fusecalc
