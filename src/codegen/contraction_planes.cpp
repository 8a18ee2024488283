// Convolutions of one channel in a group, over planes that a block holds in shared memory.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "core/ceil_div.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// Whether the planes of the input follow each other without gaps, from a multiple of 16 bytes on.
bool streams_planes(const Convolution& convolution, std::uint64_t element_bytes) {
  const auto& [outer, lines, line] = convolution.axes;
  const Convolution::Strides& strides = *convolution.strides;
  const auto follows = [](std::uint64_t stride, std::uint64_t extent, std::uint64_t expected) {
    return extent == 1 || stride == expected;
  };
  const std::uint64_t plane = number(lines.in * line.in);
  return outer.in == 1 && outer.kernel == 1 && outer.out == 1 &&
         follows(strides.at[2], number(line.in), 1) &&
         follows(strides.at[1], number(lines.in), number(line.in)) &&
         follows(strides.channel, convolution.groups, plane) &&
         follows(strides.image, convolution.images, convolution.groups * plane) &&
         strides.offset * element_bytes % 16 == 0;
}

// Lines of whole 16 bytes are loaded so from memory, which is faster than to hold planes.
bool has_whole_lines(const Convolution& convolution, std::uint64_t element_bytes) {
  return convolution.axes[2].out % 8 == 0 &&
         convolution.alignment(16 / element_bytes) * element_bytes == 16;
}

PlaneShape shape_of(const Convolution& convolution) {
  const auto& [outer, lines, line] = convolution.axes;
  return {.images = convolution.images,
          .groups = convolution.groups,
          .filters = convolution.filters,
          .in = {number(lines.in), number(line.in)},
          .out = {number(lines.out), number(line.out)},
          .taps = {number(lines.kernel), number(line.kernel)},
          .stride = {number(lines.stride), number(line.stride)},
          .padding = {number(lines.padding), number(line.padding)},
          .dilation = {number(lines.dilation), number(line.dilation)}};
}

// What differs between the two kernels.
struct PlanesKernel {
  std::string type;
  std::string bounds;
  KernelFacts facts;
  std::uint64_t blocks = 0;
  std::string schedule;
};

PlanesKernel kernel_of(const PlaneBands& bands, const PlaneShape& shape, std::string_view element) {
  return {
      .type = fmt::format(
          "ConvolvePlanesMma<Geometry, {}, {}, {}, {}, {}, {}, {}, Operands, Epilogue>", element,
          bands.planes, bands.lines, bands.share, bands.images, bands.together, bands.stages),
      .bounds = fmt::format("__launch_bounds__(Convolve::kThreads, {})", bands.resident),
      .facts = {.threads = bands.threads(shape),
                .shared_bytes = bands.shared_bytes,
                .tile_rows = bands.planes,
                .tile_columns = bands.images},
      .blocks = bands.blocks(shape),
      .schedule =
          fmt::format("mma with bands of weights, {} plane{} of {} image{} per block", bands.planes,
                      bands.planes > 1 ? "s" : "", bands.images, bands.images > 1 ? "s" : "")};
}

PlanesKernel kernel_of(const PlaneTiles& tiles, const PlaneShape& shape, std::string_view element) {
  return {
      .type = fmt::format("ConvolvePlanes<Geometry, {}, {}, {}, {}, {}, Operands, Epilogue>",
                          element, tiles.planes, tiles.lines, tiles.columns, tiles.align),
      .bounds = "__launch_bounds__(Convolve::kThreads)",
      .facts = {.threads = PlaneTiles::kThreads,
                .shared_bytes = tiles.shared_bytes,
                .tile_rows = tiles.planes,
                .tile_columns = tiles.lines * tiles.columns},
      .blocks = ceil_div(shape.planes(), tiles.planes),
      .schedule = fmt::format("{} plane{} per block, strips of {} x {} per thread", tiles.planes,
                              tiles.planes > 1 ? "s" : "", tiles.lines, tiles.columns)};
}

}  // namespace

