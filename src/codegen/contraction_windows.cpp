// Convolutions whose windows Hopper's copy engine gathers: products in contract_sm90.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "core/ceil_div.hpp"
#include "plan/channels_last.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// Shared memory of contract_sm90 for what is on its way to memory.
constexpr std::uint64_t kStoredBytes = 32768;

// A line of the copy with channels last: 16 bytes are what the copy engine takes.
std::uint64_t copied_line(const Convolution& convolution, DType type) {
  const std::uint64_t chunk = 16 / bytes_of(type, 1);
  return ceil_div(convolution.groups * convolution.channels, chunk) * chunk;
}

// What cuTensorMapEncodeIm2col takes, of two axes.
bool fits_window_map(const Convolution& convolution) {
  constexpr std::int64_t kMostStride = 8;
  constexpr std::int64_t kMostCorner = 127;
  constexpr std::int64_t kMostReach = 127;  // so that no corner lies further before the input
  return convolution.has_two_axes() &&
         std::all_of(convolution.axes.begin() + 1, convolution.axes.end(),
                     [&](const WindowAxis& axis) {
                       return axis.stride <= kMostStride && axis.padding <= kMostCorner &&
                              (axis.kernel - 1) * axis.dilation <= kMostReach;
                     });
}

// Whether the pixels of a channel follow each other.
bool has_pixels_last(const Convolution& convolution) {
  const Convolution::Strides& strides = *convolution.strides;
  const auto& [outer, rows, line] = convolution.axes;
  return (line.in == 1 || strides.at[2] == 1) && (rows.in == 1 || strides.at[1] == number(line.in));
}

// Whether the pixels of all images are lines of a matrix, each of which is a window.
bool is_matrix(const Convolution& convolution) {
  return convolution.groups == 1 && convolution.has_single_windows() &&
         convolution.pixels_apart().has_value();
}

}  // namespace

bool ContractionWriter::copies_input(const Convolution& convolution) const {
  return !has_channels_last(convolution);
}

bool ContractionWriter::gathers_windows(const Convolution& convolution) const {
  constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 30U;
  const DType type = operand_type();
  return device_.capability == kHopper && has_window_tiles(type) && multiplies_on_tensor_cores() &&
         convolution.strides && fits_window_map(convolution) &&
         (has_channels_last(convolution) || has_pixels_last(convolution)) &&
         convolution.images * convolution.pixels() <= kMostPixels &&
         repays_gathering(size_of(convolution, type), std::max(1U, device_.multiprocessors));
}

MappedTensor ContractionWriter::map_of_windows(const Convolution& convolution, std::uint64_t at,
                                               std::uint64_t pixels) const {
  const Convolution::Strides& strides = *convolution.strides;
  const bool copied = copies_input(convolution);
  const auto& [outer, rows, line] = convolution.axes;
  const std::uint64_t pixel = copied ? copied_line(convolution, operand_type()) : strides.at[2];
  const std::uint64_t in_row = copied ? pixel * number(line.in) : strides.at[1];
  const std::uint64_t image = copied ? in_row * number(rows.in) : strides.image;
  // The stride of a dimension of extent 1 is never used, but must be a multiple of 16.
  const std::uint64_t element = bytes_of(operand_type(), 1);
  const auto bytes = [&](std::uint64_t distance) { return distance > 0 ? distance * element : 16; };
  MappedWindows windows;
  for (std::size_t i = 0; i < 2; ++i) {
    const WindowAxis& axis = convolution.axes.at(2 - i);
    windows.first.at(i) = static_cast<std::int32_t>(-axis.padding);
    windows.last.at(i) =
        static_cast<std::int32_t>(axis.padding - (axis.kernel - 1) * axis.dilation);
    windows.strides.at(i) = static_cast<std::uint32_t>(axis.stride);
  }
  return {.storage = copied ? kNone : graph_.storage_of(op_.operands[0].tensor),
          .dtype = operand_type(),
          .offset = copied ? at : strides.offset * element,
          .extents = {convolution.groups * convolution.channels, number(line.in), number(rows.in),
                      convolution.images},
          .strides = {bytes(pixel), bytes(in_row), bytes(image)},
          .box = {box_elements(), static_cast<std::uint32_t>(pixels), 1, 1},
          .windows = windows};
}

std::uint64_t ContractionWriter::groups_together(const Convolution& convolution) const {
  return convolution.strides ? size_of(convolution, operand_type()).together() : 1;
}

bool ContractionWriter::takes_weights(const Convolution& convolution,
                                      std::uint64_t together) const {
  const Tensor& weight = graph_.tensors[op_.operands[1].tensor];
  ConvolutionSize size = size_of(convolution, operand_type());
  size.weights_last = lies_channels_last(weight);
  return together == 1 && !size.packs_weights() && weight.type.dtype == operand_type();
}

