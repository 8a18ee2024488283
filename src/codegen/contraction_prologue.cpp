// Products whose first operand is made inside their kernel (kernels/prologue.cuh).

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

bool ContractionWriter::computes_rows() const {
  const OpId producer = graph_.value_of(op_.operands[0].tensor).producer;
  return producer != kNone && kernel_.contains(producer);
}

// As if the operand lay in memory in its own order; distances in lines.
std::optional<MatrixProduct> ContractionWriter::in_lines() const {
  std::optional<MatrixProduct> product = matrix_product(graph_, op_, 0, true);
  if (!product) return std::nullopt;
  product->a = {.tensor = graph_.tensors[op_.operands[0].tensor].value,
                .line = 1,
                .inner = product->a.inner / product->k,
                .outer = product->a.outer / product->k};
  return product;
}

// The body of load(): what is loaded for eight neighbours, and a function that makes them.
std::string ContractionWriter::prologue_body() {
  const TensorId tensor = op_.operands[0].tensor;
  const std::uint64_t k = product_.k;
  const bool whole = k % 8 == 0;
  const auto align = static_cast<unsigned>((k | 8) & (~(k | 8) + 1));
  const Loop loop{
      .element = {.name = "i", .pattern = LanePattern::kUnit, .aligned = false, .align = align},
      .matrix = MatrixLoop{.rows = graph_.tensors[tensor].elements / k,
                           .columns = k,
                           .quick = true,
                           .whole = whole}};
  CodeBlock block = block_of(8);
  const Value value =
      converted(element({code_, loop, block}, tensor, loop.element), ComputeType::kF32);
  CodeBlock made = block_of(8);
  made.before = "float y[8];\n";
  made.lanes = block.lanes + (whole ? fmt::format("y[j] = {};\n", value.text)
                                    : fmt::format("y[j] = j < valid ? {} : 0.0f;\n", value.text));
  made.after = fmt::format(
      "Pack<{}, 8> pack;\nstore_lanes(pack, y);\nmemcpy(words, &pack, sizeof(words));\n",
      stored_type(operand_type()));
  block.lanes.clear();
  return block.text("    ") + "    return [=](u32 (&words)[4]) {\n" + made.text("      ") +
         "    };\n";
}

// Once all of the kernel's pointers were requested.
std::string ContractionWriter::prologue_struct(const std::string& body,
                                               std::uint64_t beside) const {
  return fmt::format(
      "struct Prologue {{\n  static constexpr bool kHere = true;\n"
      "  static constexpr int kBeside = {};\n"
      "  static constexpr i64 kInner = {}, kOuter = {};\n  typedef {} Valid;\n{}"
      "  __device__ __forceinline__ auto load(i64 q, i64 column, Valid valid) const {{\n"
      "    const u32 q32 = (u32)q;\n    const i64 i = q * {} + column;\n{}  }}\n}};\n",
      beside, product_.a.inner, product_.a.outer, product_.k % 8 == 0 ? "Eight" : "int",
      code_.parameters().members(), product_.k, body);
}

std::string ContractionWriter::prologue_made() const {
  return fmt::format("Prologue{{{}}}", code_.parameters().arguments());
}

void ContractionWriter::write_prologue() {
  if (!strided_) {
    write_any();
  } else if (fits_copy_engine(product_)) {
    write_prologue_sm90();
  } else {
    write_prologue_sm80();
  }
}

void ContractionWriter::write_prologue_sm90() {
  const ProductTiling tiles = made_tiling(product_.shape());
  const std::uint64_t tile_n = tiles.width.columns;
  const std::uint64_t cluster = tiles.blocks();
  const bool one_b = product_.b.inner == 0 && product_.b.outer == 0;
  const bool in_order = !product_.b.across && one_b && product_.n % 8 == 0;
  const std::string body = prologue_body();
  pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  result_.maps = {
      in_order ? map_in_order(product_.b, product_.n)
               : map_of(product_.b, product_.n, static_cast<std::uint32_t>(tile_n / tiles.above))};
  const KernelFacts facts = sm90_facts(tiles, product_.shape());
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"hopper", "stages", "rounds", "contract_sm90", "prologue_sm90"}) +
      prologue_struct(body, tiles.beside) + epilogue_.text() +
      shape(group_of(product_.shape(), kTileRows * tiles.above, 2)) +
      fmt::format(
          "typedef ContractSm90<{}, {}, {}, false, {}, Epilogue, MatrixB, Prologue> "
          "Contract;\n",
          name_of(operand_type()), tile_n, tiles.above, lines_of_b(in_order)) +
      facts.asserted_of("Contract") +
      entry(fmt::format("__launch_bounds__(Contract::kThreads, 1) __cluster_dims__({}, 1, 1)",
                        cluster),
            "const __grid_constant__ TensorMap b",
            fmt::format("Contract::run({}, b, kShape, {});", prologue_made(), epilogue_.made()));
  facts.launch(result_);
  result_.blocks = sm90_blocks(tiles, product_.shape());
  if (tiles.beside > 1) result_.persistent_cluster = static_cast<unsigned>(cluster);
  result_.schedule =
      fmt::format("wgmma, tiles of 128 x {}, rows computed as they are read", tile_n);
}

void ContractionWriter::write_prologue_sm80() {
  const std::string body = prologue_body();
  const std::string b = pointer_of(product_.b);
  const MmaTile tile = mma_tiling(product_.shape(), mma_operands(), device_).tile;
  epilogue_.write(product_, tile.columns);
  const std::string work = launch_sm80(tile, ceil_div(product_.n, tile.columns));
  result_.source.text +=
      blocks({"mma", "operand_sm80", "contract_sm80"}) + prologue_struct(body, 1) +
      epilogue_.text() + shape(group_of(product_.shape(), tile.rows, 2)) + strides() +
      fmt::format("typedef {}, Epilogue, Prologue> Contract;\n", contract_sm80(tile)) +
      sm80_facts(tile).asserted_of("Contract") +
      entry("__launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)", "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {}{});", prologue_made(), b,
                        epilogue_.made(), work));
  result_.schedule += ", rows computed as they are read";
}

}  // namespace fusecalc
