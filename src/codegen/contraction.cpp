// Products of matrices and what hangs on them: one of kernels/contract_*.cuh with an epilogue that
// the emitter writes, or the vendor's library for a product that stands alone.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "codegen/library.hpp"
#include "codegen/schedule.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

const char* text_of(bool value) { return value ? "true" : "false"; }

// The largest power of two, up to 8, that all lines begin at multiples of.
std::uint64_t alignment_of(const MatrixOperand& operand) {
  const std::uint64_t bits = operand.line | operand.inner | operand.outer | operand.jump | 8;
  return bits & (~bits + 1);
}

// Row units that are walked together: their part of A stays in the L2 while B streams through.
std::uint64_t group_of(const MatrixProduct& product, std::uint64_t unit_rows, std::uint64_t bytes) {
  constexpr std::uint64_t kResident = std::uint64_t{16} << 20U;
  return std::clamp<std::uint64_t>(
      kResident / std::max<std::uint64_t>(1, unit_rows * product.k * bytes), 8, 64);
}

constexpr std::uint64_t kTileRows = 128;  // of contract_sm90's tiles

}  // namespace

// A width of contract_sm90's tiles, and what a tile takes on an H200, as measured.
struct TileWidth {
  std::uint64_t columns;
  std::uint64_t stages;
  // For 64 of k, in hundredths of cycles a column: the tensor cores' 400, and more where narrow
  // tiles fetch more bytes, which are paid for with the clock.
  std::uint64_t step;
  std::uint64_t beside;  // cycles, to start and end it: all of the epilogue where tiles are shared
};
constexpr std::array kTileWidths = {TileWidth{128, 6, 428, 1300}, TileWidth{160, 6, 420, 900},
                                    TileWidth{256, 4, 400, 4500}};

namespace {

// How contract_vector shares rows out: threads of a block, those of them to a row, blocks to a row.
struct VectorShares {
  std::uint64_t threads = 512;
  std::uint64_t lanes = 512;
  std::uint64_t split = 1;
};

// Enough threads have to be at work that memory is kept busy, and each should have a few packs.
VectorShares vector_shares(std::uint64_t rows, std::uint64_t packs, std::uint64_t multiprocessors) {
  if (packs <= 64) return {.threads = 256, .lanes = 8};
  if (rows * 32 >= multiprocessors * 512) return {.threads = 256, .lanes = 32};
  constexpr std::uint64_t kLeastPacks = 2048;  // of a block that shares a row
  const std::uint64_t parts = std::max<std::uint64_t>(1, packs / kLeastPacks);
  return {.split = std::clamp<std::uint64_t>(2 * multiprocessors / rows, 1, parts)};
}

}  // namespace

bool ContractionWriter::fits_tensor_cores() const {
  const DType type = operand_type();
  const bool known =
      type == DType::kBf16 || type == DType::kF16 || type == DType::kF32 || type == DType::kTf32;
  return known && strided_ && graph_.tensors[op_.operands[1].tensor].type.dtype == type;
}

bool ContractionWriter::fits_copy_engine(const MatrixProduct& product) const {
  const DType type = operand_type();
  if (target_.capability != 90 || (type != DType::kBf16 && type != DType::kF16)) return false;
  return graph_.tensors[op_.operands[1].tensor].type.dtype == type &&
         alignment_of(product.a) == 8 && alignment_of(product.b) == 8;
}

std::string ContractionWriter::shape(std::uint64_t group) const {
  const auto steps = [](std::uint64_t distance) { return distance > 0 ? 1 : 0; };
  return fmt::format(
      "constexpr ContractShape kShape = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}};\n",
      product_.m, product_.n, product_.k, product_.outer, product_.inner, steps(product_.a.outer),
      steps(product_.a.inner), steps(product_.b.outer), steps(product_.b.inner), group,
      product_.a.piece);
}

std::string ContractionWriter::entry(std::string_view bounds, std::string_view parameters,
                                     std::string_view call) const {
  const std::string pointers = emitter_.parameters();
  return fmt::format("extern \"C\" __global__ void {} fused({}{}{}{}) {{\n  {}\n}}\n", bounds,
                     parameters, parameters.empty() || pointers.empty() ? "" : ", ", pointers,
                     epilogue_.workspace_parameter(), call);
}

