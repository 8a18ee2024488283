// Products in tiles, about as many rows as columns: bound by the tensor cores.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

// Whether what follows the product reads a tensor from memory that is as large as the result.
bool ContractionWriter::reads_elsewhere() const {
  const std::uint64_t made = graph_.tensors[op_.outputs[0]].elements;
  const std::optional<Halves>& halves = epilogue_.halves();
  const OpId other = halves ? halves->other : kNone;
  const std::uint64_t elements = halves && other == kNone ? made / 2 : made;
  const auto comes_from_memory = [&](const Operand& operand) {
    if (operand.tensor == kNone || graph_.tensors[operand.tensor].elements != elements)
      return false;
    const OpId producer = graph_.value_of(operand.tensor).producer;
    return producer == kNone || !kernel_.contains(producer);
  };
  return std::ranges::any_of(kernel_.ops(), [&](OpId id) {
    return id != id_ && id != other &&
           std::ranges::any_of(kernel_.op(id).operands, comes_from_memory);
  });
}

// B's lines, fetched in the order in which lanes hold columns (contract_sm90.cuh).
MappedTensor ContractionWriter::map_in_order(const MatrixOperand& operand,
                                             std::uint64_t lines) const {
  MappedTensor map = map_of(operand, lines, 0);
  const std::uint64_t line = map.strides[0];
  map.extents = {product_.k, 2, lines / 8, 4};
  map.strides = {line, 8 * line, 2 * line};
  map.box = {box_elements(), 2, 4, 4};
  return map;
}

void ContractionWriter::write_sm90() {
  const std::uint64_t cluster = product_.m > kTileRows ? 2 : 1;
  ProductShape size = in_halves(product_.shape(), bytes_of(operand_type(), 1));
  size.halves = epilogue_.halves().has_value();
  const TileWidth& width =
      width_of_tiles(size, cluster, std::max(1U, device_.multiprocessors), reads_elsewhere());
  const std::uint64_t tile_n = width.columns;
  const bool one_b = product_.b.inner == 0 && product_.b.outer == 0;
  const bool in_order = !product_.b.across && one_b && product_.n % 8 == 0;
  pointer_of(product_.a);
  pointer_of(product_.b);
  if (size.halves) pointer_of(second_half());
  // Other orders of lines leave too few registers.
  epilogue_.write(product_, tile_n,
                  {.loads_ahead = tile_n == 256 && in_order && !product_.a.across});
  reserve_packed();
  result_.maps = {map_of(product_.a, product_.m, kTileRows)};
  if (size.halves) {
    result_.maps.push_back(map_in_order(product_.b, product_.n / 2));
    result_.maps.push_back(map_in_order(second_half(), product_.n / 2));
  } else {
    const auto lines = static_cast<std::uint32_t>(tile_n / cluster);
    result_.maps.push_back(in_order ? map_in_order(product_.b, product_.n)
                                    : map_of(product_.b, product_.n, lines));
  }
  const std::uint64_t accumulators = tile_n * 4 * 4 * 2 * epilogue_.column_parts();
  const KernelFacts facts{
      .threads = 384,
      .shared_bytes = width.stages * ((kTileRows + tile_n) * 128 + 16) + accumulators,
      .tile_rows = kTileRows,
      .tile_columns = tile_n,
      .tile_depth = box_elements(),
      .blocks_per_cluster = cluster};
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"hopper", "stages", "contract_sm90"}) + epilogue_.text() +
      shape(group_of(size, kTileRows * cluster, 2)) +
      mapped_entry(fmt::format("ContractSm90<{}, {}, {}, {}, {}", name_of(operand_type()), tile_n,
                               cluster, product_.a.across,
                               product_.b.across ? "LinesOfB::kAcross"
                               : in_order        ? "LinesOfB::kInOrder"
                                                 : "LinesOfB::kAlong"),
                   facts, ", 1");
  facts.launch(result_);
  const std::uint64_t clusters =
      ceil_div(product_.m, kTileRows * cluster) * ceil_div(product_.n, tile_n) * product_.batches();
  result_.blocks =
      cluster * std::min(std::max<std::uint64_t>(1, device_.multiprocessors / cluster), clusters);
  result_.schedule = fmt::format("wgmma, tiles of 128 x {}", tile_n);
}

void ContractionWriter::write_halves() {
  const bool shares_b = product_.b.inner == 0 && product_.b.outer == 0;
  if (fits_copy_engine(product_) && shares_b && product_.n % 16 == 0) {
    write_sm90();
  } else {
    write_sm80();
  }
}

void ContractionWriter::write_sm80() {
  const DType type = operand_type();
  constexpr std::uint64_t kTile = 128;
  std::string b = pointer_of(product_.b);
  if (epilogue_.halves()) b += ", " + pointer_of(second_half());
  epilogue_.write(product_, kTile);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const std::string_view element = stored_type(type);
  const std::uint64_t most = is_fp8(type) ? 16 : 8;
  const KernelFacts facts{
      .threads = 256, .shared_bytes = 65536, .tile_rows = kTile, .tile_columns = kTile};
  result_.source.text +=
      blocks({"mma", "contract_sm80"}) + epilogue_.text() +
      shape(group_of(product_.shape(), kTile, bytes_of(type, 1))) +
      strided_entry(
          fmt::format("ContractSm80<{}, {}, {}, {}, {}, {}", element,
                      type == DType::kF32 ? "exact_f32" : element, alignment_of(product_.a, most),
                      alignment_of(product_.b, most), product_.a.across, product_.b.across),
          facts, ", Contract::kBlocksPerSm", a, b);
  facts.launch(result_);
  result_.blocks = ceil_div(product_.m, kTile) * ceil_div(product_.n, kTile) * product_.batches();
  result_.schedule = "mma, tiles of 128 x 128";
}

}  // namespace fusecalc
