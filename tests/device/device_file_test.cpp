#include "device/device_file.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/error.hpp"
#include "support/written.hpp"

namespace fusecalc {
namespace {

std::string text_of(const Device& device) {
  return testing::written([&](Output& output) { write_device(device, output); });
}

Device read(const std::string& text) {
  return read_device(ByteSource::from_memory(text, "d.json"));
}

std::string fault_of(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    (void)read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

TEST_CASE("a device's document is read as it was written") {
  for (const Device& device : known_devices()) {
    CAPTURE(device.name);
    const Device again = read(text_of(device));
    CHECK(text_of(again) == text_of(device));
    CHECK(again.constants.calibrated() == (device.name == "h200"));
  }
}

TEST_CASE("a wrong device is refused with its place") {
  const std::string text = text_of(device_named("a100"));
  CHECK(fault_of(text, "fusecalc.device/1", "fusecalc.device/2") ==
        "d.json: /schema: must be \"fusecalc.device/1\", not \"fusecalc.device/2\"");
  CHECK(fault_of(text, "\"lanes\"", "\"lane\"") ==
        "d.json: /constants/lane: unknown constant (did you mean \"lanes\"?)");
  CHECK(fault_of(text, "\"8.0\"", "\"eight\"") ==
        "d.json: /compute_capability: must have the form \"9.0\", not \"eight\"");
  CHECK(fault_of(text, "\"multiprocessors\": 108", "\"multiprocessors\": 0") ==
        "d.json: /multiprocessors: must be from 1 to 1048576");
  CHECK(fault_of(text, "\"name\": \"a100\",", "") == "d.json: missing key \"name\"");
  CHECK(fault_of(text, "datasheet", "hearsay")
            .find("\"hearsay\" is not one of datasheet, calibrated") != std::string::npos);
}

TEST_CASE("a rate of a device is above 0, what is added may be 0") {
  std::string text = text_of(device_named("a100"));
  for (const ConstantRow& row : constant_table()) {
    CAPTURE(row.name);
    const std::size_t at = text.find("\"value\": ", text.find(row.name)) + 9;
    std::string none = text;
    none.replace(at, none.find(',', at) - at, "0");
    const bool added = row.name == "launch_us" || row.name == "tensor_slowdown";
    CHECK(fault_of(none, "", "") == (added ? "fine"
                                           : "d.json: /constants/" + std::string(row.name) +
                                                 "/value: must be from 0.001 to 1e12"));
  }
  CHECK(fault_of(text, "\"constants\": {", "\"constants\": {\"comment\": \"rates\", ") == "fine");
}

TEST_CASE("a GPU that is present has the constants of the known one") {
  Device present{.name = "NVIDIA H200", .capability = {9, 0}};
  CHECK(with_constants(present).constants.calibrated());
  present.name = "NVIDIA H100 80GB HBM3";
  CHECK(with_constants(present).source == device_named("h100").source);
  present = {.name = "NVIDIA Something", .capability = {8, 9}};
  CHECK_FALSE(with_constants(present).constants.calibrated());
}

}  // namespace
}  // namespace fusecalc