MappedTensor ContractionWriter::map_of(const MatrixOperand& operand, std::uint64_t lines,
                                       std::uint32_t box_lines) const {
  const std::uint64_t size = bytes_of(operand_type(), 1);
  // Dimensions of one element are not stepped along; the engine wants some multiple of 16 there.
  const auto bytes = [&](std::uint64_t distance) { return distance > 0 ? distance * size : 16; };
  const auto extent = [](std::uint64_t distance, std::uint64_t count) {
    return distance > 0 ? count : 1;
  };
  if (operand.piece != 0) {
    return {.storage = graph_.storage_of(operand.tensor),
            .dtype = operand_type(),
            .extents = {operand.piece, lines, product_.k / operand.piece,
                        extent(operand.outer, product_.outer)},
            .strides = {bytes(operand.line), bytes(operand.jump), bytes(operand.outer)},
            .box = {64, box_lines, 1, 1}};
  }
  return {.storage = operand.tensor == kNone ? kNone : graph_.storage_of(operand.tensor),
          .dtype = operand_type(),
          .extents = {operand.across ? lines : product_.k, operand.across ? product_.k : lines,
                      extent(operand.inner, product_.inner), extent(operand.outer, product_.outer)},
          .strides = {bytes(operand.line), bytes(operand.inner), bytes(operand.outer)},
          .box = {64, operand.across ? 64U : box_lines, 1, 1}};
}

// Blocks work in rounds, all on a tile at a time, and the last round is seldom full: the width that
// takes the least time in rounds. B as [k][n] comes in boxes of 64 columns.
const TileWidth& ContractionWriter::width_of_tiles(std::uint64_t cluster) const {
  const std::uint64_t clusters = std::max<std::uint64_t>(1, target_.multiprocessors / cluster);
  const std::uint64_t rows = ceil_div(product_.m, kTileRows * cluster) * product_.batches();
  const std::uint64_t steps = ceil_div(product_.k, 64);
  const auto cycles = [&](const TileWidth& width) {
    if (product_.b.across && width.columns % 64 != 0) {
      return std::numeric_limits<std::uint64_t>::max();
    }
    const std::uint64_t rounds = ceil_div(rows * ceil_div(product_.n, width.columns), clusters);
    return rounds * (steps * width.step * width.columns / 100 + width.beside);
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
                  name_of(operand_type()), tile_n, cluster, text_of(product_.a.across),
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
                  alignment_of(product_.b), text_of(product_.a.across),
                  text_of(product_.b.across)) +
      entry("__launch_bounds__(256, Contract::kBlocksPerSm)", "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {});", a, b, epilogue_.made()));
  result_.shared_bytes = 65536;
  result_.threads = 256;
  result_.blocks = ceil_div(product_.m, kTile) * ceil_div(product_.n, kTile) * product_.batches();
  result_.schedule = "mma, tiles of 128 x 128";
}

std::string ContractionWriter::strides() const {
  return fmt::format("constexpr ContractStrides kStrides = {{{}, {}, {}, {}, {}, {}}};\n",
                     product_.a.line, product_.a.inner, product_.a.outer, product_.b.line,
                     product_.b.inner, product_.b.outer);
}

// A matrix times a vector.
void ContractionWriter::write_vector() {
  const std::string b = pointer_of(product_.b);
  epilogue_.write(product_, 1);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const std::uint64_t align =
      std::min(alignment_of(product_.a),
               alignment_of({.inner = product_.b.inner, .outer = product_.b.outer}));
  const std::uint64_t pack = std::min(align, 16 / bytes_of(operand_type(), 1));
  const std::uint64_t rows = product_.m * product_.batches();
  VectorShares shares =
      vector_shares(rows, product_.k / pack, std::max(1U, target_.multiprocessors));
  if (product_.a.tensor == kNone) shares.split = 1;  // the workspace is its copy's
  if (shares.split > 1) epilogue_.reserve(rows * (shares.split + 1) * 4);
  result_.source.text += std::string(embedded_kernel("contract_vector")) + "\n";
  result_.source.text +=
      epilogue_.text() + shape(8) + strides() +
      fmt::format("typedef ContractVector<{}, {}, {}, {}, Epilogue> Contract;\n",
                  stored_type(operand_type()), align, shares.lanes, shares.split) +
      entry(fmt::format("__launch_bounds__({})", shares.threads), "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {}{});", a, b, epilogue_.made(),
                        shares.split > 1 ? ", work" : ""));
  result_.threads = static_cast<unsigned>(shares.threads);
  result_.blocks = ceil_div(rows, shares.threads / shares.lanes) * shares.split;
  if (shares.split > 1) {
    result_.gaps.more_writes = "blocks leave parts of sums for each other in memory";
  }
  result_.schedule = shares.split > 1      ? fmt::format("{} blocks a row", shares.split)
                     : shares.lanes == 512 ? "a row a block"
                                           : fmt::format("{} threads a row", shares.lanes);
}

