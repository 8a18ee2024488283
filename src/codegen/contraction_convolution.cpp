// Convolutions: with tensor cores as products that are never stored, or by ordinary arithmetic.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// How many neighbouring channels share a tap in the depth of a tile, where a copy has `piece`
// elements: as many as possible that do not add zeros.
std::uint64_t channels_together(std::uint64_t channels, std::uint64_t piece) {
  const auto filled = [&](std::uint64_t together) {
    return ceil_div(channels, together) * together;
  };
  for (const std::uint64_t together : {4 * piece, 2 * piece}) {
    if (filled(together) == filled(piece)) return together;
  }
  return piece;
}

// Whether all of a window's elements can be numbered in the kernel's table of places.
bool fits_places(const Convolution& convolution) {
  constexpr std::uint64_t kMostPlaces = 1024;
  constexpr std::uint64_t kMostSteps = 65535;
  constexpr std::uint64_t kMostDistance = std::uint64_t{1} << 30U;
  const Convolution::Strides& strides = *convolution.strides;
  std::uint64_t reach = convolution.channels * strides.channel;
  for (std::size_t i = 0; i < convolution.axes.size(); ++i) {
    const WindowAxis& axis = convolution.axes.at(i);
    const auto steps = static_cast<std::uint64_t>((axis.kernel - 1) * axis.dilation);
    if (steps > kMostSteps) return false;
    reach += steps * strides.at.at(i);
  }
  return convolution.channels * convolution.taps() <= kMostPlaces && reach < kMostDistance;
}

// Lines of shared memory for what the windows of a tile of so many columns cover of 32 channels;
// nothing where that is no patch of whole lines of the input, or one that leaves no room for a
// second block.
std::optional<std::uint64_t> patch_lines(const Convolution& convolution, std::uint64_t columns,
                                         std::uint64_t most) {
  const auto& [outer, rows, line] = convolution.axes;
  const auto number = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
  constexpr std::uint64_t kMostNumbered = std::uint64_t{1} << 30U;  // in 32 bits
  const std::uint64_t numbered = convolution.images * number(rows.in) * number(line.in);
  if (outer.in != 1 || outer.kernel != 1 || convolution.taps() == 1 || numbered > kMostNumbered) {
    return std::nullopt;
  }
  const std::uint64_t image = (convolution.pixels() + 7) / 8 * 8;
  const std::uint64_t reach = number((rows.kernel - 1) * rows.dilation) + 1;
  // Between the windows of one image and those of the next.
  const std::int64_t between = std::max<std::int64_t>(0, rows.in - rows.out * rows.stride);
  const std::uint64_t covered = ceil_div(columns - 1, number(line.out)) * number(rows.stride) +
                                reach + ceil_div(columns - 1, image) * number(between);
  const std::uint64_t all = convolution.images * number(rows.in);
  const std::uint64_t lines = ceil_div(std::min(covered, all) * number(line.in), 32) * 32;
  return lines <= most ? std::optional(lines) : std::nullopt;
}

constexpr std::uint64_t kLineBytes = 64;  // of depth in a tile

// How a convolution is distributed over blocks of convolve_sm80 or convolve_patch_sm80.
struct ConvolutionTiles : FilterTiles {
  std::uint64_t together = 0;     // kTogether
  std::uint64_t packed_line = 0;  // elements of a filter's weights, filled up to whole steps
  std::optional<std::uint64_t> patch{};
  std::uint64_t shared_bytes = 0;

  std::uint64_t count(const Convolution& convolution) const {
    return ceil_div(convolution.filters, rows) * convolution.groups *
           ceil_div(convolution.columns(), columns);
  }
};