void ContractionWriter::write_convolution_sm90(const Convolution& convolution,
                                               std::uint64_t together) {
  const ConvolutionSize all = size_of(convolution, operand_type());
  const ProductShape size = all.product();
  const std::uint64_t multiprocessors = std::max(1U, device_.multiprocessors);
  const std::uint64_t split = window_split(all, multiprocessors);
  const bool last = leaves_channels_last(convolution);
  if (last && (split > 1 || has_pixel_rows(all))) {
    return write_convolution_rows(convolution, together, split);
  }
  const std::string functions = weights_of_convolution();
  const std::string x = code_.parameters().input(op_.operands[0].tensor);
  // Nothing is reduced, so that no tile has partials.
  epilogue_.write(last ? product_of_pixels_last(convolution) : product_, 1,
                  {.stores = split == 1 && leaves_through_shared(all),
                   .brings = true,
                   .period = convolution.groups * convolution.filters,
                   .channels_last = last});
  const bool taken = takes_weights(convolution, together);
  const std::uint64_t line = taken ? convolution.channels * convolution.taps() : size.k;
  const std::uint64_t weights = reserve_windows(convolution, taken);
  const WindowTiles tiles =
      split > 1 ? WindowTiles{.rows = SmallTiles{}.rows, .columns = SmallTiles{}.columns}
                : window_tiles(all, epilogue_.stored_outside(), multiprocessors);
  result_.maps = {{.storage = taken ? graph_.storage_of(op_.operands[1].tensor) : kNone,
                   .dtype = operand_type(),
                   .extents = {line, convolution.filters, convolution.groups, 1},
                   .strides = {line * all.bytes, line * all.bytes * convolution.filters, 16},
                   .box = {box_elements(), static_cast<std::uint32_t>(tiles.rows), 1, 1}},
                  map_of_windows(convolution, weights, tiles.columns / tiles.cluster)};
  // All filters of a few pixels follow each other: their windows stay in the L2, as weights do.
  product_ = {.m = convolution.filters,
              .n = size.n,
              .k = size.k,
              .inner = convolution.groups,
              .a = {.tensor = product_.a.tensor, .inner = convolution.groups > 1 ? 1U : 0U},
              .b = {.tensor = product_.b.tensor, .inner = convolution.groups > 1 ? 1U : 0U}};
  const std::string windows =
      fmt::format("WindowsB<Geometry, {}, {}, {}>", tiles.rows, taken, last);
  result_.source.architecture_bound = true;
  result_.source.text +=
      gathering_blocks() + (split > 1 ? blocks({"convolve_few_sm90"}) : "") + epilogue_.text() +
      operands_struct(functions) +
      (split > 1 ? small_entry({.split = split}, windows) : window_entry(tiles, windows));
  if (!taken || copies_input(convolution)) {
    write_window_packing(convolution, together, x, weights);
  }
}

// Room for copies of the weights, if these are not taken as they lie, and of the input behind them;
// returns where that begins.
std::uint64_t ContractionWriter::reserve_windows(const Convolution& convolution, bool taken) {
  const ConvolutionSize size = size_of(convolution, operand_type());
  const std::uint64_t all = convolution.groups * convolution.filters;
  const std::uint64_t weights =
      taken ? 0 : ceil_div(all * size.product().k * size.bytes, 256) * 256;
  const std::uint64_t input = copies_input(convolution)
                                  ? convolution.images * pixels_of_input(convolution) *
                                        copied_line(convolution, operand_type()) * size.bytes
                                  : 0;
  result_.packed_at = epilogue_.reserve(weights + input);
  return weights;
}

// In how many ways it can run is known then. With a copy, that is one.
ContractionWriter::RowTiles ContractionWriter::row_tiles(std::uint64_t split, bool copies) {
  if (split > 1) return {.small = SmallTiles{.split = split}};
  std::vector<SmallTiles> small;
  const ProductShape size = in_halves(product_.shape(), operand_type());
  if (!copies && bytes_of(operand_type(), 1) == 2) small = small_tiles(size, device_);
  const std::vector<ProductTiling> wide =
      product_tilings(size, std::max(1U, device_.multiprocessors), reads_elsewhere());
  const std::size_t way = tiling_of(small.size() + wide.size());
  if (way < small.size()) return {.small = small[way]};
  return {.wide = wide[way - small.size()]};
}