constexpr std::uint64_t kManyColumns = 16384;

// So few rows that B is all there is to move.
bool ContractionWriter::is_thin() const {
  const DType type = operand_type();
  const std::uint64_t most_rows = fits_copy_engine(product_)  ? 64
                                  : product_.n < kManyColumns ? 32
                                                              : 16;
  return (type == DType::kBf16 || type == DType::kF16) && product_.m <= most_rows &&
         !product_.a.across && (!product_.b.across || fits_copy_engine(product_)) &&
         product_.k % 8 == 0 && alignment_of(product_.a) == 8 && alignment_of(product_.b) == 8 &&
         epilogue_.column_parts() == 0 && product_.batches() <= 65535;
}

void ContractionWriter::write_thin() {
  if (fits_copy_engine(product_)) {
    write_thin_sm90();
  } else {
    write_thin_sm80();
  }
}

// About as many blocks as multiprocessors, all at work at once: of 128 columns where these are
// enough, else of 64, with k in as many parts as there is room for.
void ContractionWriter::write_thin_sm90() {
  const std::uint64_t multiprocessors = std::max(1U, target_.multiprocessors);
  const std::uint64_t rows = product_.m <= 16 ? 16 : product_.m <= 32 ? 32 : 64;
  const bool wide = ceil_div(product_.n, 128) * product_.batches() * 2 >= multiprocessors;
  const std::uint64_t tile_n = wide ? 128 : 64;
  const std::uint64_t tiles = ceil_div(product_.n, tile_n);
  constexpr std::uint64_t kMostSplit = 8;  // blocks of a cluster
  constexpr std::uint64_t kLeastDepth = 256;
  std::uint64_t split = 1;
  while (split < kMostSplit && tiles * product_.batches() * split * 2 <= multiprocessors &&
         product_.k / (2 * split) >= kLeastDepth) {
    split *= 2;
  }
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  reserve_packed();
  result_.maps = {map_of(product_.a, product_.m, static_cast<std::uint32_t>(rows)),
                  map_of(product_.b, product_.n, static_cast<std::uint32_t>(tile_n))};
  result_.source.architecture_bound = true;
  for (const char* block : {"hopper", "contract_thin_sm90"}) {
    result_.source.text += std::string(embedded_kernel(block)) + "\n";
  }
  result_.source.text +=
      epilogue_.text() + shape(8) +
      fmt::format("typedef ContractThinSm90<{}, {}, {}, {}, {}, Epilogue> Contract;\n",
                  name_of(operand_type()), rows, tile_n, split, text_of(product_.b.across)) +
      entry(fmt::format("__launch_bounds__(Contract::kThreads) __cluster_dims__({}, 1, 1)", split),
            "const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b",
            fmt::format("Contract::run(a, b, kShape, {});", epilogue_.made()));
  constexpr std::uint64_t kStagedBytes = std::uint64_t{104} << 10U;
  const std::uint64_t stage = (rows + tile_n) * 128;
  result_.shared_bytes = static_cast<std::uint32_t>(kStagedBytes / stage * (stage + 16));
  result_.threads = static_cast<unsigned>(2 * tile_n + 32);
  result_.blocks = tiles * split;
  result_.blocks_y = static_cast<unsigned>(product_.batches());
  result_.schedule = fmt::format("wgmma, tiles of {} x {}", rows, tile_n);
  if (split > 1) result_.schedule += fmt::format(", k in {} parts", split);
}

