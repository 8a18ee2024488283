// Products in tiles, about as many rows as columns: bound by the tensor cores.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "graph/product_parts.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

namespace {

// Whether what follows a product of a kernel reads a tensor from memory that is as large as the
// result.
bool reads_as_much(const KernelView& kernel, OpId product, const std::optional<Halves>& halves) {
  const std::uint64_t made = kernel.tensor(kernel.op(product).outputs[0]).elements;
  const OpId other = halves ? halves->other : kNone;
  const std::uint64_t elements = halves && other == kNone ? made / 2 : made;
  const auto comes_from_memory = [&](const Operand& operand) {
    return operand.tensor != kNone && kernel.tensor(operand.tensor).elements == elements &&
           !kernel.makes(operand.tensor);
  };
  return std::ranges::any_of(kernel.ops(), [&](OpId id) {
    return id != product && id != other &&
           std::ranges::any_of(kernel.op(id).operands, comes_from_memory);
  });
}

}  // namespace

// Of siblings, all have to.
bool ContractionWriter::reads_elsewhere() const {
  return reads_as_much(kernel_, id_, epilogue_.halves()) &&
         std::ranges::all_of(siblings_, [](const Sibling& sibling) {
           return reads_as_much(sibling.code.view(), sibling.id, std::nullopt);
         });
}

std::vector<MatrixOperand> ContractionWriter::sources_of_b() const {
  if (!padded_b_.empty()) return padded_b_;
  std::vector<MatrixOperand> sources = {product_.b};
  if (epilogue_.halves()) sources.push_back(second_half());
  for (const Sibling& sibling : siblings_) {
    MatrixOperand& source = sources.emplace_back(product_.b);
    source.tensor = graph_.tensors[sibling.op.operands[1].tensor].value;
    if (source.across) source.line = sibling.op.matrix.columns;
  }
  return sources;
}

ProductShape ContractionWriter::tiled_shape() const {
  ProductShape shape = product_.shape();
  shape.halves = epilogue_.halves().has_value();
  shape.scaled_columns = scaled_columns(graph_, op_);
  if (siblings_.empty()) return shape;
  shape.parts = {product_.n};
  for (const Sibling& sibling : siblings_) {
    shape.parts.push_back(sibling.op.matrix.columns);
    shape.n += sibling.op.matrix.columns;
  }
  return shape;
}

void ContractionWriter::write_epilogues(std::uint64_t tile_columns,
                                        const Epilogue::Services& services) {
  epilogue_.write(product_, tile_columns, siblings_.empty() ? services : Epilogue::Services{});
  for (Sibling& sibling : siblings_) {
    MatrixProduct product = product_;
    product.n = sibling.op.matrix.columns;
    sibling.epilogue.write(product, tile_columns);
  }
}

std::string ContractionWriter::epilogue_text() const {
  if (siblings_.empty()) return epilogue_.text();
  std::string structs = epilogue_.text();
  std::string type = fmt::format("SideBySide<Epilogue0, {}", op_.matrix.columns);
  for (std::size_t i = 0; i < siblings_.size(); ++i) {
    structs += siblings_[i].epilogue.text();
    type += fmt::format(", SideBySide<Epilogue{}, {}", i + 1, siblings_[i].op.matrix.columns);
  }
  return structs +
         fmt::format("typedef {}{} Epilogue;\n", type, std::string(siblings_.size() + 1, '>'));
}

