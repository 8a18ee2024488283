// Attention with tensor cores: kernels/attention_sm80.cuh, attention_sm90.cuh,
// attention_alone_sm90.cuh and attention_few.cuh.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "codegen/attention_writer.hpp"
#include "codegen/kernel_facts.hpp"
#include "codegen/text.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"
#include "plan/attention_tiling.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kResidentBounds =
    "__launch_bounds__(Attention::kThreads, Attention::kBlocksPerSm)";

}  // namespace

std::string AttentionWriter::pointer_of(const OperandStrides& strides) {
  const std::string memory = code_.parameters().input(strides.tensor);
  return strides.offset == 0 ? memory : fmt::format("{} + {}", memory, strides.offset);
}

bool AttentionWriter::fits_copy_engine() const {
  if (device_.capability != kHopper || (head_ < 64 && !has_words())) return false;
  return std::ranges::all_of(std::array{q_, k_, v_}, [&](const OperandStrides& strides) {
    const bool repeats = (parts_.batches > 1 && strides.batch == 0) ||
                         (parts_.heads > 1 && strides.head == 0 && parts_.key_heads > 1);
    return !repeats;
  });
}

MappedTensor AttentionWriter::map_of(const OperandStrides& strides, const Matrices& operand,
                                     std::uint64_t heads, std::uint32_t box) const {
  constexpr std::uint32_t kLineBytes = 128;
  const auto bytes = [&](std::uint64_t apart) { return apart > 0 ? apart * element_bytes_ : 16; };
  return {.storage = graph_.storage_of(strides.tensor),
          .dtype = graph_.tensors[strides.tensor].type.dtype,
          .offset = strides.offset * element_bytes_,
          .extents = {operand.columns, operand.lines, heads, parts_.batches},
          .strides = {bytes(strides.row), bytes(strides.head), bytes(strides.batch)},
          .box = {kLineBytes / static_cast<std::uint32_t>(element_bytes_), box, 1, 1}};
}

std::string AttentionWriter::entry(std::string_view bounds, std::string_view parameters,
                                   std::string_view operands) const {
  return fmt::format(
      "extern \"C\" __global__ void {} fused({}{}{}) {{\n"
      "  Attention::run({}, {}, {}{});\n}}\n",
      bounds, parameters, code_.parameters().declarations(),
      result_.workspace_bytes > 0 ? ", u8* work" : "", operands, made_scores(), epilogue_.made(),
      result_.workspace_bytes > 0 ? ", work" : "");
}

void AttentionWriter::write_sm90() {
  const auto rows = static_cast<std::uint32_t>(sm90_rows());
  const bool alone = has_words() || attends_alone(head_, plain(), rows);
  const auto keys = static_cast<std::uint32_t>(tile_keys());
  result_.maps = {map_of(q_, parts_.operands[0], parts_.heads, rows),
                  map_of(k_, parts_.operands[1], parts_.key_heads, keys),
                  map_of(v_, parts_.operands[2], parts_.key_heads, keys)};
  const std::uint64_t line = ceil_div(head_ * element_bytes_, 128) * 128;
  const KernelFacts facts{.threads = alone ? 128 : 128 + rows * 2,
                          .shared_bytes = (has_words() ? 7 * rows : rows + 4 * keys) * line + 128,
                          .tile_rows = rows,
                          .tile_keys = keys};
  result_.source.architecture_bound = true;
  result_.source.text += facts.asserted_of("Attention") +
                         entry(kResidentBounds,
                               "const __grid_constant__ TensorMap q, const __grid_constant__ "
                               "TensorMap k, const __grid_constant__ TensorMap v, ",
                               "q, k, v, kShape");
  facts.launch(result_);
  result_.blocks = ceil_div(parts_.queries, rows);
  if (parts_.causal) {
    const std::uint64_t heads = parts_.batches * parts_.heads;
    const std::uint64_t together = heads_together(
        heads, parts_.heads / parts_.key_heads,
        parts_.keys * (parts_.size + parts_.value_size) * element_bytes_, device_.l2_bytes);
    result_.blocks_y = static_cast<unsigned>(std::exchange(result_.blocks, together));
    result_.blocks_z = static_cast<unsigned>(ceil_div(heads, together));
  }
  result_.schedule = fmt::format("attention with wgmma, {} queries per block", rows);
}