void ContractionWriter::write_thin_sm80() {
  const std::uint64_t row_tiles = product_.m <= 16 ? 1 : 2;
  const std::uint64_t column_tiles = product_.n < kManyColumns ? 1 : 4;
  const std::uint64_t tile_n = 8 * column_tiles;
  const std::string b = pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  for (const char* block : {"mma", "contract_thin"}) {
    result_.source.text += std::string(embedded_kernel(block)) + "\n";
  }
  result_.source.text +=
      epilogue_.text() + shape(8) + strides() +
      fmt::format("typedef ContractThin<{}, {}, {}, Epilogue> Contract;\n", name_of(operand_type()),
                  row_tiles, column_tiles) +
      entry("__launch_bounds__(256)", "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {});", a, b, epilogue_.made()));
  result_.shared_bytes = static_cast<std::uint32_t>(row_tiles * tile_n * 8 * 16 * 4);
  result_.threads = 256;
  result_.blocks = ceil_div(product_.n, tile_n);
  result_.blocks_y = static_cast<unsigned>(product_.batches());
  result_.schedule = fmt::format("mma from registers, tiles of {} x {}", 16 * row_tiles, tile_n);
}

// The operand's pointer, or that of its copy.
std::string ContractionWriter::pointer_of(const MatrixOperand& operand) {
  if (operand.tensor != kNone) return emitter_.pointer(operand.tensor);
  return fmt::format("reinterpret_cast<const {}*>(work + {})", stored_type(operand_type()),
                     result_.packed_at);
}

void ContractionWriter::reserve_packed() {
  if (product_.a.tensor != kNone) return;
  const TensorId tensor = op_.operands[0].tensor;
  result_.packed_at = epilogue_.reserve(graph_.tensors[tensor].bytes);
  emitter_.pointer(tensor);
}

// The entry that puts a in its own order, as frameworks do, where its views leave no strides.
void ContractionWriter::write_packing() {
  if (product_.a.tensor != kNone) return;
  const Tensor& tensor = graph_.tensors[op_.operands[0].tensor];
  const auto most = static_cast<unsigned>(16 / bytes_of(tensor.type.dtype, 1));
  const unsigned width = tensor.elements % most == 0 ? most : 1;
  Piece piece{.width = width, .width_text = std::to_string(width)};
  emitter_.enter(piece, 0);
  const Index e{.name = "i", .spread = Spread::kUnit};
  const Value value = emitter_.value(op_.operands[0].tensor, e);
  const std::string_view type = stored_type(tensor.type.dtype);
  piece.before += fmt::format("Pack<{}, {}> y;\n", type, width);
  piece.lanes += fmt::format("store_as(y.v[j], {});\n", value.text);
  piece.after += fmt::format("store_pack<{}>(reinterpret_cast<{}*>(work + {}) + i, y);\n", width,
                             type, result_.packed_at);
  constexpr std::uint64_t kThreads = 256;
  result_.source.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(256) pack({}, u8* work) {{\n"
      "  const i64 i = ((i64)blockIdx.x * 256 + threadIdx.x) * {};\n  if (i >= {}) return;\n{}}}\n",
      emitter_.parameters(), width, tensor.elements, piece.text("  "));
  result_.source.entries.emplace_back("pack");
  result_.packing = {.blocks = ceil_div(tensor.elements, width * kThreads), .threads = kThreads};
  result_.gaps.more_reads = result_.gaps.more_writes =
      "an operand's views leave no strides, so it is copied first, as frameworks do";
}

// How the elements of both operands are found, by the number of their matrix, line and depth.
std::string ContractionWriter::operands_of_any() {
  const Shape batch = batch_axes(graph_, op_);
  std::string functions;
  const ComputeType type = epilogue_.made_type();
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const OperandOrder order = operand_order(graph_, op_, which);
    Step matrices;
    for (std::size_t i = 0; i < batch.size(); ++i) matrices.append(batch[i], order.batch[i]);
    Piece piece;
    emitter_.enter(piece, 0);
    const Index at = emitter_.index(fmt::format("(idx)({}) + (idx)line * {} + (idx)k * {}",
                                                matrices.text("batch"), order.line, order.depth),
                                    Spread::kUniform, false);
    const Value value = emitter_.converted(emitter_.value(op_.operands[which].tensor, at), type);
    functions += fmt::format(
        "  __device__ __forceinline__ {} {}(int batch, int {}, int {}) const {{\n{}{}"
        "    return {};\n  }}\n",
        name_of(type), which == 0 ? "a" : "b", which == 0 ? "line" : "k", which == 0 ? "k" : "line",
        "    const int j = 0;\n", piece.text("    "), value.text);
  }
  return functions;
}