std::string ContractionWriter::made_epilogue() const {
  if (siblings_.empty()) return epilogue_.made();
  std::string text = fmt::format("Epilogue{{{}", epilogue_.made());
  for (const Sibling& sibling : siblings_) {
    text += fmt::format(", {{{}", sibling.epilogue.made());
  }
  return text + ", {}" + std::string(siblings_.size() + 1, '}');
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

KernelFacts ContractionWriter::sm90_facts(const ProductTiling& tiling,
                                          const ProductShape& size) const {
  const TileWidth& width = tiling.width;
  const std::uint64_t accumulators =
      width.columns * 4 * 4 * width.consumers() * epilogue_.column_parts();
  const std::uint64_t terms =
      width.keeps_terms() ? width.columns * 4 * width.consumers() * epilogue_.terms() : 0;
  // Those of the widest tiles take the place of a stage.
  const std::uint64_t stages =
      width.stages_of(size) - (width.columns > 256 && accumulators > 0 ? 1 : 0);
  return {
      .threads = 128 * (width.consumers() + 1),
      .shared_bytes = stages * width.stage_bytes(size) + accumulators + terms + scale_bytes(width),
      .tile_rows = width.rows,
      .tile_columns = width.columns,
      .tile_depth = box_elements(),
      .blocks_per_cluster = tiling.blocks()};
}

std::string ContractionWriter::matrix_source(const TileWidth& width) {
  return width.rows != kTileRows ? fmt::format("MatrixOf<{}>", width.rows) : "MatrixB";
}

std::string_view ContractionWriter::lines_of_b(bool in_order) const {
  if (product_.b.across) return "LinesOfB::kAcross";
  return in_order ? "LinesOfB::kInOrder" : "LinesOfB::kAlong";
}

// At most one for each multiprocessor: they go from tile to tile.
std::uint64_t ContractionWriter::sm90_blocks(const ProductTiling& tiling,
                                             const ProductShape& size) const {
  const std::uint64_t blocks = tiling.blocks();
  const std::uint64_t at_once = std::max<std::uint64_t>(1, device_.multiprocessors / blocks);
  return blocks * std::min(at_once, tiling.clusters(size));
}

std::string ContractionWriter::sm90_more(const std::string& source, std::uint64_t beside,
                                         const ProductShape& size) const {
  const std::string_view sums = size.exact                ? ", ExactSums"
                                : size.scaled_columns > 0 ? ", Scales"
                                                          : "";
  const bool grouped = product_.groups > 0;
  if (source == "MatrixB" && beside == 1 && !grouped && sums.empty()) return "";
  return fmt::format(", {}, NoPrologue, {}{}{}", source, beside,
                     grouped || sums.empty() ? groups_type("") : ", NoGroups", sums);
}

std::string ContractionWriter::sums_text(const ProductShape& size) const {
  return size.exact ? blocks({"tf32_parts", "exact_steps"}) : scales_text();
}

void ContractionWriter::write_sm90() {
  const ProductShape size = in_halves(tiled_shape(), operand_type());
  const ProductTiling tiling =
      tiling_of(product_tilings(size, std::max(1U, device_.multiprocessors), reads_elsewhere()));
  const std::uint64_t tile_n = tiling.width.columns;
  // Matrices of groups that follow each other are lines of one.
  constexpr std::uint64_t kMostLines = std::numeric_limits<std::int32_t>::max();
  const bool follow = product_.groups > 0 && product_.b.outer == product_.n * product_.b.line &&
                      product_.groups * product_.n < kMostLines;
  const bool one_b = product_.b.inner == 0 && (product_.b.outer == 0 || follow);
  const std::vector<MatrixOperand> sources = sources_of_b();
  std::vector<std::uint64_t> lines = size.parts;  // of each source
  if (lines.empty()) lines.assign(sources.size(), product_.n / sources.size());
  const bool eights =
      std::ranges::all_of(lines, [](std::uint64_t count) { return count % 8 == 0; });
  // Copies have whole eights of lines.
  const bool copies = std::ranges::all_of(
      sources, [](const MatrixOperand& source) { return source.tensor == kNone; });
  const bool in_order = !product_.b.across && one_b && (eights || copies);
  pointer_of(product_.a);
  for (const MatrixOperand& source : sources) pointer_of(source);
  request_ends();
  const bool scaled = size.scaled_columns > 0;
  if (scaled) request_scales(size.scales_together());
  // Other orders of lines leave too few registers, and so do sums of a step.
  write_epilogues(tile_n, {.loads_ahead = tiling.width.loads_ahead() && in_order && eights &&
                                          !product_.a.across && !scaled && !size.exact});
  reserve_packed();
  const auto box_a = static_cast<std::uint32_t>(tiling.width.rows / tiling.beside);
  const auto box_b = static_cast<std::uint32_t>(tile_n / tiling.above);
  result_.maps = {map_of(product_.a, product_.m, box_a)};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::uint64_t before = follow ? (product_.groups - 1) * product_.n : 0;
    result_.maps.push_back(in_order ? map_in_order(sources[i], before + ceil_div(lines[i], 8) * 8)
                                    : map_of(sources[i], lines[i], box_b));
  }
  if (!siblings_.empty()) product_.n = size.column_tiles(tile_n) * tile_n;
  const KernelFacts facts = sm90_facts(tiling, size);
  result_.source.architecture_bound = true;
  result_.source.text +=
      groups_text() + (size.exact ? blocks({"mma"}) : "") +
      blocks({"hopper", "stages", "rounds", "contract_sm90"}) + sums_text(size) + epilogue_text() +
      shape(tiling.group(size)) +
      mapped_entry(fmt::format("ContractSm90<{}, {}, {}, {}, {}", stored_type(operand_type()),
                               tile_n, tiling.above, product_.a.across, lines_of_b(in_order)),
                   facts, ", 1", sm90_more(matrix_source(tiling.width), tiling.beside, size));
  facts.launch(result_);
  result_.blocks = sm90_blocks(tiling, size);
  result_.schedule = fmt::format("wgmma, tiles of {} x {}", tiling.width.rows, tile_n);
  if (scaled) result_.schedule += ", each step scaled";
  if (size.exact) result_.schedule += ", three products each";
  if (tiling.blocks() > 2) {
    result_.persistent_cluster = static_cast<unsigned>(tiling.blocks());
    result_.schedule += fmt::format(", {} x {} in clusters", tiling.above, tiling.beside);
  } else if (tiling.beside > 1) {
    result_.schedule += ", side by side in clusters";
  }
}

