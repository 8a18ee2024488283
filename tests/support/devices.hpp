#pragma once

#include <array>

#include "device/device.hpp"

namespace fusecalc::testing {

// One of each generation that has code of its own.
inline constexpr std::array kCapabilities = {ComputeCapability{7, 5}, ComputeCapability{8, 0},
                                             kHopper, ComputeCapability{10, 0}};

// The default device, as if it had another compute capability.
inline Device device_of(ComputeCapability capability) {
  Device device = known_devices().front();
  device.capability = capability;
  return device;
}

}  // namespace fusecalc::testing
