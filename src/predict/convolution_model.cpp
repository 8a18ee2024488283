#include "predict/convolution_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/ceil_div.hpp"
#include "graph/shape.hpp"
#include "graph/windows.hpp"
#include "plan/channels_last.hpp"
#include "plan/last_bands.hpp"
#include "plan/last_few.hpp"
#include "plan/mma_tiling.hpp"
#include "plan/shallow.hpp"
#include "plan/tiling.hpp"
#include "predict/l2_model.hpp"
#include "predict/product_model.hpp"

namespace fusecalc {
namespace {

// Elements of windows that a multiprocessor brings to the tensor cores in a cycle: they are loaded
// one by one, and that takes longer than to multiply them.
constexpr double kLowTiles = 4.8;   // of 64 filters
constexpr double kHighTiles = 3.3;  // of 128
constexpr double kNumbered = 1.15;  // few channels, whose places come from a table
constexpr double kWide = 1.1;       // of four bytes, each multiplied as three parts

constexpr double kPackUs = 2.5;  // to put weights into the order of tiles

double filled(double count, double unit) { return std::ceil(count / unit) * unit; }

double number(std::uint64_t count) { return static_cast<double>(count); }

std::uint64_t elements_from(const Shape& shape, std::size_t axis) {
  return elements_between(shape, axis, shape.size());
}

// Microseconds of the tiles of convolve_sm80 in 32-bit floats, as three products each, where each
// block has a multiprocessor to itself; nothing where they are more, or there are none.
std::optional<double> few_tiles_us(DType type, const ConvolutionSize& size, const Device& device) {
  constexpr double kStep = 2500;   // cycles, of 16 elements of depth
  constexpr double kSplit = 3500;  // to add up the sums of several blocks
  constexpr std::uint64_t kFewFilters = 16, kDepth = 16, kPiece = 4, kEight = 8;
  const bool in_tiles = type == DType::kF32 && ours_on_tensor_cores(type, device) &&
                        size.filters > kFewFilters && size.channels >= kPiece;
  if (!in_tiles) return std::nullopt;
  const FilterTiles tile = filter_tiles(size.filters);
  const std::uint64_t columns = size.images * ceil_div(size.out, kEight) * kEight;
  const std::uint64_t tiles =
      ceil_div(size.filters, tile.rows) * size.groups * ceil_div(columns, tile.columns);
  const std::uint64_t steps =
      ceil_div(ceil_div(size.channels, kPiece) * kPiece * size.taps, kDepth);
  const std::uint64_t split = depth_split(tiles, steps, device);
  if (tiles * split > device.multiprocessors) return std::nullopt;
  const double cycles = number(ceil_div(steps, split)) * kStep + (split > 1 ? kSplit : 0);
  return cycles / (device.constants.clock_ghz.value * kGiga);
}

// Microseconds of single elements of 32-bit floats, as products of matrices.
std::optional<double> singles_us(DType type, const ConvolutionSize& size, const Device& device) {
  if (!size.exact || !ours_on_tensor_cores(type, device) || !size.has_pixel_products()) {
    return std::nullopt;
  }
  const ProductShape shape{.m = size.filters,
                           .n = size.out,
                           .k = size.channels,
                           .batches = size.images * size.groups,
                           .b_across = true};
  const MmaOperands operands{.kind = MmaKind::kExact, .bytes = size.bytes};
  const bool wgmma = device.capability == kHopper && !beats_wgmma(shape, operands, device, false);
  const double cycles =
      wgmma ? product_cycles(in_halves(shape, type), std::max(1U, device.multiprocessors), false)
            : mma_tiling(shape, operands, device).cycles;
  return cycles / (device.constants.tensor_clock_ghz.value * kCool * kGiga);
}

// Microseconds to store the result of a depthwise convolution along a line whose channels lie next
// to each other in the input: neighbouring threads store in different lines, each a sector for as
// much as its words hold.
double scattered_us(const Tensor& made, const ConvolutionSize& size, const Device& device) {
  constexpr double kOfL2 = 0.4;  // of its throughput, of sectors written in part
  constexpr std::uint64_t kSector = 32, kWord = 16;
  const bool scatters = size.channels_last && size.channels == 1 && made.type.shape.size() == 3;
  if (!scatters) return 0;
  const std::uint64_t element = bytes_of(made.type.dtype, 1);
  const std::uint64_t stored = bytes_of(made.type.dtype, size.out) % kWord == 0 ? kWord : element;
  const double sectors = number(made.bytes) / number(stored);
  return sectors * number(kSector) / (kOfL2 * bytes_per_us(device.constants.l2_gbps));
}

// An input that is a view has its channels last.
ConvolutionSize size_of(const OpGraph& graph, const Op& op) {
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const Shape& weight = graph.tensors[op.operands[1].tensor].type.shape;
  const auto groups = static_cast<std::uint64_t>(op.attributes->groups);
  return {.images = x.type.shape[0],
          .groups = groups,
          .channels = weight[1],
          .filters = weight[0] / groups,
          .taps = elements_from(weight, 2),
          .in = elements_from(x.type.shape, 2),
          .out = elements_from(graph.tensors[op.outputs[0]].type.shape, 2),
          .channels_last = !x.maps.empty(),
          .weights_last = lies_channels_last(graph.tensors[op.operands[1].tensor]),
          .bytes = bytes_of(x.type.dtype, 1),
          .exact = x.type.dtype == DType::kF32};
}

bool gathers_windows(const OpGraph& graph, const Op& op, const ConvolutionSize& size,
                     const Device& device) {
  constexpr std::size_t kMostAxes = 4;
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  return device.capability == kHopper && has_window_tiles(x.type.dtype) &&
         x.type.shape.size() <= kMostAxes && !size.has_pixel_products() &&
         repays_gathering(size, std::max(1U, device.multiprocessors));
}

// Whether a warpgroup copies the pixels of single elements (convolve_pixels_sm90).
bool copies_pixels(const OpGraph& graph, const Op& op, const ConvolutionSize& size,
                   const Device& device) {
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const bool halves = x.type.dtype == DType::kBf16 || x.type.dtype == DType::kF16;
  const bool product = size.out % 8 == 0 && size.out >= kFewPixels;
  return device.capability == kHopper && halves && size.groups == 1 && size.taps == 1 &&
         size.in == size.out && size.out % 2 == 0 && size.channels % 8 == 0 &&
         !size.channels_last && !product &&
         repays_copies({size.images, size.channels, size.filters, size.out});
}

// The product that a convolution of single elements is, where its k is short.
std::optional<ProductShape> shallow_product(const OpGraph& graph, const Op& op,
                                            const ConvolutionSize& size, const Device& device) {
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const bool halves = x.type.dtype == DType::kBf16 || x.type.dtype == DType::kF16;
  if (!halves || size.groups > 1 || size.taps > 1 || size.in != size.out) return std::nullopt;
  ProductShape product{.m = size.filters,
                       .n = size.out,
                       .k = size.channels,
                       .batches = size.images,
                       .b_across = true};
  std::uint64_t line = size.out;
  if (size.channels_last) {
    if (size.filters % 8 != 0) return std::nullopt;
    product = {.m = size.images * size.out, .n = size.filters, .k = size.channels};
    line = size.channels;
  }
  const bool fits = shallow_tiling(product, std::gcd(line, std::uint64_t{8}), false, device) &&
                    is_shallow_across(product) == product.b_across;
  return fits ? std::optional(product) : std::nullopt;
}

// Channels that lie last and are few (convolve_last_few): what leaves from there does so, too.
std::optional<LastFew> few_of_last(const OpGraph& graph, const Op& op, const ConvolutionSize& size,
                                   const Device& device) {
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const bool halves = x.type.dtype == DType::kBf16 || x.type.dtype == DType::kF16;
  const bool fits = halves && x.type.shape.size() <= 4 && size.filters % 8 == 0;
  return fits ? last_few(size, device) : std::nullopt;
}

// Cycles of 32 pixels, and of each of their steps, of a block's eight warps at a time.
void add_few(const ConvolutionSize& size, const LastFew& few, const Device& device,
             KernelWork& work) {
  constexpr std::array<double, 2> kPixels = {50, 330};  // of one and of two groups of filters
  constexpr std::array<double, 2> kStep = {68, 95};
  constexpr double kStartUs = 2.5;
  constexpr std::uint64_t kUnit = 32, kWarps = 8;
  const std::uint64_t units = ceil_div(size.images * size.out, kUnit);
  const std::uint64_t own = ceil_div(units, kWarps * std::max(1U, device.multiprocessors)) * kWarps;
  const double cycles = kPixels.at(few.wide - 1) + kStep.at(few.wide - 1) * number(few.steps);
  work.fixed_us += kStartUs;
  work.compute_us = number(own) * cycles / (device.constants.clock_ghz.value * kGiga);
  work.time_doubt = 0.3;
}

// Products of single channels that lie last, in a cycle of a multiprocessor: by bands of weights,
// or by threads that go down lines.
double products_of_last(const ConvolutionSize& size, bool bands) {
  // Cycles of a result, of an element of the input, of each tap, and of each of many more, whose
  // weights leave registers for few threads.
  constexpr std::array<double, 4> kByBands = {0.08, 0.12, 0.0045, 0};
  constexpr std::array<double, 4> kGoingDown = {0.026, 0.136, 0.008, 0.018};
  constexpr double kFew = 25;
  const auto& [result, input, tap, more] = bands ? kByBands : kGoingDown;
  const double taps = number(size.taps);
  return taps / (result + input * number(size.in) / number(size.out) + tap * taps +
                 more * std::max(0.0, taps - kFew));
}

// Products of single channels by ordinary arithmetic, or by bands of weights, in a cycle of a
// multiprocessor.
double products_per_cycle(const OpGraph& graph, const Op& op, const ConvolutionSize& size,
                          const Device& device) {
  constexpr double kByLanes = 43;
  constexpr double kByPlanes = 80;  // of planes that a block holds
  constexpr double kByBands = 24;   // the same on tensor cores, of each tap of a line
  constexpr std::uint64_t kMostTaps = 64;
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const Shape& out = graph.tensors[op.outputs[0]].type.shape;
  const bool planes = x.type.shape.size() == 4 && size.channels == 1 && size.taps <= kMostTaps;
  const std::uint64_t bytes = bytes_of(x.type.dtype, 1);
  const auto axes = [](const std::vector<std::int64_t>& values, std::int64_t fallback) {
    return std::array{static_cast<std::uint64_t>(along(values, 0, fallback)),
                      static_cast<std::uint64_t>(along(values, 1, fallback))};
  };
  const bool copies = device.capability >= kFirstWithCopies;
  if (x.type.shape.size() == 4 && size.channels == 1 && size.filters == 1 && size.channels_last &&
      size.groups % 8 == 0 && copies) {
    const auto [down, along] = axes(op.attributes->stride, 1);
    return products_of_last(size, bytes == 2 && repays_bands(size.taps, down * along));
  }
  if (!planes || size.channels_last || !on_tensor_cores(x.type.dtype, device)) return kByLanes;
  if (!copies) return kByLanes;
  const Shape& weight = graph.tensors[op.operands[1].tensor].type.shape;
  const PlaneShape shape{.images = size.images,
                         .groups = size.groups,
                         .filters = size.filters,
                         .in = {x.type.shape[2], x.type.shape[3]},
                         .out = {out[2], out[3]},
                         .taps = {weight[2], weight[3]},
                         .stride = axes(op.attributes->stride, 1),
                         .padding = axes(op.attributes->padding, 0),
                         .dilation = axes(op.attributes->dilation, 1)};
  const unsigned multiprocessors = std::max(1U, device.multiprocessors);
  if (bytes == 2 && plane_bands(shape, 2, device)) return kByBands * number(weight[3]);
  const bool whole_lines = out[3] % 8 == 0 && x.type.shape[3] * bytes % 16 == 0;
  return !whole_lines && plane_tiles(shape, bytes, 2, multiprocessors) ? kByPlanes : kByLanes;
}

// Whether the planes of channels that lie last are put apart first: where the result's channels do
// not lie last, too.
bool turns_planes(const OpGraph& graph, const Kernel& kernel, const Op& op,
                  const ConvolutionSize& size, const Device& device) {
  constexpr std::uint64_t kMostTaps = 64;
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  return size.channels == 1 && size.filters == 1 && size.groups > 1 && size.taps <= kMostTaps &&
         x.type.shape.size() == 4 && size.channels_last && lies_channels_last(x) &&
         device.capability >= kFirstWithCopies && ours_on_tensor_cores(x.type.dtype, device) &&
         std::ranges::none_of(
             kernel, [&](OpId id) { return stores_channels_last(graph, graph.ops[id], op); });
}

// A product in tiles, whose pixels are copied for each 128 filters, longer than they are
// multiplied.
void add_copied(const ConvolutionSize& size, const Device& device, KernelWork& work) {
  constexpr double kCopied = 14;    // bytes of pixels, in a cycle
  constexpr double kStart = 1300;   // cycles of a tile
  constexpr double kNarrow = 1.11;  // lower clock, where more is fetched
  constexpr double kBytes = 128;    // of a filter or a pixel, for 64 of k
  const DeviceConstants& constants = device.constants;
  const PixelTiles tiles = pixel_tiles({size.images, size.channels, size.filters, size.out});
  const std::uint64_t all =
      ceil_div(size.filters, tiles.rows) * ceil_div(tiles.all_columns, tiles.columns);
  const double rounds = number(ceil_div(all, std::max(1U, device.multiprocessors)));
  const double multiply =
      number(tiles.rows * tiles.columns) * 128 / constants.tensor_flops.value * kNarrow;
  const double copy = number(tiles.columns) * kBytes / kCopied;
  const double steps = number(ceil_div(size.channels, kBoxChannels));
  work.compute_us = rounds * (steps * std::max(multiply, copy) + kStart) /
                    (constants.tensor_clock_ghz.value * kGiga);
}

// A copy of the input in another order that comes first, in so many times of what memory takes.
void add_copy_of_input(const ConvolutionSize& size, double bytes, double times,
                       const Device& device, KernelWork& work) {
  const DeviceConstants& constants = device.constants;
  const double copy = number(size.images * size.groups * size.channels * size.in) * bytes;
  // The input was read beside it, and results are written since.
  const double results = number(size.images * size.groups * size.filters * size.out) * bytes;
  work.dram_write += copy;
  work.dram_read += copy * streaming_l2(device.l2_bytes).miss(2 * copy + results / 2);
  work.fixed_us += times * (copy / bytes_per_us(constants.dram_read_gbps) +
                            copy / bytes_per_us(constants.dram_write_gbps));
}

// A product in tiles, after a copy of the weights, and of the input with its channels last.
void add_gathered(const ConvolutionSize& size, const Device& device, KernelWork& work) {
  constexpr double kL2Bytes = 52;       // of a multiprocessor, in a cycle
  constexpr double kLineBytes = 128;    // of a filter or a pixel, for 64 of k
  constexpr double kStart = 1300;       // cycles of a tile
  constexpr double kShared = 2000;      // more of a shared one, whose epilogue is not hidden
  constexpr double kOdd = 6000;         // more, where pixels are stored one by one
  constexpr double kOddExact = 14000;   // likewise, in tiles whose epilogue is not hidden
  constexpr double kLeaves = 2000;      // more, where they leave through shared memory
  constexpr double kExposed = 8000;     // the same of a shared tile
  constexpr double kNarrow = 1.11;      // lower clock, where more is fetched
  constexpr double kSplitStep = 450;    // cycles of 64 of k, where blocks share k
  constexpr double kSplitStart = 3000;  // and of the rest
  constexpr double kOfProduct = 1.4;    // us, on top of a launch
  const DeviceConstants& constants = device.constants;
  const std::uint64_t streams = std::max(1U, device.multiprocessors);
  const ProductShape product = size.product();
  const WindowTiles tiles = window_tiles(size, leaves_through_shared(size), streams);
  const std::uint64_t clusters = ceil_div(product.m, tiles.rows * tiles.cluster) *
                                 ceil_div(product.n, tiles.columns) * product.batches;
  const double rounds_of_windows =
      number(ceil_div(clusters, std::max<std::uint64_t>(1, streams / tiles.cluster)));
  const bool shared = tiles.rows == kTileRows && tiles.columns == 256;
  const double multiply = number(tiles.rows * tiles.columns) * 128 / constants.tensor_flops.value *
                          (shared ? 1 : kNarrow);
  const double fetch = number(tiles.rows + tiles.columns / tiles.cluster) * kLineBytes / kL2Bytes;
  const double odd = leaves_through_shared(size) ? (shared ? kExposed : kLeaves)
                     : size.out % 4 != 0         ? kOdd
                                                 : 0;
  const double tile = number(product.k / size.box()) * std::max(multiply, fetch) + kStart +
                      (shared ? kShared : 0) + odd;
  const std::uint64_t split = window_split(size, streams);
  // What comes with its channels last leaves so, too, as a product whose rows are pixels.
  const ProductShape rows{
      .m = product.n, .n = product.m, .k = product.k, .batches = product.batches};
  const auto halves = [&](const ProductShape& shape) {
    return in_halves(shape, size.bytes, size.exact);
  };
  const bool pixel_rows = size.channels_last && size.filters % 8 == 0 && has_pixel_rows(size);
  const double cycles =
      split > 1    ? number(product.k / size.box()) / number(split) * kSplitStep + kSplitStart
      : pixel_rows ? product_cycles(halves(rows), streams, false) / kCool
      : size.exact ? product_cycles(halves(product), streams, false) / kCool +
                         (size.out % 4 != 0 ? rounds_of_windows * kOddExact : 0)
                   : rounds_of_windows * tile;
  work.compute_us = cycles / (constants.tensor_clock_ghz.value * kGiga);
  if (pixel_rows && split == 1) work.fixed_us += kOfProduct;
  if (size.channels_last && !size.packs_weights()) return;
  work.fixed_us += constants.launch_us.value;
  if (size.packs_weights())
    work.dram_write += number(product.m * product.batches * product.k * size.bytes);
  if (!size.channels_last) add_copy_of_input(size, number(size.bytes), 1, device, work);
}

// Bytes of x that arrive beside those that count: elements between strided ones that share their
// sectors, and, where x is copied with its channels last, all of it.
double bytes_beside(const OpGraph& graph, const Op& op, const KernelTraffic& traffic, bool copied) {
  constexpr std::uint64_t kSector = 32;
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const bool read = std::ranges::find(traffic.reads, x.value, &KernelTraffic::Entry::tensor) !=
                    traffic.reads.end();
  const bool channels_last = !x.maps.empty();
  if (!read || channels_last) return 0;
  const Shape& weight = graph.tensors[op.operands[1].tensor].type.shape;
  const std::vector<WindowAxis> axes = convolution_axes(*op.attributes, x.type.shape, weight,
                                                        graph.tensors[op.outputs[0]].type.shape);
  const std::uint64_t bytes = bytes_of(x.type.dtype, 1);
  std::uint64_t lines = x.type.shape[0] * x.type.shape[1];
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) lines *= axes[i].touched();
  const std::uint64_t counted = axes.back().touched();
  const auto whole = static_cast<std::uint64_t>(axes.back().in);
  const std::uint64_t sectors = static_cast<std::uint64_t>(axes.back().out) * (kSector / bytes);
  const std::uint64_t fetched = std::clamp(sectors, counted, whole);
  const double all = number(copied ? x.elements : lines * fetched);
  return (all - number(lines * counted)) * static_cast<double>(bytes);
}

// By ordinary arithmetic, bands of weights, or few tiles of f32.
void add_others(const OpGraph& graph, const Kernel& kernel, const Op& op, ConvolutionSize size,
                const Device& device, KernelWork& work) {
  constexpr double kTurn = 2.8;  // of a copy's time, where single elements are put apart
  constexpr double kTurnLaunches = 2;
  const DType type = graph.tensors[op.operands[0].tensor].type.dtype;
  const Tensor& made = graph.tensors[op.outputs[0]];
  if (turns_planes(graph, kernel, op, size, device)) {
    size.channels_last = false;
    work.fixed_us += kTurnLaunches * device.constants.launch_us.value;
    add_copy_of_input(size, number(bytes_of(type, 1)), kTurn, device, work);
  }
  const double rate = products_per_cycle(graph, op, size, device);
  const double products = number(made.elements) * number(size.channels * size.taps);
  const double cycles_per_us = device.multiprocessors * device.constants.clock_ghz.value * kGiga;
  work.compute_us = std::max(products / (rate * cycles_per_us), scattered_us(made, size, device));
  if (const auto us = singles_us(type, size, device)) {
    work.compute_us = *us;
  } else if (const auto few = few_tiles_us(type, size, device)) {
    work.fixed_us += kPackUs;
    work.compute_us = *few;
  }
}

}  // namespace

