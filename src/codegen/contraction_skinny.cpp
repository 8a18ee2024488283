// Products of few rows, or of one: moving the larger operand bounds them.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

// A matrix times a vector.
void ContractionWriter::write_vector() {
  const std::string b = pointer_of(product_.b);
  epilogue_.write(product_, 1);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const std::uint64_t align = std::min(
      alignment_of(product_.a),
      alignment_of(
          {.offset = product_.b.offset, .inner = product_.b.inner, .outer = product_.b.outer}));
  const std::uint64_t pack = std::min(align, 16 / bytes_of(operand_type(), 1));
  const std::uint64_t rows = product_.m * product_.batches();
  VectorSplit shares = vector_split(rows, product_.k / pack, std::max(1U, device_.multiprocessors));
  if (product_.a.tensor == kNone) shares.split = 1;  // the workspace is its copy's
  const KernelFacts facts{.threads = shares.threads,
                          .tile_rows = shares.threads / shares.lanes,
                          .tile_columns = 1,
                          .row_workspace_bytes = (shares.split + 1) * 4};
  if (shares.split > 1) epilogue_.reserve(rows * facts.row_workspace_bytes);
  result_.source.text +=
      blocks({"contract_vector"}) + epilogue_.text() + shape(8) +
      strided_entry(fmt::format("ContractVector<{}, {}, {}, {}", stored_type(operand_type()), align,
                                shares.lanes, shares.split),
                    facts, "", a, b, shares.split > 1 ? ", work" : "");
  facts.launch(result_);
  result_.blocks = ceil_div(rows, facts.tile_rows) * shares.split;
  if (shares.split > 1) {
    result_.gaps.more_writes = "blocks exchange partial sums through memory";
  }
  result_.schedule = shares.split > 1      ? fmt::format("{} blocks per row", shares.split)
                     : shares.lanes == 512 ? "one row per block"
                                           : fmt::format("{} threads per row", shares.lanes);
}

constexpr std::uint64_t kManyColumns = 16384;

// So few rows that reading B takes the time.
bool ContractionWriter::is_skinny() const {
  const DType type = operand_type();
  const std::uint64_t most_rows = fits_copy_engine(product_)  ? 64
                                  : product_.n < kManyColumns ? 32
                                                              : 16;
  return (type == DType::kBf16 || type == DType::kF16) && product_.m <= most_rows &&
         !product_.a.across && (!product_.b.across || fits_copy_engine(product_)) &&
         product_.k % 8 == 0 && alignment_of(product_.a) == 8 && alignment_of(product_.b) == 8 &&
         epilogue_.column_parts() == 0 && product_.batches() <= 65535 &&
         !(fits_copy_engine(product_) &&
           fills_low_tiles(product_.shape(), device_.multiprocessors));
}

void ContractionWriter::write_skinny() {
  if (fits_copy_engine(product_)) {
    write_skinny_sm90();
  } else {
    write_skinny_sm80();
  }
}

void ContractionWriter::write_skinny_sm90() {
  const std::uint64_t multiprocessors = std::max(1U, device_.multiprocessors);
  const std::uint64_t rows = product_.m <= 16 ? 16 : product_.m <= 32 ? 32 : 64;
  const std::uint64_t split = skinny_split(product_.shape(), multiprocessors);
  const std::uint64_t tiles = ceil_div(product_.n, kSkinnyColumns);
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write(product_, kSkinnyColumns);
  reserve_packed();
  result_.maps = {map_of(product_.a, product_.m, static_cast<std::uint32_t>(rows)),
                  map_of(product_.b, product_.n, static_cast<std::uint32_t>(kSkinnyColumns))};
  constexpr std::uint64_t kStagedBytes = std::uint64_t{104} << 10U;
  const std::uint64_t boxes = rows == 64 ? 2 : 4;
  const std::uint64_t stage = boxes * (rows + kSkinnyColumns) * 128;
  const KernelFacts facts{.threads = 128 + 32,
                          .shared_bytes = kStagedBytes / stage * (stage + 16),
                          .tile_rows = rows,
                          .tile_columns = kSkinnyColumns,
                          .tile_depth = boxes * box_elements(),
                          .blocks_per_cluster = split};
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"hopper", "stages", "contract_skinny_sm90"}) + epilogue_.text() + shape(8) +
      mapped_entry(fmt::format("ContractSkinnySm90<{}, {}, {}, {}", name_of(operand_type()), rows,
                               split, product_.b.across),
                   facts, "");
  facts.launch(result_);
  result_.blocks = tiles * split;
  result_.blocks_y = static_cast<unsigned>(product_.batches());
  result_.schedule = fmt::format("wgmma, tiles of {} x {}", rows, kSkinnyColumns);
  if (split > 1) result_.schedule += fmt::format(", k in {} parts", split);
}

