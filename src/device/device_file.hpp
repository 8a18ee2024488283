#pragma once

#include <string_view>

#include "core/output.hpp"
#include "device/device.hpp"
#include "json/source.hpp"

namespace fusecalc {

inline constexpr std::string_view kDeviceSchema = "fusecalc.device/1";

// Reads a document of that schema. Throws an Error with the place of what is wrong.
Device read_device(ByteSource source);

void write_device(const Device& device, Output& output);

std::string_view name_of(ConstantOrigin origin);

}  // namespace fusecalc