KernelWork convolution_work(const OpGraph& graph, const Kernel& kernel, const Op& op,
                            const KernelTraffic& traffic, double epilogue, const Device& device) {
  constexpr double kLowRows = 64;
  constexpr double kFewChannels = 8;
  const Tensor& x = graph.tensors[op.operands[0].tensor];
  const Tensor& weight = graph.tensors[op.operands[1].tensor];
  const auto results = static_cast<double>(graph.tensors[op.outputs[0]].elements);
  const auto groups = static_cast<double>(op.attributes->groups);
  const double filters = static_cast<double>(weight.type.shape[0]) / groups;
  const auto channels = static_cast<double>(weight.type.shape[1]);
  const auto taps =
      static_cast<double>(elements_between(weight.type.shape, 2, weight.type.shape.size()));
  const bool wide = bytes_of(x.type.dtype, 1) > 2;
  const double cycles_per_us = device.multiprocessors * device.constants.clock_ghz.value * kGiga;
  KernelWork work{.dram_read = static_cast<double>(traffic.bytes.read),
                  .dram_write = static_cast<double>(traffic.bytes.write),
                  .fixed_us = device.constants.launch_us.value,
                  .read_doubt = 0.2,
                  .write_doubt = 0.05,
                  .time_doubt = 0.5};
  const ConvolutionSize size = size_of(graph, op);
  if (const auto product = shallow_product(graph, op, size, device)) {
    const auto operands = static_cast<double>(x.bytes + weight.bytes);
    const bool reading = static_cast<double>(traffic.bytes.read) >= operands + 2 * results;
    return shallow_work(*product, traffic.bytes, reading, epilogue * results, device);
  }
  const bool in_tiles = on_tensor_cores(x.type.dtype, device) && filters > (wide ? 16 : 4);
  const bool gathers = gathers_windows(graph, op, size.merged(), device);
  work.dram_read += bytes_beside(graph, op, traffic, gathers);
  if (const auto few = few_of_last(graph, op, size, device)) {
    add_few(size, *few, device, work);
  } else if (copies_pixels(graph, op, size, device)) {
    add_copied(size, device, work);
  } else if (gathers) {
    add_gathered(size.merged(), device, work);
  } else if (in_tiles) {
    const bool low = filters <= kLowRows;
    const double rows = low ? kLowRows : 2 * kLowRows;
    const double by_taps = low ? kLowTiles : kHighTiles;
    const double rate = wide ? kWide : channels < kFewChannels ? kNumbered : by_taps;
    const double loaded = results / filters * channels * taps * filled(filters, rows) / rows;
    work.fixed_us += kPackUs;
    const double multiplied =
        tensor_us(device, static_cast<double>(op.flops)) / tensor_share(x.type.dtype, device);
    work.compute_us = std::max(loaded / (rate * cycles_per_us), multiplied);
  } else {
    add_others(graph, kernel, op, size, device, work);
  }
  work.compute_us += lane_us(device, epilogue * results);
  return work;
}

}  // namespace fusecalc
