// Convolutions of single elements, of planes whose lines Hopper's copy engine does not take one by
// one: products in contract_sm90.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "core/ceil_div.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

// Shared memory of contract_sm90 for what is on its way to memory.
constexpr std::uint64_t kStoredBytes = 32768;

PixelSize pixel_size_of(const Convolution& convolution) {
  return {.images = convolution.images,
          .channels = convolution.channels,
          .filters = convolution.filters,
          .pixels = convolution.pixels()};
}

}  // namespace

// Whether the channels of an image follow each other, each a plane without gaps, and every pixel of
// it is a window.
bool ContractionWriter::takes_pixels(const Convolution& convolution) const {
  if (getenv("FC_OLD")) return false;
  const DType type = operand_type();
  if (device_.capability != kHopper || (type != DType::kBf16 && type != DType::kF16) ||
      !multiplies_on_tensor_cores() || convolution.groups != 1) {
    return false;
  }
  const auto product = product_of_pixels(graph_, op_);
  return product && product->b.line == product->n && product->b.offset % 8 == 0 &&
         product->b.inner % 8 == 0 && repays_pixels(pixel_size_of(convolution));
}

void ContractionWriter::write_convolution_pixels(const Convolution& convolution) {
  const std::string_view element = name_of(operand_type());
  const PixelSize size = pixel_size_of(convolution);
  const std::string functions = weights_of_convolution();
  code_.parameters().input(op_.operands[0].tensor);
  epilogue_.write(product_, 1, {.stores = size.leaves_through_shared(), .period = size.filters});
  const PixelTiles tiles =
      pixel_tiles(size, epilogue_.stored_outside(), std::max(1U, device_.multiprocessors));
  const std::uint64_t depth = ceil_div(size.channels, kBoxChannels) * kBoxChannels;
  result_.packed_at = epilogue_.reserve(ceil_div(size.filters * depth * 2, 256) * 256);
  const std::uint64_t together = size.together();
  const std::uint64_t line = together * size.pixels;
  const std::uint64_t images = convolution.strides->image;
  result_.maps = {{.dtype = operand_type(),
                   .extents = {depth, size.filters, 1, 1},
                   .strides = {depth * 2, 16, 16},
                   .box = {kBoxChannels, static_cast<std::uint32_t>(tiles.rows), 1, 1}},
                  {.storage = graph_.storage_of(op_.operands[0].tensor),
                   .dtype = operand_type(),
                   .offset = convolution.strides->offset * 2,
                   .extents = {line, size.channels / together, size.images, 1},
                   .strides = {line * 2, images > 0 ? images * 2 : 16, 16},
                   .box = {kBoxChannels, static_cast<std::uint32_t>(kBoxChannels / together),
                           static_cast<std::uint32_t>(tiles.images_of_box), 1}}};
  const KernelFacts facts{
      .threads = 384,
      .shared_bytes = tiles.stages * ((tiles.rows + ceil_div(tiles.columns, 64) * 64) * 128 + 16) +
                      (epilogue_.stored_outside() ? kStoredBytes : 0),
      .tile_rows = tiles.rows,
      .tile_columns = tiles.columns,
      .tile_depth = kBoxChannels,
      .blocks_per_cluster = tiles.cluster};
  const std::uint64_t units = ceil_div(size.filters, tiles.rows * tiles.cluster);
  const std::uint64_t clusters = units * ceil_div(tiles.all_columns, tiles.columns);
  product_ = {.m = size.filters,
              .n = tiles.all_columns,
              .k = depth,
              .a = {.tensor = product_.a.tensor},
              .b = {.tensor = product_.b.tensor}};
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"mma", "hopper", "stages", "contract_sm90", "convolve_pixels_sm90"}) +
      epilogue_.text() + operands_struct(functions) + shape(units) +
      mapped_entry(fmt::format("ContractSm90<{}, {}, {}, 0, LinesOfB::kAcross", element,
                               tiles.columns, tiles.cluster),
                   facts, ", 1",
                   fmt::format(", PixelsB<Geometry, {}, {}>", tiles.rows, together));
  facts.launch(result_);
  result_.blocks =
      tiles.cluster *
      std::min(std::max<std::uint64_t>(1, device_.multiprocessors / tiles.cluster), clusters);
  result_.schedule = fmt::format("wgmma over pixels, tiles of {} x {}", tiles.rows, tiles.columns);
  write_pack(fmt::format("PixelsB<Geometry, {}, {}>::pack(Operands{{{}}}, "
                         "reinterpret_cast<{}*>(work + {}));",
                         tiles.rows, together, code_.parameters().arguments(), element,
                         result_.packed_at),
             ceil_div(size.filters * depth, kPackThreads));
  result_.gaps.more_writes = "the weights are copied first, in the order of the tiles";
}

}  // namespace fusecalc
