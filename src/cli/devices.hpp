#pragma once

#include <string>

#include "device/device.hpp"

namespace fusecalc {

// What --device names: one of specs/devices, in capitals or not, or a file of fusecalc.device/1.
Device device_of(const std::string& text);

}  // namespace fusecalc