ConvolutionTiles tiles_of(const Convolution& convolution, std::uint64_t element_bytes,
                          std::uint64_t on_chip_bytes) {
  constexpr std::uint64_t kStages = 3;
  constexpr std::uint64_t kPlaceBytes = 12;
  constexpr std::uint64_t kHalfOnChip = std::uint64_t{112} << 10U;  // two blocks a multiprocessor
  const std::uint64_t depth = kLineBytes / element_bytes;
  const bool few = convolution.channels < depth / 4 && fits_places(convolution);
  ConvolutionTiles tiles{filter_tiles(convolution.filters)};
  if (!few) tiles.together = channels_together(convolution.channels, depth / 4);
  const std::uint64_t channels =
      few ? convolution.channels : ceil_div(convolution.channels, tiles.together) * tiles.together;
  tiles.packed_line = ceil_div(channels * convolution.taps(), depth) * depth;
  const std::uint64_t weights = kStages * tiles.rows * kLineBytes;
  const std::uint64_t buffers = channels > depth ? 2 : 1;
  if (element_bytes == 2 && tiles.together == depth) {
    const std::uint64_t room = std::min(on_chip_bytes, kHalfOnChip) - weights;
    tiles.patch = patch_lines(convolution, tiles.columns, room / (buffers * kLineBytes) - 2);
  }
  tiles.shared_bytes = weights + (tiles.patch ? buffers * (*tiles.patch + 2) * kLineBytes
                                              : 2 * tiles.columns * kLineBytes +
                                                    (few ? tiles.packed_line * kPlaceBytes : 0));
  return tiles;
}

}  // namespace

// A convolution of single elements runs better as products of matrices, an image each, where their
// lines are what the copy engine takes, and no tile is mostly empty.
std::optional<MatrixProduct> ContractionWriter::pixels_in_tiles() const {
  const auto product = product_of_pixels(graph_, op_);
  const std::uint64_t whole = operand_type() == DType::kF32 ? 4 : 8;
  const bool fits = product && ((product->n >= kFewPixels && alignment_of(product->a) >= whole &&
                                 alignment_of(product->b) >= whole) ||
                                (shallow_ && shallow_->across));
  return fits ? product : std::nullopt;
}

// Few filters leave most of a tile empty; ordinary arithmetic is faster then.
bool ContractionWriter::convolves_in_tiles(const Convolution& convolution) const {
  constexpr std::uint64_t kFewFilters = 4;
  constexpr std::uint64_t kMostColumns = std::uint64_t{1} << 30U;
  const DType type = operand_type();
  const std::uint64_t few = bytes_of(type, 1) > 2 ? 4 * kFewFilters : kFewFilters;
  return multiplies_on_tensor_cores() && convolution.strides && convolution.filters > few &&
         convolution.columns() <= kMostColumns;
}

bool ContractionWriter::leaves_channels_last(const Convolution& convolution) const {
  return convolution.filters % 8 == 0 && epilogue_.ends_channels_last();
}

MatrixProduct ContractionWriter::product_of_pixels_last(const Convolution& convolution) {
  return {.m = convolution.images * convolution.pixels(),
          .n = convolution.groups * convolution.filters,
          .a = {},
          .b = {}};
}

void ContractionWriter::write_convolution() {
  Convolution convolution = convolution_of(graph_, op_);
  if (const auto product = pixels_in_copies()) {
    product_ = *product;
    return write_convolution_pixels(convolution);
  }
  if (shallow_) {
    product_ = product_of_pixel_rows(graph_, op_).value();
    return write_shallow(*shallow_, product_of_pixels_last(convolution), true);
  }
  Convolution merged = convolution;
  const std::uint64_t together = groups_together(convolution);
  merged.groups /= together, merged.channels *= together, merged.filters *= together;
  const bool gathers = gathers_windows(merged);
  if (gathers) convolution = merged;
  product_ = {.m = convolution.filters,
              .n = convolution.pixels(),
              .k = convolution.channels * convolution.taps(),
              .outer = convolution.images,
              .inner = convolution.groups,
              .a = {.tensor = graph_.tensors[op_.operands[1].tensor].value},
              .b = {.tensor = graph_.tensors[op_.operands[0].tensor].value}};
  result_.source.text += blocks({"convolve"}) + convolution.text();
  if (!write_convolution_few(convolution)) {
    if (gathers) {
      write_convolution_sm90(convolution, together);
    } else if (convolves_in_tiles(convolution)) {
      write_convolution_sm80(convolution);
    } else if (!write_convolution_planes(convolution) && !write_convolution_last(convolution)) {
      write_convolution_any(convolution);
    }
  }
  result_.gaps.more_reads =
      "elements of overlapping windows are fetched again once the L2 has evicted them, and those "
      "between strided ones come with their sectors";
}

