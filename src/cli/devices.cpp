#include "cli/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <string>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/output.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "device/device_file.hpp"
#include "report/listing.hpp"

namespace fusecalc {

bool is_device_file(std::string_view text) {
  return text.find_first_of("./") != std::string_view::npos || text == "-";
}

Device device_of(const std::string& text, std::string_view place) {
  if (is_device_file(text)) return read_device(ByteSource::open(text));
  std::string name = text;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::span<const std::string_view> names = device_names();
  if (std::ranges::find(names, name) != names.end()) return device_named(name);
  throw Error(Fault::kBadInput,
              fmt::format("{}: unknown GPU {}{}; run fusecalc devices for a list, or name a file "
                          "that ends in .json",
                          place, in_quotes(text), did_you_mean(name, names)));
}

void run(const DevicesOptions& options) {
  Output output = Output::standard();
  if (!options.name.empty()) {
    refuse_format_of_one("devices", options.format);
    write_device(device_of(options.name, "devices"), output);
    output.finish();
    return;
  }
  Listing listing{
      .schema = "fusecalc.devices/1",
      .rows_key = "devices",
      .columns = {"device", "capability", "multiprocessors", "l2_bytes", "memory_bytes",
                  "dram_gbps", "tensor_gflops", "constants", "source"},
      .rows = {},
      .titles = {"device", "cc", "SMs", "L2", "memory", "DRAM", "tensor", "constants", "source"}};
  for (const Device& device : known_devices()) {
    const DeviceConstants& constants = device.constants;
    const auto gbps = static_cast<std::uint64_t>(constants.dram_read_gbps.value);
    const auto gflops = static_cast<std::uint64_t>(
        device.multiprocessors * constants.tensor_flops.value * constants.tensor_clock_ghz.value);
    listing.rows.push_back(
        {device.name, to_string(device.capability), std::uint64_t{device.multiprocessors},
         NumberWithUnit{device.l2_bytes, human_bytes(device.l2_bytes)},
         NumberWithUnit{device.memory_bytes, human_bytes(device.memory_bytes)},
         NumberWithUnit{gbps, std::to_string(gbps) + " GB/s"},
         NumberWithUnit{gflops, std::to_string(gflops / 1000) + " TFLOP/s"},
         std::string(name_of(constants.calibrated() ? ConstantOrigin::kCalibrated
                                                    : ConstantOrigin::kDatasheet)),
         device.source});
  }
  write_listing(listing, options.format.value_or(default_format()), style_of_standard_output(),
                output);
  output.finish();
}

}  // namespace fusecalc
