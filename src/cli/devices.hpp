#pragma once

#include <string>
#include <string_view>

#include "device/device.hpp"

namespace fusecalc {

// What --device names: one of specs/devices, in capitals or not, or a file of fusecalc.device/1.
// `place` is named where it is neither.
Device device_of(const std::string& text, std::string_view place = "--device");
bool is_device_file(std::string_view text);

}  // namespace fusecalc
