#pragma once

#include "core/dtype.hpp"
#include "device/device.hpp"
#include "predict/prediction.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// What a kernel has to do, in the units that take time. Its prediction follows from it, and so does
// that of a plan, where the L2 serves a part of the reads.
struct KernelWork {
  double dram_read = 0;  // bytes
  double dram_write = 0;
  double l2_bytes = 0;    // reads that the L2 serves
  double compute_us = 0;  // arithmetic, whole waves of blocks counted
  double fixed_us = 0;    // launching, and latencies that nothing hides
  // The half-widths of ranges, as shares.
  double read_doubt = 0;
  double write_doubt = 0;
  double time_doubt = 0;
};

// The time that work takes, and what binds it. Work of a plan's kernels overlaps a little:
// `back_to_back` leaves out what a lone kernel waits for.
Prediction predict(const KernelWork& work, const Device& device, bool back_to_back = false);

// Rates of a device, per microsecond.
inline constexpr double kGiga = 1e3;  // of a rate in Gx/s
inline double bytes_per_us(const DeviceConstant& gbps) { return gbps.value * kGiga; }

// How much higher the tensor cores' clock is at first than in a long product, of which the device's
// constants tell.
inline constexpr double kCool = 1.15;

// Instructions that compute with numbers of a type, per multiprocessor and cycle: fewer of f64, by
// the units that a GPU of its compute capability has.
double arithmetic_lanes(DType type, const Device& device);

// FLOPs of products of a type at the peak, per multiprocessor and cycle, with the faster of tensor
// cores and ordinary arithmetic.
double product_flops(DType type, const Device& device);

// How long so many instructions for one thread each take the whole chip.
double lane_us(const Device& device, double instructions);

// The same of special functions, such as an exponential or a reciprocal.
double special_us(const Device& device, double functions);

// How long so many FLOPs of 16-bit products take all tensor cores.
double tensor_us(const Device& device, double flops);

// Tensor cores' rate for a type, in parts of that for 16 bits; 0 where they have none.
double tensor_share(DType type, const Device& device);
// Whether our own kernels multiply it there, too.
bool on_tensor_cores(DType type, const Device& device);
// The same of our kernels, which multiply 32-bit floats as three products of tf32 each.
bool ours_on_tensor_cores(DType type, const Device& device);

}  // namespace fusecalc