bool ContractionWriter::computes_weights() const {
  const OpId producer = graph_.value_of(op_.operands[1].tensor).producer;
  return producer != kNone && kernel_.contains(producer);
}

// As many elements as the narrowest tensor that is read for them has in 16 bytes, at most 32.
unsigned ContractionWriter::width_of_weights() const {
  const std::uint64_t elements = graph_.tensors[op_.operands[1].tensor].elements;
  unsigned width = 8;
  for (const OpId id : kernel_.ops()) {
    if (id == id_) continue;
    for (const Operand& operand : kernel_.op(id).operands) {
      if (operand.tensor == kNone || graph_.tensors[operand.tensor].elements != elements) continue;
      const DType type = graph_.tensors[operand.tensor].type.dtype;
      width =
          std::max(width, is_packed(type) ? 32U : 16U / static_cast<unsigned>(bytes_of(type, 1)));
    }
  }
  while (product_.k % width != 0) width /= 2;
  return width;
}

// The Weights struct of contract_skinny.cuh. What lies beyond the matrix is read at its edge: A has
// zeros there, or the result is not stored.
std::string ContractionWriter::weights_struct() {
  const unsigned width = width_of_weights();
  const Loop loop{.element = {.name = "i", .pattern = LanePattern::kUnit}};
  CodeBlock block = block_of(width);
  const std::string_view type = stored_type(operand_type());
  const Value value = element({code_, loop, block}, op_.operands[1].tensor, loop.element);
  block.before += fmt::format("Pack<{}, {}> y;\n", type, width);
  block.lanes += fmt::format("store_as(y.v[j], {});\n", converted(value, ComputeType::kF32).text);
  return fmt::format(
      "struct Weights {{\n  static constexpr int kWide = {0};\n{1}"
      "  __device__ __forceinline__ void operator()(int, int, int line, int k, bool, u32 "
      "(&words)[{0} / 2]) const {{\n"
      "    const i64 i = (i64)min(line, {2}) * {3} + min(k, {4});\n{5}"
      "    memcpy(words, &y, sizeof(words));\n  }}\n}};\n",
      width, code_.parameters().members(), product_.n - 1, product_.k, product_.k - width,
      block.text("    "));
}

void ContractionWriter::write_skinny_sm80() {
  const bool computed = computes_weights();
  const std::uint64_t row_tiles = product_.m <= 16 ? 1 : 2;
  constexpr std::uint64_t kVeryFewRows = 4;
  const std::uint64_t column_tiles = computed && product_.m <= kVeryFewRows   ? 2
                                     : computed || product_.n >= kManyColumns ? 4
                                                                              : 1;
  const std::uint64_t tile_n = 8 * column_tiles;
  const std::string b = computed ? std::string() : pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const KernelFacts facts{.threads = 256,
                          .shared_bytes = row_tiles * tile_n * 8 * 16 * 4,
                          .tile_rows = 16 * row_tiles,
                          .tile_columns = tile_n};
  const std::string weights = computed ? weights_struct() : std::string();
  const std::string stored = fmt::format("StoredWeights<{}>", name_of(operand_type()));
  result_.source.text +=
      blocks({"mma", "contract_skinny"}) + weights + epilogue_.text() + shape(8) +
      strided_entry(fmt::format("ContractSkinny<{}, {}, {}, {}", name_of(operand_type()), row_tiles,
                                column_tiles, computed ? "Weights" : stored),
                    facts, "", a,
                    computed ? fmt::format("Weights{{{}}}", code_.parameters().arguments())
                             : fmt::format("{}{{{}, kStrides}}", stored, b));
  facts.launch(result_);
  result_.blocks = ceil_div(product_.n, tile_n);
  result_.blocks_y = static_cast<unsigned>(product_.batches());
  result_.schedule = fmt::format("mma from registers, tiles of {} x {}", 16 * row_tiles, tile_n);
  if (computed) result_.schedule += ", weights computed as they are read";
}

}  // namespace fusecalc
