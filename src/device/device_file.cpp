#include "device/device_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "core/suggest.hpp"
#include "core/text.hpp"
#include "json/reader.hpp"
#include "json/writer.hpp"

namespace fusecalc {
namespace {

constexpr std::array<std::string_view, 2> kOrigins = {"datasheet", "calibrated"};

enum Field : std::size_t {
  kSchema,
  kName,
  kCapability,
  kMultiprocessors,
  kOnChip,
  kL2,
  kMemory,
  kSource,
  kPredicted
};
constexpr std::array<std::string_view, 9> kFields = {"schema",
                                                     "name",
                                                     "compute_capability",
                                                     "multiprocessors",
                                                     "shared_bytes_per_block",
                                                     "l2_bytes",
                                                     "memory_bytes",
                                                     "source",
                                                     "constants"};

class Reader {
 public:
  explicit Reader(ByteSource source) : json_(std::move(source)) {}

  Device read() {
    const std::uint64_t seen = json_.read_object(kFields, [&](std::size_t field) { read(field); });
    for (std::size_t field = 0; field < kFields.size(); ++field) {
      const bool optional = field == kSource || field == kMemory;
      if (!optional && (seen >> field & 1U) == 0) {
        json_.fail(fmt::format("missing key \"{}\"", kFields[field]));
      }
    }
    json_.expect_end();
    return std::move(device_);
  }

 private:
  void read(std::size_t field) {
    switch (static_cast<Field>(field)) {
      case kSchema: {
        const std::string schema = json_.read_string();
        if (schema != kDeviceSchema) {
          json_.fail(fmt::format("must be \"{}\", not {}", kDeviceSchema, in_quotes(schema)));
        }
        break;
      }
      case kName:
        device_.name = json_.read_string();
        if (device_.name.empty()) json_.fail("must not be empty");
        break;
      case kCapability: device_.capability = capability(); break;
      case kMultiprocessors:
        device_.multiprocessors = static_cast<unsigned>(positive("multiprocessors", 1 << 20));
        break;
      case kOnChip: device_.on_chip_bytes = positive("the bytes of a block", kMostBytes); break;
      case kL2: device_.l2_bytes = positive("the bytes of the L2", kMostBytes); break;
      case kMemory: device_.memory_bytes = positive("the bytes of the memory", kMostBytes); break;
      case kSource: device_.source = json_.read_string(); break;
      case kPredicted: read_constants(); break;
    }
  }

  ComputeCapability capability() {
    const std::string text = json_.read_string();
    ComputeCapability found;
    const char* end = text.data() + text.size();
    const auto major = std::from_chars(text.data(), end, found.major);
    if (major.ec == std::errc{} && major.ptr != end && *major.ptr == '.') {
      const auto minor = std::from_chars(major.ptr + 1, end, found.minor);
      if (minor.ec == std::errc{} && minor.ptr == end && found.major < 100) return found;
    }
    json_.fail(fmt::format("must have the form \"9.0\", not {}", in_quotes(text)));
  }

  std::uint64_t positive(std::string_view what, std::uint64_t most) {
    const std::uint64_t count = json_.read_count(what);
    if (count == 0 || count > most) json_.fail(fmt::format("must be from 1 to {}", most));
    return count;
  }

  void read_constants() {
    std::vector<std::string_view> names;
    for (const ConstantRow& row : constant_table()) names.push_back(row.name);
    std::uint64_t seen = 0;
    json_.read_members([&](const std::string& name) {
      if (JsonReader::is_annotation(name)) return json_.skip_value();
      const auto found = std::ranges::find(names, name);
      if (found == names.end()) json_.fail("unknown constant" + did_you_mean(name, names));
      const auto index = static_cast<std::size_t>(found - names.begin());
      seen |= std::uint64_t{1} << index;
      const ConstantRow& row = constant_table()[index];
      device_.constants.*row.member = constant(row.least);
    });
    for (std::size_t i = 0; i < names.size(); ++i) {
      if ((seen >> i & 1U) == 0) json_.fail(fmt::format("missing key \"{}\"", names[i]));
    }
  }

  DeviceConstant constant(double least) {
    constexpr std::array<std::string_view, 2> kMembers = {"value", "from"};
    DeviceConstant result;
    const std::uint64_t seen = json_.read_object(kMembers, [&](std::size_t member) {
      if (member == 0) {
        const JsonNumber number = json_.read_number();
        std::from_chars(number.text.data(), number.text.data() + number.text.size(), result.value);
        constexpr double kMost = 1e12;
        if (!(result.value >= least) || result.value > kMost) {
          json_.fail(fmt::format("must be from {} to 1e12", least));
        }
      } else {
        const std::string origin = json_.read_string();
        const auto* found = std::ranges::find(kOrigins, origin);
        if (found == kOrigins.end()) {
          json_.fail(in_quotes(origin) + " is not one of datasheet, calibrated" +
                     did_you_mean(origin, kOrigins));
        }
        result.origin = static_cast<ConstantOrigin>(found - kOrigins.begin());
      }
    });
    if (seen != 3) json_.fail("must have \"value\" and \"from\"");
    return result;
  }

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50U;

  JsonReader json_;
  Device device_;
};

}  // namespace

std::string_view name_of(ConstantOrigin origin) {
  return kOrigins[static_cast<std::size_t>(origin)];
}

Device read_device(ByteSource source) { return Reader(std::move(source)).read(); }

void write_device(const Device& device, Output& output) {
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", kDeviceSchema);
  json.member("name", device.name);
  json.member("compute_capability", to_string(device.capability));
  json.member("multiprocessors", std::uint64_t{device.multiprocessors});
  json.member("shared_bytes_per_block", device.on_chip_bytes);
  json.member("l2_bytes", device.l2_bytes);
  json.member("memory_bytes", device.memory_bytes);
  json.member("source", device.source);
  json.key("constants").begin_object();
  for (const ConstantRow& row : constant_table()) {
    const DeviceConstant& constant = device.constants.*row.member;
    json.key(row.name).begin_object(JsonWriter::Layout::kInline);
    json.member("value", constant.value);
    json.member("from", name_of(constant.origin));
    json.end();
  }
  json.end().end();
}

}  // namespace fusecalc