// The function of Operands that loads a weight.
std::string ContractionWriter::weights_of_convolution() {
  return element_function(code_, "weight(i64 element)", op_.operands[1].tensor, "element",
                          epilogue_.made_type());
}

void ContractionWriter::write_convolution_sm80(const Convolution& convolution) {
  const DType type = operand_type();
  const std::string_view element = stored_type(type);
  const std::uint64_t size = bytes_of(type, 1);
  const ConvolutionTiles tiles = tiles_of(convolution, size, device_.on_chip_bytes);
  const std::string functions = weights_of_convolution();
  const std::string x = code_.parameters().input(op_.operands[0].tensor);
  const bool last = leaves_channels_last(convolution);
  epilogue_.write(last ? product_of_pixels_last(convolution) : product_, tiles.columns,
                  {.channels_last = last});
  const std::uint64_t weights = convolution.groups * convolution.filters * tiles.packed_line;
  result_.packed_at = epilogue_.reserve(weights * size);
  const std::uint64_t count = tiles.count(convolution);
  const std::uint64_t split =
      tiles.patch ? 1 : depth_split(count, tiles.packed_line * size / kLineBytes, device_);
  const std::uint64_t sums = split > 1 ? tiles.rows * tiles.columns * 4 : 0;
  const KernelFacts facts{.threads = 256,
                          .shared_bytes = std::max(tiles.shared_bytes, sums),
                          .tile_rows = tiles.rows,
                          .tile_columns = tiles.columns,
                          .blocks_per_cluster = tiles.patch ? 0 : split};
  const std::string building_block =
      tiles.patch
          ? fmt::format("ConvolvePatchSm80<{}, Geometry, {}, {}, {}, Epilogue>", element,
                        tiles.rows, last, *tiles.patch)
          : fmt::format("ConvolveSm80<{}, {}, Geometry, {}, {}, {}, Epilogue, {}>", element,
                        type == DType::kF32 ? "exact_f32" : element, tiles.together, tiles.rows,
                        last, split > 1 ? fmt::format("BlocksOfCluster<{}>", split) : "OneBlock");
  result_.source.architecture_bound = split > 1;
  result_.source.text +=
      blocks({"mma", "convolve_sm80"}) + (tiles.patch ? blocks({"convolve_patch_sm80"}) : "") +
      (split > 1 ? blocks({"hopper", "convolve_split_sm90"}) : "") + epilogue_.text() +
      operands_struct(functions) + fmt::format("typedef {} Convolve;\n", building_block) +
      facts.asserted_of("Convolve") +
      entry(fmt::format("__launch_bounds__(Convolve::kThreads, Convolve::kBlocksPerSm){}",
                        split > 1 ? fmt::format(" __cluster_dims__({}, 1, 1)", split) : ""),
            "",
            fmt::format("Convolve::run(reinterpret_cast<const {}*>(work + {}), {} + {}, {});",
                        element, result_.packed_at, x, convolution.strides->offset,
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = count * split;
  result_.schedule = fmt::format("mma over {}, tiles of {} x {}",
                                 tiles.patch ? "patches" : "windows", tiles.rows, tiles.columns);
  if (split > 1) result_.schedule += fmt::format(", {} blocks share k", split);
  pack_weights(weights);
}

// The entry that copies the weights to the workspace in the order of the tiles.
void ContractionWriter::pack_weights(std::uint64_t elements) {
  write_pack(
      fmt::format("Convolve::pack(Operands{{{}}}, reinterpret_cast<{}*>(work + {}));",
                  code_.parameters().arguments(), stored_type(operand_type()), result_.packed_at),
      ceil_div(elements, kPackThreads));
  result_.gaps.more_writes = "the weights are copied first, in the order of the tiles";
}

void ContractionWriter::write_pack(std::string_view body, std::uint64_t blocks) {
  result_.source.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) pack({}, u8* work) {{\n  {}\n}}\n",
      kPackThreads, code_.parameters().declarations(), body);
  result_.packing = {.blocks = blocks, .threads = kPackThreads};
}