// Results with their channels last: pixels of all images are rows, filters columns, and a lane's
// sums are neighbours.
void ContractionWriter::write_convolution_rows(const Convolution& convolution,
                                               std::uint64_t together, std::uint64_t split) {
  const std::uint64_t filters = convolution.groups * convolution.filters;
  const ConvolutionSize size = size_of(convolution, operand_type());
  const std::uint64_t k = size.product().k;
  const std::string functions = weights_of_convolution();
  const std::string x = code_.parameters().input(op_.operands[0].tensor);
  const MatrixProduct last = product_of_pixels_last(convolution);
  const std::uint64_t groups = convolution.groups > 1 ? 1 : 0;
  product_ = {.m = last.m,
              .n = convolution.filters,
              .k = k,
              .inner = convolution.groups,
              .a = {.tensor = product_.b.tensor, .inner = groups},
              .b = {.tensor = product_.a.tensor, .inner = groups}};
  const bool taken = takes_weights(convolution, together);
  const RowTiles tiles = row_tiles(split, !taken || copies_input(convolution));
  const std::uint64_t columns = tiles.small ? tiles.small->columns : tiles.wide.width.columns;
  // Beside terms of channels, wide tiles leave no registers for what is loaded ahead.
  epilogue_.write(last, 1,
                  {.loads_ahead = !tiles.small && columns <= kTileRows,
                   .channels_last = true,
                   .columns_beyond = convolution.filters % columns != 0,
                   .keeps_terms = true});
  const std::uint64_t line = taken ? convolution.channels * convolution.taps() : k;
  const std::uint64_t input_at = reserve_windows(convolution, taken);
  const std::uint64_t rows =
      tiles.small ? tiles.small->rows : tiles.wide.width.rows / tiles.wide.beside;
  MappedTensor pixels = map_of_windows(convolution, input_at, rows);
  const bool matrix = !tiles.small && !copies_input(convolution) && is_matrix(convolution);
  if (matrix) {
    pixels.extents = {convolution.channels, last.m, 1, 1};
    pixels.windows.reset();
  }
  result_.maps = {pixels,
                  {.storage = taken ? graph_.storage_of(op_.operands[1].tensor) : kNone,
                   .dtype = operand_type(),
                   .extents = {line, 2, filters / 8, 4},
                   .strides = {line * size.bytes, line * size.bytes * 8, line * size.bytes * 2},
                   .box = {box_elements(), 2, 4, 4}}};
  const std::string high =
      !tiles.small && tiles.wide.width.high() ? fmt::format(", {}", tiles.wide.width.rows) : "";
  const std::string source = matrix ? matrix_source(tiles.wide.width)
                                    : fmt::format("WindowsA<Geometry, {}{}>", taken, high);
  result_.source.architecture_bound = true;
  result_.source.text +=
      gathering_blocks() + (tiles.small ? blocks({"convolve_few_sm90"}) : "") + epilogue_.text() +
      operands_struct(functions) +
      (tiles.small ? small_entry(*tiles.small, source) : row_entry(tiles.wide, source));
  if (!taken || copies_input(convolution)) {
    write_window_packing(convolution, together, x, input_at);
  }
}

std::string ContractionWriter::gathering_blocks() const {
  return blocks({"mma", "hopper", "stages", "rounds", "contract_sm90"}) +
         sums_text(in_halves(product_.shape(), operand_type())) + blocks({"convolve_sm90"});
}

// And how it is launched.
std::string ContractionWriter::row_entry(const ProductTiling& tiling, const std::string& pixels) {
  const ProductShape size = in_halves(product_.shape(), operand_type());
  const KernelFacts facts = sm90_facts(tiling, size);
  std::string text =
      shape(tiling.group(size)) +
      mapped_entry(fmt::format("ContractSm90<{}, {}, {}, 0, LinesOfB::kInOrder",
                               stored_type(operand_type()), tiling.width.columns, tiling.above),
                   facts, ", 1", sm90_more(pixels, tiling.beside, size));
  facts.launch(result_);
  result_.blocks = sm90_blocks(tiling, size);
  result_.schedule = fmt::format("wgmma over {}, tiles of {} x {}",
                                 pixels.starts_with("Matrix") ? "pixels" : "windows",
                                 tiling.width.rows, tiling.width.columns);
  if (size.exact) result_.schedule += ", three products each";
  if (tiling.blocks() > 2) result_.persistent_cluster = static_cast<unsigned>(tiling.blocks());
  if (tiling.blocks() > 1) {
    result_.schedule += fmt::format(", {} x {} in clusters", tiling.above, tiling.beside);
  }
  return text;
}

