#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/plan_runner.hpp"

namespace fusecalc {

struct Calibration {
  Device device;                   // the GPU at hand, with the constants that were found
  std::vector<std::string> notes;  // one for every constant that could not be measured
};

// Finds the constants of prediction for the GPU at hand. For each there is an op list whose time
// depends on it: the constant gets the value at which the model predicts the time that was
// measured. Constants of the architecture (`lanes`, `tensor_flops`) are those of the known devices.
Calibration calibrate(GpuBackend& gpu, const Progress& progress);

// Its two halves: the constants of a device on which the lists take these times, in microseconds,
// and the times that a device's constants predict.
Calibration fit_constants(Device device, std::span<const double> times);
std::vector<double> predicted_probes(const Device& device);

}  // namespace fusecalc