// Of a block.
std::uint64_t AttentionWriter::sm90_rows() const {
  if (has_words()) return kWordsTile;
  return attention_rows(head_, plain(),
                        {.heads = parts_.heads * parts_.batches,
                         .queries = parts_.queries,
                         .keys = parts_.keys,
                         .causal = parts_.causal,
                         .window = parts_.window},
                        std::max(1U, device_.multiprocessors));
}

std::uint64_t AttentionWriter::tile_keys() const {
  return has_words() ? kWordsTile : attention_tile_keys(head_, plain(), parts_.keys);
}

std::string AttentionWriter::strides() const {
  return fmt::format(
      "constexpr AttentionStrides kStrides = {{{}, {}, {}, {}, {}, {}, {}, {}, {}}};\n", q_.row,
      q_.head, q_.batch, k_.row, k_.head, k_.batch, v_.row, v_.head, v_.batch);
}

void AttentionWriter::write_sm80() {
  const auto [rows, keys] = mma_attention(head_, element_bytes_);
  const KernelFacts facts{.threads = rows * 2,
                          .shared_bytes = (rows + 2 * keys) * head_ * element_bytes_,
                          .tile_rows = rows,
                          .tile_keys = keys};
  result_.source.text += facts.asserted_of("Attention") + strides();
  result_.source.text += entry(
      "__launch_bounds__(Attention::kThreads)", "",
      fmt::format("{}, {}, {}, kShape, kStrides", pointer_of(q_), pointer_of(k_), pointer_of(v_)));
  facts.launch(result_);
  result_.blocks = ceil_div(parts_.queries, rows);
  result_.schedule = fmt::format("attention with mma, {} queries per block", rows);
}

// Of the operands.
std::string_view AttentionWriter::element() const {
  return name_of(graph_.tensors[q_.tensor].type.dtype);
}

std::optional<FewQueries> AttentionWriter::few_queries() const {
  const std::uint64_t rows = parts_.queries * (parts_.heads / parts_.key_heads);
  const std::optional<FewTiling> tiling =
      few_tiling(rows, head_, element_bytes_, device_.on_chip_bytes);
  if (!tiling) return std::nullopt;
  FewQueries few{.tiling = *tiling};
  const std::uint64_t seen = parts_.causal ? parts_.window + parts_.queries - 1 : parts_.keys;
  const std::uint64_t hidden = parts_.keys - std::min(parts_.keys, seen);
  const std::uint64_t tiles = ceil_div(parts_.keys, kFewTileKeys) - hidden / kFewTileKeys;
  few.keys = key_split(parts_.batches * parts_.key_heads, rows, tiles,
                       std::max(1U, device_.multiprocessors) * tiling->running);
  if (few.keys.parts == 1) {
    few.tiling.stages = std::clamp<std::uint64_t>(few.keys.tiles + 1, 2, tiling->stages);
  }
  return few;
}

// An operand's rows, as attention_few takes them.
std::string AttentionWriter::rows_of(const OperandStrides& strides) {
  const std::string_view element = stored_type(graph_.tensors[strides.tensor].type.dtype);
  const std::string first = pointer_of(strides);
  if (!strides.pages) {
    return fmt::format("OperandRows<{}>{{{}, {}, {}, {}}}", element, first, strides.row,
                       strides.head, strides.batch);
  }
  const PagedRows& pages = *strides.pages;
  return fmt::format("PagedRows<{}, {}, {}>{{{}, {} + {}, {}, {}, {}, {}}}", element,
                     stored_type(graph_.tensors[pages.table].type.dtype), pages.rows, first,
                     code_.parameters().input(pages.table), pages.entry, pages.page, pages.row,
                     pages.head, pages.batch);
}

