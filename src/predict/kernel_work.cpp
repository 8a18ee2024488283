#include "predict/kernel_work.hpp"

#include <algorithm>
#include <array>

namespace fusecalc {
namespace {

// Of what is not the longest, a part is not hidden behind it.
constexpr double kUnhidden = 0.13;

// FMA units for f64 of a multiprocessor (CUDA C++ Programming Guide, "Arithmetic Instructions").
double f64_units(ComputeCapability capability) {
  struct Units {
    ComputeCapability capability;
    double count = 0;
  };
  constexpr std::array kUnits = {Units{{6, 0}, 32}, Units{{6, 1}, 4},  Units{{7, 0}, 32},
                                 Units{{7, 2}, 32}, Units{{8, 0}, 32}, Units{{9, 0}, 64},
                                 Units{{10, 0}, 64}};
  constexpr double kOthers = 2;
  const auto* const found = std::ranges::find(kUnits, capability, &Units::capability);
  return found != kUnits.end() ? found->count : kOthers;
}

}  // namespace

double arithmetic_lanes(DType type, const Device& device) {
  const double lanes = device.constants.lanes.value;
  return type == DType::kF64 ? std::min(lanes, f64_units(device.capability)) : lanes;
}

double product_flops(DType type, const Device& device) {
  const double share = tensor_share(type, device);
  if (share > 0) return device.constants.tensor_flops.value * share;
  // An A100's and an H200's tensor cores double what their units for f64 multiply.
  const bool doubled = type == DType::kF64 &&
                       (device.capability == kFirstWithCopies || device.capability == kHopper);
  return (doubled ? 4 : 2) * arithmetic_lanes(type, device);
}

double lane_us(const Device& device, double instructions) {
  return instructions / (device.multiprocessors * device.constants.lanes.value *
                         device.constants.clock_ghz.value * kGiga);
}

double special_us(const Device& device, double functions) {
  // 16 a cycle, of a clock that is higher while little else runs.
  constexpr double kSpecialLanes = 20;
  return functions /
         (device.multiprocessors * kSpecialLanes * device.constants.clock_ghz.value * kGiga);
}

double tensor_us(const Device& device, double flops) {
  return flops / (device.multiprocessors * device.constants.tensor_flops.value *
                  device.constants.tensor_clock_ghz.value * kGiga);
}

double tensor_share(DType type, const Device& device) {
  const auto since = [&](ComputeCapability first, double share) {
    return device.capability >= first ? share : 0;
  };
  switch (type) {
    case DType::kF16: return 1;
    case DType::kBf16: return since(kFirstWithCopies, 1);
    case DType::kTf32: return since(kFirstWithCopies, 0.5);
    case DType::kFp8E4m3:
    case DType::kFp8E5m2: return since(kFirstWithFp8, 2);
    case DType::kI8: return 2;
    default: return 0;
  }
}

bool on_tensor_cores(DType type, const Device& device) {
  return device.capability >= kFirstWithCopies && tensor_share(type, device) > 0;
}

bool ours_on_tensor_cores(DType type, const Device& device) {
  return on_tensor_cores(type == DType::kF32 ? DType::kTf32 : type, device);
}

Prediction predict(const KernelWork& work, const Device& device, bool back_to_back) {
  const DeviceConstants& constants = device.constants;
  const double dram = work.dram_read / bytes_per_us(constants.dram_read_gbps) +
                      work.dram_write / bytes_per_us(constants.dram_write_gbps);
  const double l2 =
      (work.l2_bytes + work.dram_read + work.dram_write) / bytes_per_us(constants.l2_gbps);
  const std::array parts = {dram, l2, work.compute_us};
  constexpr std::array kBounds = {Bound::kMemory, Bound::kL2, Bound::kCompute};
  const auto* longest = std::ranges::max_element(parts);
  double second = 0;
  for (const double& part : parts) {
    // The L2 and the DRAM carry the same bytes.
    const bool same = (&part == &parts[1]) || (longest == &parts[1] && &part == &parts[0]);
    if (&part != longest && !same) second = std::max(second, part);
  }
  // The next kernel starts while the last blocks of this one end.
  constexpr double kOverlapUs = 1.6;
  const double fixed = std::max(0.0, work.fixed_us - (back_to_back ? kOverlapUs : 0));
  Prediction result{.dram_read = work.dram_read, .dram_write = work.dram_write};
  result.time_us = fixed + *longest + (*longest > 0 ? kUnhidden * second * second / *longest : 0);
  result.bound = kBounds[static_cast<std::size_t>(longest - parts.begin())];
  if (fixed > *longest) {
    result.bound =
        work.fixed_us > constants.launch_us.value + kOverlapUs ? Bound::kLatency : Bound::kLaunch;
  }
  const double widen = constants.calibrated() ? 1 : 2.5;
  const auto around = [](double value, double doubt, double least) {
    const double half = value * doubt + least;
    return Interval{std::max(0.0, value - half), value + half};
  };
  // Counters see a little of what else the chip does.
  constexpr double kStrayBytes = 65536;
  const double stray = work.dram_read + work.dram_write > 0 ? kStrayBytes : 0;
  result.read_range = around(work.dram_read, work.read_doubt * widen, stray);
  result.write_range = around(work.dram_write, work.write_doubt * widen, stray);
  result.time_range = around(result.time_us, std::min(0.95, work.time_doubt * widen), 0.3);
  return result;
}

}  // namespace fusecalc
