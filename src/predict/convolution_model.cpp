#include "predict/convolution_model.hpp"

#include <algorithm>
#include <cmath>

#include "graph/shape.hpp"

namespace fusecalc {
namespace {

// Elements of windows that a multiprocessor brings to the tensor cores in a cycle: they are loaded
// one by one, and that takes longer than to multiply them.
constexpr double kLowTiles = 4.8;   // of 64 filters
constexpr double kHighTiles = 3.3;  // of 128
constexpr double kNumbered = 1.15;  // few channels, whose places come from a table
constexpr double kWide = 1.1;       // of four bytes, each multiplied as three parts
constexpr double kByLanes = 43;     // products of ordinary arithmetic, in a cycle

double filled(double count, double unit) { return std::ceil(count / unit) * unit; }

}  // namespace

KernelWork convolution_work(const OpGraph& graph, const Op& op, const KernelTraffic& traffic,
                            double epilogue, const Device& device) {
  constexpr double kPackUs = 2.5;  // to put the weights into the order of the tiles
  constexpr double kTileRows = 64;
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
  const bool in_tiles = tensor_share(x.type.dtype) > 0 && filters > (wide ? 16 : 4);
  if (in_tiles) {
    const bool low = filters <= kTileRows;
    const double rows = low ? kTileRows : 2 * kTileRows;
    const double by_taps = low ? kLowTiles : kHighTiles;
    const double rate = wide ? kWide : channels < kFewChannels ? kNumbered : by_taps;
    const double loaded = results / filters * channels * taps * filled(filters, rows) / rows;
    work.fixed_us += kPackUs;
    work.compute_us = loaded / (rate * cycles_per_us);
  } else {
    work.compute_us = results * channels * taps / (kByLanes * cycles_per_us);
  }
  work.compute_us += lane_us(device, epilogue * results);
  return work;
}

}  // namespace fusecalc