bool ContractionWriter::multiplies_by_wgmma() const {
  const bool shares_b = product_.b.inner == 0 && (product_.b.outer == 0 || product_.groups > 0);
  const bool whole_groups = !epilogue_.halves() || product_.n % 16 == 0;
  return fits_copy_engine(product_) && (sources_of_b().size() == 1 || (shares_b && whole_groups));
}

void ContractionWriter::write_tiles() {
  const bool pads = pad_lines();
  // Lines in pieces only the copy engine puts together.
  if (multiplies_by_wgmma() &&
      (product_.a.piece != 0 ||
       !beats_wgmma(tiled_shape(), mma_operands(), device_, reads_elsewhere()))) {
    write_sm90();
  } else {
    write_sm80();
  }
  if (pads) write_padding();
}

MmaOperands ContractionWriter::mma_operands() const {
  const DType type = operand_type();
  const std::uint64_t bytes = bytes_of(type, 1);
  const auto piece_of = [&](const MatrixOperand& operand) {
    return alignment_of(operand, 16 / bytes) * bytes;
  };
  std::uint64_t piece = computes_rows() ? 16 : piece_of(product_.a);
  for (const MatrixOperand& source : sources_of_b()) piece = std::min(piece, piece_of(source));
  return {.kind = type == DType::kF32    ? MmaKind::kExact
                  : type == DType::kTf32 ? MmaKind::kTf32
                                         : MmaKind::kNarrow,
          .bytes = bytes,
          .piece = piece,
          .made = computes_rows()};
}

// Without the epilogue and what follows it.
std::string ContractionWriter::contract_sm80(const MmaTile& tile) const {
  const DType type = operand_type();
  const std::uint64_t most = is_fp8(type) ? 16 : 8;
  const std::string_view element = stored_type(type);
  return fmt::format("ContractSm80<{}, {}, MmaTile<{}, {}, {}, {}, {}, {}, {}, {}>, {}, {}, {}, {}",
                     element, type == DType::kF32 ? "exact_f32" : element, tile.rows, tile.columns,
                     tile.warp_rows, tile.groups, tile.line_bytes, tile.stages, tile.blocks,
                     tile.split, computes_rows() ? most : alignment_of(product_.a, most),
                     alignment_of(product_.b, most), product_.a.across, product_.b.across);
}

KernelFacts ContractionWriter::sm80_facts(const MmaTile& tile) const {
  const auto shifts = [&](const MatrixOperand& operand) {
    return is_shifted(alignment_of(operand) * bytes_of(operand_type(), 1));
  };
  return {
      .threads = tile.threads(),
      .shared_bytes = tile.shared_bytes(!computes_rows() && shifts(product_.a), shifts(product_.b)),
      .tile_rows = tile.rows,
      .tile_columns = tile.columns,
      .tile_workspace_bytes = tile.workspace_bytes()};
}

// What follows the epilogue in a call: the memory where blocks that share tiles leave their sums.
std::string ContractionWriter::launch_sm80(const MmaTile& tile, std::uint64_t column_tiles) {
  sm80_facts(tile).launch(result_);
  const std::uint64_t tiles = product_.row_tiles(tile.rows) * column_tiles * product_.batches();
  result_.blocks = tiles * tile.split;
  result_.schedule = fmt::format("mma, tiles of {} x {}", tile.rows, tile.columns);
  if (tile.split == 1) return product_.groups > 0 ? ", nullptr" : "";
  result_.schedule += fmt::format(", k in {} parts", tile.split);
  result_.gaps.more_writes = "blocks exchange partial sums through memory";
  return fmt::format(", work + {}", epilogue_.reserve(tiles * tile.workspace_bytes()));
}

void ContractionWriter::write_sm80() {
  const std::vector<MatrixOperand> sources = sources_of_b();
  const auto pointers_of_b = [&] {
    std::string b;
    for (const MatrixOperand& source : sources) b += (b.empty() ? "" : ", ") + pointer_of(source);
    return sources.size() == 1 ? b : fmt::format("Contract::Sources{{{{{}}}}}", b);
  };
  pointers_of_b();
  const ProductShape size = tiled_shape();
  Device device = device_;
  device.on_chip_bytes -= groups_bytes();
  const MmaTile tile = mma_tiling(size, mma_operands(), device).tile;
  request_ends();
  write_epilogues(tile.columns, {});
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const std::string b = pointers_of_b();  // once it is known where copies are
  const std::uint64_t column_tiles = size.column_tiles(tile.columns);
  if (!siblings_.empty()) product_.n = column_tiles * tile.columns;
  const std::string work = launch_sm80(tile, column_tiles);
  result_.source.text +=
      groups_text() + blocks({"mma", "operand_sm80", "contract_sm80"}) + epilogue_text() +
      shape(group_of(size, tile.rows, bytes_of(operand_type(), 1))) +
      strided_entry(contract_sm80(tile), sm80_facts(tile), ", Contract::kBlocksPerSm", a, b, work);
}

}  // namespace fusecalc