void ContractionWriter::write_any() {
  if (epilogue_.folds()) {
    cannot_generate(op_, "its result is reduced, and no tensor core takes its operands");
  }
  const std::string functions = operands_of_any();
  constexpr std::uint64_t kTile = 64;
  epilogue_.write(product_, kTile);
  result_.source.text += std::string(embedded_kernel("contract_any")) + "\n";
  const std::string members = emitter_.members();
  std::string pointers;
  for (std::size_t i = 0; i < emitter_.storages().size(); ++i) {
    pointers += fmt::format("{}p{}", i > 0 ? ", " : "", i);
  }
  result_.source.text +=
      epilogue_.text() + shape(64) + "struct Operands {\n" + members + functions + "};\n" +
      fmt::format("typedef ContractAny<{}, Operands, Epilogue> Contract;\n",
                  name_of(epilogue_.made_type())) +
      entry("__launch_bounds__(256)", "",
            fmt::format("Contract::run(kShape, Operands{{{}}}, {});", pointers, epilogue_.made()));
  result_.threads = 256;
  result_.blocks = ceil_div(product_.m, kTile) * ceil_div(product_.n, kTile) * product_.batches();
  result_.schedule = "ordinary arithmetic, tiles of 64 x 64";
}

// Lines in pieces are the copy engine's to put together.
std::optional<MatrixProduct> ContractionWriter::in_pieces() const {
  constexpr std::uint64_t kBoxColumns = 64;
  const auto product = product_of_pieces(graph_, op_, kBoxColumns);
  constexpr std::uint64_t kMostThinRows = 64;
  const bool fits = product && epilogue_.rows_of_matrix() == 0 && product->m > kMostThinRows &&
                    !epilogue_.holds_rows() && fits_copy_engine(*product);
  return fits ? product : std::nullopt;
}

GeneratedKernel ContractionWriter::write() {
  strided_ = matrix_product(graph_, op_, epilogue_.rows_of_matrix());
  // Alone it is the library's, which has no use for pieces.
  if (!strided_ && emitter_.kernel().size() > 1) strided_ = in_pieces();
  if (!strided_) strided_ = matrix_product(graph_, op_, epilogue_.rows_of_matrix(), true);
  const MatrixProduct whole{
      .m = op_.matrix.rows,
      .n = op_.matrix.columns,
      .k = op_.matrix.depth,
      .inner = op_.matrix.batch,
      .a = {.tensor = graph_.tensors[op_.operands[0].tensor].value, .inner = 1},
      .b = {.tensor = graph_.tensors[op_.operands[1].tensor].value, .inner = 1}};
  product_ = strided_.value_or(whole);
  if (graph_.tensors[op_.outputs[0]].elements == 0) cannot_generate(op_, "it writes nothing");
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max() - 1024;
  for (const std::uint64_t extent : {product_.m, product_.n, product_.k, product_.batches()}) {
    if (extent > kMost) cannot_generate(op_, "one of its extents is beyond 2^31");
  }
  if (strided_) result_.library = library_product(emitter_, finder_, op_, product_);
  result_.source.text = epilogue_.preamble();
  if (epilogue_.holds_rows()) {
    write_rows();
  } else if (!fits_tensor_cores()) {
    product_ = whole;
    if (strided_ && strided_->a.tensor == kNone) result_.library.reset();
    write_any();
  } else if (product_.n == 1 && !product_.a.across && !product_.b.across && !epilogue_.folds()) {
    write_vector();
  } else if (is_thin()) {
    write_thin();
  } else if (fits_copy_engine(product_)) {
    write_sm90();
  } else {
    write_sm80();
  }
  result_.source.entries = {"fused"};
  epilogue_.finish(result_);
  write_packing();
  if (result_.gaps.more_reads.empty()) {
    result_.gaps.more_reads =
        "operands are fetched again for every wave of tiles, where they do not fit in the L2";
  }
  if (epilogue_.folds() && !epilogue_.holds_rows()) {
    result_.gaps.more_writes = "blocks leave partial results for each other in memory";
  }
  result_.storages = emitter_.storages();
  if (epilogue_.holds_rows()) tile_rows();
  return std::move(result_);
}

GeneratedKernel generate_contraction(Emitter& emitter, PhaseFinder& finder, OpId contraction,
                                     const Target& target) {
  return ContractionWriter(emitter, finder, contraction, target).write();
}

}  // namespace fusecalc
