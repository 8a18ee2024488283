// Products whose k is short: moving the larger operand and the result bounds them.

#include <fmt/format.h>

#include <string>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/last_few.hpp"
#include "plan/shallow.hpp"

namespace fusecalc {

void ContractionWriter::take_shallow(const MatrixProduct& product) {
  const DType type = operand_type();
  const bool halves = type == DType::kBf16 || type == DType::kF16;
  const bool plain = siblings_.empty() && !epilogue_.halves() && !epilogue_.reduces() &&
                     !epilogue_.holds_rows() && !computes_rows() && !computes_weights();
  const bool lie = product.a.tensor != kNone && product.a.piece == 0 && product.b.piece == 0;
  if (!halves || !plain || !lie || graph_.tensors[op_.operands[1].tensor].type.dtype != type) {
    return;
  }
  const ProductShape size = product.shape();
  const bool across = is_shallow_across(size);
  if (across && (product.a.inner | product.a.outer) != 0) return;
  const std::uint64_t align = alignment_of(across ? product.b : product.a);
  const std::vector<ShallowTiling> tilings =
      shallow_tilings(size, align, reads_elsewhere(), device_);
  const bool leads = shallow_tiling(size, align, reads_elsewhere(), device_).has_value();
  const std::size_t first = leads ? 0 : 1;
  shallow_ways_ = tilings.size();
  ways_ = shallow_ways_ + 1;
  if (way_ >= first && way_ < first + shallow_ways_) shallow_ = tilings[way_ - first];
}

void ContractionWriter::take_shallow_convolution() {
  if (!multiplies_on_tensor_cores()) return;
  if (const auto product = product_of_pixels(graph_, op_)) return take_shallow(*product);
  if (!leaves_channels_last(convolution_of(graph_, op_))) return;
  if (const auto product = product_of_pixel_rows(graph_, op_)) take_shallow(*product);
}

void ContractionWriter::write_shallow(const ShallowTiling& tiling, const MatrixProduct& result,
                                      bool channels_last) {
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write(result, tiling.columns(),
                  {.loads_ahead = !tiling.across && product_.n % 8 == 0,
                   .channels_last = channels_last,
                   .columns_beyond = channels_last && product_.n % 32 != 0,
                   .keeps_terms = channels_last && !tiling.across});
  const KernelFacts facts{.threads = tiling.threads(),
                          .shared_bytes = tiling.shared_bytes(),
                          .tile_rows = tiling.rows(),
                          .tile_columns = tiling.columns()};
  const std::string element(name_of(operand_type()));
  const std::string contract =
      tiling.across ? fmt::format("ContractShallowAcross<{}, {}, {}, {}", element, tiling.steps,
                                  tiling.own, tiling.part)
                    : fmt::format("ContractShallow<{}, {}, {}, {}, {}, {}, {}", element,
                                  tiling.steps, tiling.own, tiling.part, tiling.down,
                                  product_.b.across, alignment_of(product_.b) % 8 == 0);
  result_.source.text += blocks({"mma", "contract_shallow"}) + epilogue_.text() + shape(8) +
                         strided_entry(contract, facts, fmt::format(", {}", tiling.resident),
                                       pointer_of(product_.a), pointer_of(product_.b));
  facts.launch(result_);
  result_.blocks = tiling.blocks;
  result_.schedule =
      fmt::format("mma from registers, short k, tiles of {} x {}", tiling.rows(), tiling.columns());
}

namespace {

// Whether the distance of any two elements of a window fits in 32 bits.
bool has_near_windows(const Convolution& convolution) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  std::uint64_t reach = 0;
  for (std::size_t i = 0; i < convolution.axes.size(); ++i) {
    const WindowAxis& axis = convolution.axes.at(i);
    reach += number((axis.kernel - 1) * axis.dilation) * convolution.strides->at.at(i);
  }
  return reach < kMost;
}

}  // namespace

// Convolutions of few channels that lie last.
bool ContractionWriter::write_convolution_few(const Convolution& convolution) {
  const DType type = operand_type();
  const bool halves = type == DType::kBf16 || type == DType::kF16;
  if (!halves || !multiplies_on_tensor_cores() || !convolution.strides ||
      !leaves_channels_last(convolution) || !has_channels_last(convolution) ||
      !convolution.has_two_axes() || !has_near_windows(convolution)) {
    return false;
  }
  const TensorId weight = op_.operands[1].tensor;
  const auto weights = strides_in_memory(graph_, weight);
  const auto few = last_few(size_of(convolution, operand_type()), device_);
  if (!few || !weights || graph_.tensors[weight].type.dtype != type) return false;
  const std::string x = fmt::format("{} + {}", code_.parameters().input(op_.operands[0].tensor),
                                    convolution.strides->offset);
  const std::string w = fmt::format("{} + {}", code_.parameters().input(weight), weights->offset);
  epilogue_.write(product_of_pixels_last(convolution), few->columns(),
                  {.loads_ahead = true,
                   .channels_last = true,
                   .columns_beyond = convolution.filters % 32 != 0,
                   .keeps_terms = true});
  const KernelFacts facts{.threads = LastFew::kThreads,
                          .shared_bytes = few->shared_bytes(),
                          .tile_rows = few->rows(),
                          .tile_columns = few->columns()};
  result_.source.text +=
      blocks({"mma", "contract_shallow", "convolve_last_few"}) + epilogue_.text() +
      fmt::format(
          "struct Weights {{\n  static constexpr ConvolutionStrides kStrides = {};\n"
          "  static constexpr bool kWhole = {};\n}};\n"
          "typedef ConvolveLastFew<Geometry, Weights, {}, {}, {}, Epilogue> Convolve;\n",
          text_of(*weights), lies_in_eights(*weights), name_of(type), few->strips, few->wide) +
      facts.asserted_of("Convolve") +
      entry(fmt::format("__launch_bounds__(Convolve::kThreads, {})", LastFew::kResident), "",
            fmt::format("Convolve::run({}, {}, {});", x, w, epilogue_.made()));
  facts.launch(result_);
  result_.blocks = few->blocks;
  result_.schedule = fmt::format("mma from registers, windows of few channels, tiles of {} x {}",
                                 few->rows(), few->columns());
  return true;
}

}  // namespace fusecalc