// What both kernels take: windows whose code is written out, of planes.
bool ContractionWriter::takes_planes(const Convolution& convolution) const {
  constexpr std::uint64_t kMostTaps = 64;
  return convolution.channels == 1 && convolution.strides &&
         device_.capability >= kFirstWithCopies && multiplies_on_tensor_cores() &&
         convolution.taps() <= kMostTaps && epilogue_.made_type() == ComputeType::kF32;
}

// Whether the input is copied first, as planes: where its channels lie last, and those of the
// result do not. (Where they do, the kernels of convolve_last_*.cuh need no copy.)
bool ContractionWriter::turns_planes(const Convolution& convolution) const {
  return takes_planes(convolution) && convolution.has_two_axes() && convolution.axes[1].in > 1 &&
         convolution.filters == 1 && convolution.groups > 1 && convolution.strides->channel == 1 &&
         !epilogue_.ends_channels_last();
}

// The entry that does so; returns the planes.
std::string ContractionWriter::turn_planes(const Convolution& convolution) {
  constexpr std::uint64_t kTile = 64;
  const Convolution::Strides& strides = *convolution.strides;
  const std::uint64_t pixels = pixels_of_input(convolution);
  const std::string_view element = stored_type(operand_type());
  result_.packed_at = epilogue_.reserve(convolution.images * convolution.groups * pixels *
                                        bytes_of(operand_type(), 1));
  const std::string planes =
      fmt::format("reinterpret_cast<{}*>(work + {})", element, result_.packed_at);
  result_.source.text += blocks({"turn_planes"});
  write_pack(
      fmt::format("TurnPlanes<{}>::copy(blockIdx.x, {} + {}, {}, {{{}, {}, {}, {}, {}, {}}});",
                  element, code_.parameters().input(op_.operands[0].tensor), strides.offset, planes,
                  convolution.groups, pixels, convolution.axes[2].in, strides.image, strides.at[1],
                  strides.at[2]),
      convolution.images * ceil_div(pixels, kTile) * ceil_div(convolution.groups, kTile));
  result_.gaps.more_writes = "the input is copied first, with channels apart";
  return planes;
}

bool ContractionWriter::write_convolution_planes(const Convolution& convolution) {
  const std::uint64_t size = bytes_of(operand_type(), 1);
  const bool streams = takes_planes(convolution) && streams_planes(convolution, size);
  const bool turns = !streams && turns_planes(convolution);
  if (!streams && !turns) return false;
  const PlaneShape shape = shape_of(convolution);
  const DType type = operand_type();
  const std::uint64_t multiprocessors = std::max(1U, device_.multiprocessors);
  const std::string functions = weights_of_convolution();
  // Where no block holds the results, the next kernel's epilogue takes the place of this one.
  epilogue_.write(product_, 8,
                  {.stores = true, .period = convolution.groups * convolution.filters});
  const std::uint64_t result_bytes = epilogue_.stored_outside() ? 2 : 0;
  const bool halves = size == 2 && graph_.tensors[op_.operands[1].tensor].type.dtype == type;
  const auto bands = halves ? plane_bands(shape, result_bytes, device_) : std::nullopt;
  const auto tiles = bands || (streams && has_whole_lines(convolution, size))
                         ? std::nullopt
                         : plane_tiles(shape, size, result_bytes, multiprocessors);
  if (!bands && !tiles) return false;
  const std::string x =
      turns ? turn_planes(convolution)
            : fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                          convolution.strides->offset);
  const PlanesKernel made = bands ? kernel_of(*bands, shape, stored_type(type))
                                  : kernel_of(*tiles, shape, stored_type(type));
  result_.source.text += blocks({"mma", "hopper", "convolve_planes"}) +
                         (bands ? blocks({"weight_bands", "convolve_planes_mma"}) : "") +
                         epilogue_.text() + operands_struct(functions) +
                         fmt::format("typedef {} Convolve;\n", made.type) +
                         made.facts.asserted_of("Convolve") +
                         entry(made.bounds, "",
                               fmt::format("Convolve::run({}, Operands{{{}}}, {});", x,
                                           code_.parameters().arguments(), epilogue_.made()));
  made.facts.launch(result_);
  result_.blocks = made.blocks;
  result_.schedule = made.schedule;
  return true;
}

}  // namespace fusecalc
