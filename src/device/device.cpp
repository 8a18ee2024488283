#include "device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cctype>
#include <vector>

#include "core/embedded.hpp"
#include "device/device_file.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kDefault = "h200";

constexpr std::array kConstants = {
    ConstantRow{"dram_read_gbps", &DeviceConstants::dram_read_gbps,
                "DRAM reads of streaming kernels, GB/s"},
    ConstantRow{"dram_write_gbps", &DeviceConstants::dram_write_gbps,
                "DRAM writes of streaming kernels, GB/s"},
    ConstantRow{"l2_gbps", &DeviceConstants::l2_gbps, "reads that the L2 serves, GB/s"},
    ConstantRow{"launch_us", &DeviceConstants::launch_us,
                "the smallest kernel from start to end, us", 0},
    ConstantRow{"clock_ghz", &DeviceConstants::clock_ghz,
                "multiprocessors' clock without tensor cores, GHz"},
    ConstantRow{"lanes", &DeviceConstants::lanes,
                "instructions for one thread, a multiprocessor and cycle"},
    ConstantRow{"tensor_flops", &DeviceConstants::tensor_flops,
                "FLOPs of 16-bit products, a multiprocessor and cycle"},
    ConstantRow{"tensor_clock_ghz", &DeviceConstants::tensor_clock_ghz,
                "multiprocessors' clock in short products, GHz"},
    ConstantRow{"tensor_slowdown", &DeviceConstants::tensor_slowdown,
                "share of time that long products take more at the power limit", 0},
};

// "NVIDIA H200" and "NVIDIA H100 80GB HBM3" have the words h200 and h100.
bool has_word(std::string_view text, std::string_view word) {
  std::string plain;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain.find(word) != std::string::npos;
}

}  // namespace

std::string to_string(ComputeCapability capability) {
  return fmt::format("{}.{}", capability.major, capability.minor);
}

bool DeviceConstants::calibrated() const {
  return std::ranges::all_of(kConstants, [&](const ConstantRow& row) {
    return (this->*row.member).origin == ConstantOrigin::kCalibrated;
  });
}

std::span<const ConstantRow> constant_table() { return kConstants; }

std::span<const Device> known_devices() {
  static const std::vector<Device> devices = [] {
    std::vector<Device> all;
    for (const EmbeddedFile& file : embedded_devices()) {
      all.push_back(read_device(
          ByteSource::from_memory(file.text, fmt::format("specs/devices/{}.json", file.name))));
    }
    std::stable_partition(all.begin(), all.end(),
                          [](const Device& device) { return device.name == kDefault; });
    return all;
  }();
  return devices;
}

std::span<const std::string_view> device_names() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const Device& device : known_devices()) all.push_back(device.name);
    return all;
  }();
  return names;
}

const Device& device_named(std::string_view name) {
  const std::span<const Device> devices = known_devices();
  const auto found = std::ranges::find(devices, name, &Device::name);
  assert(found != devices.end());
  return *found;
}

Device with_constants(Device present) {
  const std::span<const Device> devices = known_devices();
  // The longest name: an rtx5090 is no rtx509.
  const Device* like = nullptr;
  for (const Device& device : devices) {
    const bool longer = like == nullptr || device.name.size() > like->name.size();
    if (has_word(present.name, device.name) && longer) like = &device;
  }
  if (like != nullptr) {
    present.constants = like->constants;
    present.source = like->source;
    return present;
  }
  // An unknown one: the known device of the same generation, or of the one before it.
  like = &devices.front();
  for (const Device& device : devices) {
    if (device.capability <= present.capability &&
        (like->capability > present.capability || device.capability > like->capability)) {
      like = &device;
    }
  }
  present.constants = like->constants;
  for (const ConstantRow& row : kConstants) {
    (present.constants.*row.member).origin = ConstantOrigin::kDatasheet;
  }
  present.source = "the constants of " + like->name;
  return present;
}

}  // namespace fusecalc