void AttentionWriter::write_few(const FewQueries& few) {
  const KernelFacts facts{
      .threads = few.tiling.row_tiles * 128,
      .shared_bytes = few.tiling.shared_bytes(),
      .tile_rows = few.tiling.row_tiles * kFewTileRows,
      .tile_keys = kFewTileKeys,
      .row_workspace_bytes = few.keys.parts > 1 ? few.keys.parts * (head_ * 4 + 8) : 0};
  if (few.keys.parts > 1) {
    result_.workspace_bytes =
        parts_.batches *
        (parts_.heads * parts_.queries * facts.row_workspace_bytes + parts_.key_heads * 4);
    result_.gaps.more_writes = "blocks exchange partial results through memory";
  }
  result_.source.text +=
      facts.asserted_of("Attention") + entry(kResidentBounds, "",
                                             fmt::format("{}, {}, {}, kShape, {}", rows_of(q_),
                                                         rows_of(k_), rows_of(v_), few.keys.tiles));
  facts.launch(result_);
  result_.blocks = few.keys.parts;
  result_.blocks_y = static_cast<unsigned>(parts_.key_heads);
  result_.blocks_z = static_cast<unsigned>(parts_.batches);
  result_.schedule = "attention with mma, a key head's queries in one block";
  if (few.keys.parts > 1) {
    result_.schedule += fmt::format(", keys in {} parts", few.keys.parts);
  }
  if (k_.pages || v_.pages) result_.schedule += ", pages by a table";
}

bool AttentionWriter::fits_tensor_cores() {
  const std::optional<TensorCoreAttention> found =
      tensor_core_attention(graph_, kernel_.ops(), first_, last_, device_.capability);
  if (!found) return false;
  q_ = found->operands[0];
  k_ = found->operands[1];
  v_ = found->operands[2];
  head_ = found->head;
  element_bytes_ = found->element_bytes;
  parts_.key_heads = k_.heads;
  return true;
}

AttentionWriter::BuildingBlock AttentionWriter::few_block(const FewQueries& few) const {
  return {.files = {"attention", "mma", "attention_sm80", "attention_few"},
          .type = fmt::format("AttentionFew<{}, {}, {}, {}, {}", element(), head_,
                              few.tiling.row_tiles, few.tiling.stages, few.keys.parts)};
}

AttentionWriter::BuildingBlock AttentionWriter::sm90_block() const {
  if (has_words()) {
    return {.files = {"attention", "mma", "tf32_parts", "hopper", "attention_words_sm90"},
            .type = fmt::format("AttentionWordsSm90<{}", head_)};
  }
  BuildingBlock block{.files = {"attention", "hopper", "attention_sm90"}, .type = {}};
  if (attends_alone(head_, plain(), sm90_rows())) {
    block.files.emplace_back("attention_alone_sm90");
    block.type = fmt::format("AttentionAloneSm90<{}, {}", element(), tile_keys());
  } else {
    block.type = fmt::format("AttentionSm90<{}, {}, {}, {}", element(), head_, sm90_rows() / 64,
                             tile_keys());
  }
  return block;
}

AttentionWriter::BuildingBlock AttentionWriter::sm80_block() const {
  return {.files = {"attention", "mma", "attention_sm80"},
          .type = fmt::format("AttentionSm80<{}, {}", element(), head_)};
}

void AttentionWriter::write_tensor_cores() {
  for (const OperandStrides& strides : {q_, k_, v_}) {
    code_.parameters().input(strides.tensor);
    if (strides.pages) code_.parameters().input(strides.pages->table);
  }
  epilogue_.write_attention(parts_.heads, parts_.queries,
                            parts_.batches * parts_.heads * parts_.queries, parts_.value_size);
  const std::optional<FewQueries> few = few_queries();
  const bool copies = !few && fits_copy_engine();
  std::string& text = result_.source.text;
  text = epilogue_.preamble();
  const BuildingBlock block = few ? few_block(*few) : copies ? sm90_block() : sm80_block();
  for (const std::string_view file : block.files) text += std::string(embedded_kernel(file)) + "\n";
  text += shape() + scores_struct() + epilogue_.text() +
          fmt::format("typedef {}, {}, {}, Epilogue> Attention;\n", block.type, parts_.causal,
                      name_of_scores());
  result_.blocks_y = static_cast<unsigned>(parts_.heads);
  result_.blocks_z = static_cast<unsigned>(parts_.batches);
  if (few) {
    write_few(*few);
  } else if (copies) {
    write_sm90();
  } else {
    write_sm80();
  }
}

}  // namespace fusecalc
