// Convolutions of single elements, of planes that Hopper's copy engine does not take: products in
// contract_sm90.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "core/ceil_div.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

PixelSize pixel_size_of(const Convolution& convolution) {
  return {.images = convolution.images,
          .channels = convolution.channels,
          .filters = convolution.filters,
          .pixels = convolution.pixels()};
}

}  // namespace

// Of one group, whose channels follow each other without gaps, where every pixel is a window.
std::optional<MatrixProduct> ContractionWriter::pixels_in_copies() const {
  const DType type = operand_type();
  const bool halves = type == DType::kBf16 || type == DType::kF16;
  if (device_.capability != kHopper || !halves || !multiplies_on_tensor_cores()) {
    return std::nullopt;
  }
  const Convolution convolution = convolution_of(graph_, op_);
  const auto product = product_of_pixels(graph_, op_);
  const bool fits = product && convolution.groups == 1 && alignment_of(product->a) == 8 &&
                    alignment_of(product->b) >= 2 && product->b.line == product->n &&
                    repays_copies(pixel_size_of(convolution));
  return fits ? product : std::nullopt;
}

void ContractionWriter::write_convolution_pixels(const Convolution& convolution) {
  const PixelSize size = pixel_size_of(convolution);
  const std::string x = fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                                    convolution.strides->offset);
  const std::uint64_t align = alignment_of(product_.b);
  pointer_of(product_.a);
  // Nothing is reduced, so that no tile has partials.
  epilogue_.write(product_, 1);
  const PixelTiles tiles = pixel_tiles(size);
  result_.maps = {map_of(product_.a, size.filters, static_cast<std::uint32_t>(tiles.rows))};
  const KernelFacts facts{.threads = 384,
                          .shared_bytes = tiles.stages * (tiles.lines() * kBoxBytes + 16),
                          .tile_rows = tiles.rows,
                          .tile_columns = tiles.columns,
                          .tile_depth = box_elements()};
  const std::uint64_t units = ceil_div(size.filters, tiles.rows);
  const std::uint64_t all = units * ceil_div(tiles.all_columns, tiles.columns);
  product_ = {.m = size.filters,
              .n = tiles.all_columns,
              .k = size.channels,
              .a = {.tensor = product_.a.tensor},
              .b = {.tensor = product_.b.tensor}};
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"mma", "convolve", "hopper", "stages", "rounds", "contract_sm90",
              "convolve_pixels_sm90"}) +
      convolution.text() + epilogue_.text() + shape(units) +
      fmt::format(
          "typedef ContractSm90<{}, {}, 1, 0, LinesOfB::kAcross, Epilogue, "
          "PixelsB<Geometry, {}, {}>> Contract;\n",
          name_of(operand_type()), tiles.columns, tiles.rows, align) +
      facts.asserted_of("Contract") +
      entry("__launch_bounds__(Contract::kThreads, 1) __cluster_dims__(1, 1, 1)",
            "const __grid_constant__ TensorMap a",
            fmt::format("Contract::run(a, {}, kShape, {});", x, epilogue_.made()));
  facts.launch(result_);
  result_.blocks = std::min<std::uint64_t>(std::max(1U, device_.multiprocessors), all);
  result_.schedule = fmt::format("wgmma over pixels, tiles of {} x {}", tiles.rows, tiles.columns);
}

}  // namespace fusecalc