// The same of convolve_few_sm90.
std::string ContractionWriter::small_entry(const SmallTiles& tiles, const std::string& windows) {
  const std::uint64_t units = ceil_div(product_.m, tiles.rows);
  const KernelFacts facts{.threads = tiles.threads(),
                          .shared_bytes = tiles.shared_bytes(epilogue_.terms()),
                          .tile_rows = tiles.rows,
                          .tile_columns = tiles.columns,
                          .tile_depth = box_elements(),
                          .blocks_per_cluster = tiles.split};
  std::string text =
      shape(units) +
      fmt::format("typedef ConvolveFewSm90<{}, {}, {}, {}, {}, Epilogue, {}> Contract;\n",
                  name_of(operand_type()), tiles.rows, tiles.columns, tiles.split, tiles.stages,
                  windows) +
      facts.asserted_of("Contract") +
      entry(fmt::format("__launch_bounds__(Contract::kThreads, {}) __cluster_dims__({}, 1, 1)",
                        tiles.resident, tiles.split),
            "const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b",
            fmt::format("Contract::run(a, b, kShape, {});", epilogue_.made()));
  facts.launch(result_);
  result_.blocks = units * ceil_div(product_.n, tiles.columns) * product_.inner * tiles.split;
  result_.schedule = fmt::format("wgmma over windows, tiles of {} x {}", tiles.rows, tiles.columns);
  if (tiles.split > 1) result_.schedule += fmt::format(", {} blocks share k", tiles.split);
  return text;
}

// And how it is launched.
std::string ContractionWriter::window_entry(const WindowTiles& tiles, const std::string& windows) {
  const ProductShape size = in_halves(product_.shape(), operand_type());
  const TileWidth width{.columns = tiles.columns, .rows = tiles.rows};
  const std::uint64_t units = ceil_div(product_.m, tiles.rows * tiles.cluster);
  const std::uint64_t clusters = units * ceil_div(product_.n, tiles.columns) * product_.inner;
  const KernelFacts facts{.threads = 384,
                          .shared_bytes = tiles.stages * width.stage_bytes(size) +
                                          (epilogue_.stored_outside() ? kStoredBytes : 0),
                          .tile_rows = tiles.rows,
                          .tile_columns = tiles.columns,
                          .tile_depth = box_elements(),
                          .blocks_per_cluster = tiles.cluster};
  const std::uint64_t running = std::max(1U, device_.multiprocessors) / tiles.cluster;
  std::string text =
      shape(units) +
      mapped_entry(fmt::format("ContractSm90<{}, {}, {}, 0, LinesOfB::kAlong",
                               stored_type(operand_type()), tiles.columns, tiles.cluster),
                   facts, ", 1", sm90_more(windows, 1, size));
  facts.launch(result_);
  result_.blocks = tiles.cluster * std::min(std::max<std::uint64_t>(1, running), clusters);
  result_.schedule = fmt::format("wgmma over windows, tiles of {} x {}", tiles.rows, tiles.columns);
  if (size.exact) result_.schedule += ", three products each";
  return text;
}

// The entry that puts the weights in the order of the tiles, and the input's channels last.
void ContractionWriter::write_window_packing(const Convolution& convolution, std::uint64_t together,
                                             const std::string& x, std::uint64_t input_at) {
  const std::string_view element = stored_type(operand_type());
  const ConvolutionSize size = size_of(convolution, operand_type());
  const std::uint64_t filters = convolution.groups * convolution.filters;
  const bool taken = takes_weights(convolution, together);
  std::uint64_t blocks =
      taken ? 0
            : ceil_div(filters * ceil_div(convolution.channels, size.box()) * size.box(),
                       kPackThreads);
  const std::uint64_t in = pixels_of_input(convolution);
  const Convolution::Strides& strides = *convolution.strides;
  const std::uint64_t bits =
      16 / size.bytes | in | strides.offset | strides.image | strides.channel;
  const std::uint64_t align = bits & (~bits + 1);
  const std::uint64_t image = convolution.groups * convolution.channels * in;
  const bool flat = size.bytes == 2 && in <= 64 && align < 8 && strides.channel == in &&
                    (strides.offset | strides.image | image) % 8 == 0;
  result_.source.text += fmt::format("typedef ConvolvePack<Geometry, {}, {}, {}, {}> Packing;\n",
                                     element, together, align, flat);
  std::string body =
      fmt::format("let_next_start();\n  {0}* const packed = reinterpret_cast<{0}*>(work + {1});",
                  element, result_.packed_at);
  if (!taken) {
    body += fmt::format(
        "\n  if (blockIdx.x < {}) return Packing::weights(blockIdx.x, Operands{{{}}}, packed);",
        blocks, code_.parameters().arguments());
    result_.gaps.more_writes = "the weights are copied first, in the order of the tiles";
  }
  if (copies_input(convolution)) {
    body += fmt::format("\n  Packing::channels_last(blockIdx.x - {}, {} + {}, packed + {});",
                        blocks, x, strides.offset, input_at / size.bytes);
    blocks += convolution.images * ceil_div(in, in > 64 ? 128 : 64) *
              ceil_div(convolution.groups * convolution.channels, 64);
    result_.gaps.more_writes =
        taken ? "the input is copied first, with channels last"
              : "the weights and the input are copied first, with channels last";
  }
  write_pack(body, blocks);
  result_.waits_for_packing = true;
}

}  // namespace fusecalc
