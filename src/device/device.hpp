#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

struct ComputeCapability {
  unsigned major = 0;
  unsigned minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

std::string to_string(ComputeCapability capability);  // "9.0"

// The only generation that runs kernels with wgmma.
inline constexpr ComputeCapability kHopper{9, 0};
// The first that copies to shared memory asynchronously.
inline constexpr ComputeCapability kFirstWithCopies{8, 0};
// The first whose tensor cores multiply fp8.
inline constexpr ComputeCapability kFirstWithFp8{8, 9};

// Where a constant is from: measured on such a device, or worked out from its documents. The second
// widens the ranges of predictions.
enum class ConstantOrigin : std::uint8_t { kDatasheet, kCalibrated };

struct DeviceConstant {
  double value = 0;
  ConstantOrigin origin = ConstantOrigin::kDatasheet;
};

// The constants of prediction: rates that good kernels reach, not the peaks of a datasheet.
struct DeviceConstants {
  DeviceConstant dram_read_gbps;  // of streaming kernels
  DeviceConstant dram_write_gbps;
  DeviceConstant l2_gbps;           // of reads that the L2 serves
  DeviceConstant launch_us;         // the smallest kernel, from start to end
  DeviceConstant clock_ghz;         // of the multiprocessors in kernels without tensor cores
  DeviceConstant lanes;             // instructions for one thread, per multiprocessor and cycle
  DeviceConstant tensor_flops;      // 16-bit products, per multiprocessor and cycle
  DeviceConstant tensor_clock_ghz;  // in products that are short enough to stay cool
  DeviceConstant tensor_slowdown;   // how much longer a long product takes at the power limit: 0.2

  bool calibrated() const;  // all of them
};

// A constant's name in documents, and its member.
struct ConstantRow {
  std::string_view name;
  DeviceConstant DeviceConstants::*member;
  std::string_view summary;
  double least = 1e-3;  // what is divided by must not be 0
};
std::span<const ConstantRow> constant_table();

// What planning, counting, predicting, code generation and measuring need to know of a GPU, be it
// one of specs/devices, one that a document describes, or one that is present.
struct Device {
  std::string name{};
  ComputeCapability capability{};
  // Shared memory that one thread block can have: what a row may take to be read only once.
  std::uint64_t on_chip_bytes = 0;
  unsigned multiprocessors = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;
  DeviceConstants constants{};
  std::string source{};  // where its figures are from
};

// Those of specs/devices. The first is the default.
std::span<const Device> known_devices();
std::span<const std::string_view> device_names();
const Device& device_named(std::string_view name);

// A GPU that is present, with the constants of the known device that it is, or is most like.
Device with_constants(Device present);

}  // namespace fusecalc
