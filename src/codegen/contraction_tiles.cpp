// Products in tiles, of as many rows as columns or about that: tensor cores bound them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "core/embedded.hpp"

namespace fusecalc {

// A width of contract_sm90's tiles, and what a tile takes on an H200, as measured.
struct TileWidth {
  std::uint64_t columns;
  std::uint64_t stages;
  // For 64 of k, in hundredths of cycles a column: the tensor cores' 400, and more where narrow
  // tiles fetch more bytes, which are paid for with the clock.
  std::uint64_t step;
  // Cycles, to start and end it (all of the epilogue where tiles are shared), and where the
  // epilogue reads a tensor as large as the result.
  std::uint64_t beside;
  std::uint64_t beside_reading;
};
constexpr std::array kTileWidths = {TileWidth{128, 6, 428, 1300, 1400},
                                    TileWidth{160, 6, 420, 900, 1850},
                                    TileWidth{256, 4, 400, 4500, 6000}};

namespace {

// Row units that are walked together: their part of A stays in the L2 while B streams through.
std::uint64_t group_of(const MatrixProduct& product, std::uint64_t unit_rows, std::uint64_t bytes) {
  constexpr std::uint64_t kResident = std::uint64_t{16} << 20U;
  return std::clamp<std::uint64_t>(
      kResident / std::max<std::uint64_t>(1, unit_rows * product.k * bytes), 8, 64);
}

constexpr std::uint64_t kTileRows = 128;  // of contract_sm90's tiles

}  // namespace

// Whether what follows the product reads a tensor from memory that is as large as the result.
bool ContractionWriter::reads_elsewhere() const {
  const std::uint64_t elements = graph_.tensors[op_.outputs[0]].elements;
  const auto comes_from_memory = [&](const Operand& operand) {
    if (operand.tensor == kNone || graph_.tensors[operand.tensor].elements != elements)
      return false;
    const OpId producer = graph_.value_of(operand.tensor).producer;
    return producer == kNone || !emitter_.contains(producer);
  };
  return std::ranges::any_of(emitter_.kernel(), [&](OpId id) {
    const Op& op = emitter_.op(id);
    return &op != &op_ && std::ranges::any_of(op.operands, comes_from_memory);
  });
}

// Blocks work in rounds, all on a tile at a time, and the last round is seldom full: the width that
// takes the least time in rounds. B as [k][n] comes in boxes of 64 columns.
const TileWidth& ContractionWriter::width_of_tiles(std::uint64_t cluster) const {
  const std::uint64_t clusters = std::max<std::uint64_t>(1, target_.multiprocessors / cluster);
  const std::uint64_t rows = ceil_div(product_.m, kTileRows * cluster) * product_.batches();
  const std::uint64_t steps = ceil_div(product_.k, 64);
  const bool reading = reads_elsewhere();
  const auto cycles = [&](const TileWidth& width) {
    if (product_.b.across && width.columns % 64 != 0) {
      return std::numeric_limits<std::uint64_t>::max();
    }
    const std::uint64_t rounds = ceil_div(rows * ceil_div(product_.n, width.columns), clusters);
    return rounds * (steps * width.step * width.columns / 100 +
                     (reading ? width.beside_reading : width.beside));
  };
  return *std::ranges::min_element(kTileWidths, {}, cycles);
}

// B's lines, fetched in the order in which lanes hold columns (contract_sm90.cuh).
MappedTensor ContractionWriter::map_in_order(const MatrixOperand& operand,
                                             std::uint64_t lines) const {
  MappedTensor map = map_of(operand, lines, 0);
  const std::uint64_t line = map.strides[0];
  map.extents = {product_.k, 2, lines / 8, 4};
  map.strides = {line, 8 * line, 2 * line};
  map.box = {64, 2, 4, 4};
  return map;
}

void ContractionWriter::write_sm90() {
  const std::uint64_t cluster = product_.m > kTileRows ? 2 : 1;
  const TileWidth& width = width_of_tiles(cluster);
  const std::uint64_t tile_n = width.columns;
  const bool one_b = product_.b.inner == 0 && product_.b.outer == 0;
  const bool in_order = !product_.b.across && one_b && product_.n % 8 == 0;
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  reserve_packed();
  result_.maps = {
      map_of(product_.a, product_.m, kTileRows),
      in_order ? map_in_order(product_.b, product_.n)
               : map_of(product_.b, product_.n, static_cast<std::uint32_t>(tile_n / cluster))};
  result_.source.architecture_bound = true;
  for (const char* block : {"hopper", "contract_sm90"}) {
    result_.source.text += std::string(embedded_kernel(block)) + "\n";
  }
  result_.source.text +=
      epilogue_.text() + shape(group_of(product_, kTileRows * cluster, 2)) +
      fmt::format("typedef ContractSm90<{}, {}, {}, {}, {}, Epilogue> Contract;\n",
                  name_of(operand_type()), tile_n, cluster, product_.a.across,
                  product_.b.across ? "LinesOfB::kAcross"
                  : in_order        ? "LinesOfB::kInOrder"
                                    : "LinesOfB::kAlong") +
      entry(fmt::format("__launch_bounds__(Contract::kThreads, 1) __cluster_dims__({}, 1, 1)",
                        cluster),
            "const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b",
            fmt::format("Contract::run(a, b, kShape, {});", epilogue_.made()));
  const std::uint64_t folds = tile_n * 4 * 4 * 2 * epilogue_.column_parts();
  result_.shared_bytes =
      static_cast<std::uint32_t>(width.stages * ((kTileRows + tile_n) * 128 + 16) + folds);
  result_.threads = 384;
  const std::uint64_t clusters =
      ceil_div(product_.m, kTileRows * cluster) * ceil_div(product_.n, tile_n) * product_.batches();
  result_.blocks =
      cluster * std::min(std::max<std::uint64_t>(1, target_.multiprocessors / cluster), clusters);
  result_.schedule = fmt::format("wgmma, tiles of 128 x {}", tile_n);
}

void ContractionWriter::write_sm80() {
  const DType type = operand_type();
  constexpr std::uint64_t kTile = 128;
  const std::string b = pointer_of(product_.b);
  epilogue_.write(product_, kTile);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  for (const char* block : {"mma", "contract_sm80"}) {
    result_.source.text += std::string(embedded_kernel(block)) + "\n";
  }
  const std::string_view element = stored_type(type);
  result_.source.text +=
      epilogue_.text() + shape(group_of(product_, kTile, bytes_of(type, 1))) + strides() +
      fmt::format("typedef ContractSm80<{}, {}, {}, {}, {}, {}, Epilogue> Contract;\n", element,
                  type == DType::kF32 ? "exact_f32" : element, alignment_of(product_.a),
                  alignment_of(product_.b), product_.a.across, product_.b.across) +
      entry("__launch_bounds__(256, Contract::kBlocksPerSm)", "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {});", a, b, epilogue_.made()));
  result_.shared_bytes = 65536;
  result_.threads = 256;
  result_.blocks = ceil_div(product_.m, kTile) * ceil_div(product_.n, kTile) * product_.batches();
  result_.schedule = "mma, tiles of 128 x 128";
}

}  // namespace fusecalc