void ContractionWriter::write_convolution_any(const Convolution& convolution) {
  constexpr std::uint64_t kThreads = 256;
  constexpr std::uint64_t kMostFilters = 4;
  constexpr std::uint64_t kMostTaps = 64;  // whose code is written out
  constexpr std::uint64_t kLongest = 64;   // of a line, in registers
  std::uint64_t filters = 1;
  while (filters < std::min(kMostFilters, convolution.filters)) filters *= 2;
  const WindowAxis& axis = convolution.axes[2];
  const auto out = static_cast<std::uint64_t>(axis.out);
  // A line alone has all eight, of which some lie beyond its end where windows do, too.
  const bool alone = convolution.pixels() == out && axis.padding > 0;
  std::uint64_t in_line = alone ? 8 : (out | 8) & (~(out | 8) + 1);
  const std::uint64_t span = (in_line - 1) * static_cast<std::uint64_t>(axis.stride) +
                             static_cast<std::uint64_t>((axis.kernel - 1) * axis.dilation) + 1;
  // A line of f64 would not stay in registers.
  if (convolution.taps() > kMostTaps || span > kLongest ||
      epilogue_.made_type() == ComputeType::kF64) {
    in_line = 0;
  }
  const TensorId input = op_.operands[0].tensor;
  const DType type = graph_.tensors[input].type.dtype;
  const std::uint64_t align =
      in_line > 0 ? convolution.alignment(std::min(in_line, 16 / bytes_of(type, 1))) : 1;
  const std::string functions =
      weights_of_convolution() +
      element_function(code_, "x(i64 element)", input, "element", epilogue_.made_type());
  const std::string x = align > 1 ? fmt::format("{} + {}", code_.parameters().input(input),
                                                convolution.strides->offset)
                                  : "(const f32*)0";
  constexpr std::uint64_t kLanes = 32;
  const bool across = convolution.strides && convolution.strides->channel == 1 &&
                      convolution.channels == 1 && convolution.groups >= kLanes;
  epilogue_.write(product_, 8);
  const std::uint64_t threads =
      ceil_div(convolution.filters, filters) * convolution.groups * convolution.columns() / 8;
  constexpr std::uint64_t kMostIn32Bits = (std::uint64_t{1} << 31U) - kThreads;
  const KernelFacts facts{.threads = kThreads, .tile_rows = filters, .tile_columns = 8};
  result_.source.text +=
      blocks({"convolve_any"}) + epilogue_.text() + operands_struct(functions) +
      fmt::format(
          "typedef ConvolveAny<Geometry, {}, {}, {}, {}, {}, {}, {}, Operands, Epilogue> "
          "Convolve;\n",
          name_of(epilogue_.made_type()), align > 1 ? stored_type(type) : "f32",
          threads < kMostIn32Bits ? "u32" : "i64", filters, in_line, align, across) +
      facts.asserted_of("Convolve") +
      entry("__launch_bounds__(Convolve::kThreads)", "",
            fmt::format("Convolve::run({}, Operands{{{}}}, {});", x, code_.parameters().arguments(),
                        epilogue_.made()));
  facts.launch(result_);
  result_.blocks = ceil_div(threads, kThreads);
  result_.schedule = fmt::format("windows without tensor cores, {} filter{} x 8 pixels per thread",
                                 filters, filters > 1 ? "s" : "");
}

}  // namespace fusecalc
