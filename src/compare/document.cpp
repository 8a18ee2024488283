#include "compare/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/checked.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

// The current versions of the schemas.
constexpr std::string_view kSweepSchema = "fusecalc.sweep/1";
constexpr std::string_view kSchemas[] = {"fusecalc.analysis/1", "fusecalc.measurement/1",
                                         "fusecalc.profile/1", kSweepSchema};

constexpr std::string_view kTakes =
    "compare takes what analyze, measure, profile or sweep wrote with -o FILE.json";

std::string_view without_version(std::string_view schema) {
  return schema.substr(0, schema.rfind('/'));
}

class ResultReader {
 public:
  ResultReader(JsonReader& reader, bool any_version) : reader_(reader), any_version_(any_version) {}

  // One result, or those of a sweep.
  std::vector<ResultDocument> read() {
    read_result();
    if (document_.schema.empty()) {
      reader_.fail(fmt::format("not a result: it has no \"schema\"; {}", kTakes));
    }
    if (!is_sweep()) points_.push_back(std::move(document_));
    return std::move(points_);
  }

 private:
  void read_result() {
    document_.path = reader_.name();
    if (reader_.peek() != JsonKind::kObject) reader_.fail_type(JsonKind::kObject);
    read_fields(
        {{"schema", [&] { read_schema(); }},
         {"name", [&] { document_.name = reader_.read_string(); }},
         {"plan", [&] { document_.plan = reader_.read_string(); }},
         {"source", [&] { document_.source = reader_.read_string(); }},
         {"unfused_bytes", [&] { document_.unfused = bytes_or_null(); }},
         {"fused_bytes", [&] { document_.fused = bytes_or_null(); }},
         {"dtype_bytes",
          [&] {
            document_.says_inputs = true;
            document_.conditions["dtype_bytes"] =
                std::to_string(reader_.read_count("bytes per element"));
          }},
         {"synthetic", [&] { read_flag("synthetic"); }},
         {"interrupted", [&] { read_flag("interrupted"); }},
         {"seed",
          [&] { document_.conditions["seed"] = std::to_string(reader_.read_count("a seed")); }},
         {"device", [&] { read_device(); }},
         {"dims", [&] { read_dims(); }},
         {"inputs", [&] { read_inputs(); }},
         {"plans", [&] { read_plans(); }},
         {"cache", [&] { document_.conditions["cache"] = reader_.read_string(); }},
         {"processes", [&] { read_processes(); }},
         {"state", [&] { state_ = read_scalar(); }},
         {"measured", [&] { measured_ = read_scalar(); }},
         {"points", [&] { read_points(); }}});
  }

  bool is_sweep() const {
    return without_version(document_.schema) == without_version(kSweepSchema);
  }

  // A point without a result, because it failed or is missing, is left out: it has no figures.
  void read_points() {
    if (!is_sweep()) return reader_.skip_value();
    reader_.read_array([&](std::size_t) {
      ResultReader point(reader_, any_version_);
      point.read_result();
      if (point.state_ != "done") return;
      point.document_.schema = document_.schema;
      point.document_.conditions["measured"] = measured_;
      point.name_point();
      points_.push_back(std::move(point.document_));
    });
  }

  // "softmax M=16384 N=8192 h200"
  void name_point() {
    constexpr std::string_view kDim = "dim ";
    for (const auto& [what, value] : document_.conditions) {
      if (!what.starts_with(kDim)) continue;
      document_.name += fmt::format(" {}={}", what.substr(kDim.size()), value);
    }
    const auto device = document_.conditions.find("device");
    if (device != document_.conditions.end()) document_.name += " " + device->second;
  }

  struct Field {
    std::string_view key;
    std::function<void()> read;
  };

  void read_fields(std::initializer_list<Field> fields) {
    reader_.read_members([&](const std::string& key) {
      for (const Field& field : fields) {
        if (field.key == key) return field.read();
      }
      reader_.skip_value();
    });
  }

  bool take_null() {
    if (reader_.peek() != JsonKind::kNull) return false;
    reader_.skip_value();
    return true;
  }

  void read_schema() {
    document_.schema = reader_.read_string();
    for (const std::string_view known : kSchemas) {
      if (document_.schema == known) return;
      if (without_version(document_.schema) != without_version(known)) continue;
      if (any_version_) return;
      reader_.fail(
          fmt::format("{} is not the version that this fusecalc writes, {}; regenerate "
                      "it, or override with --force",
                      in_quotes(document_.schema), known));
    }
    reader_.fail(fmt::format("{} is not a result; compare takes {}", in_quotes(document_.schema),
                             listed(kSchemas)));
  }

  std::optional<std::uint64_t> bytes_or_null() {
    if (take_null()) return std::nullopt;
    return reader_.read_count("a number of bytes");
  }

  // Microseconds as written, in picoseconds.
  std::optional<std::uint64_t> time_or_null() {
    if (take_null()) return std::nullopt;
    constexpr double kPicoseconds = 1e6;
    const JsonNumber number = reader_.read_number();
    double value = 0;
    const auto parsed =
        std::from_chars(number.text.data(), number.text.data() + number.text.size(), value);
    value *= kPicoseconds;
    if (parsed.ec != std::errc{} || !(value >= 0 && value < static_cast<double>(kMaxCount))) {
      reader_.fail(
          fmt::format("must be a time in microseconds, not {}", printable(number.text, 40)));
    }
    return static_cast<std::uint64_t>(std::llround(value));
  }

  void read_flag(const std::string& what) {
    document_.conditions[what] = reader_.read_boolean() ? "true" : "false";
  }

  // Text, a number or a flag, as it is written.
  std::string read_scalar() {
    if (take_null()) return "";
    switch (reader_.peek()) {
      case JsonKind::kNumber: return std::string(reader_.read_number().text);
      case JsonKind::kBoolean: return reader_.read_boolean() ? "true" : "false";
      default: return reader_.read_string();
    }
  }

  void read_device() {
    if (take_null()) return;
    const auto condition = [&](const char* what) { document_.conditions[what] = read_scalar(); };
    const auto circumstance = [&](const char* what) {
      document_.circumstances[what] = read_scalar();
    };
    read_fields({{"name", [&] { condition("device"); }},
                 {"compute_capability", [&] { condition("compute capability"); }},
                 {"sm_count", [&] { condition("number of multiprocessors"); }},
                 {"shared_bytes_per_block", [&] { condition("shared memory of a block"); }},
                 {"l2_bytes", [&] { condition("size of the L2"); }},
                 {"ecc", [&] { condition("ECC"); }},
                 {"uuid", [&] { circumstance("device uuid"); }},
                 {"memory_bytes", [&] { circumstance("memory size"); }},
                 {"sm_clock_mhz", [&] { circumstance("SM clock"); }},
                 {"memory_clock_mhz", [&] { circumstance("memory clock"); }},
                 {"driver", [&] { circumstance("driver"); }},
                 {"driver_cuda", [&] { circumstance("CUDA version of the driver"); }},
                 {"toolkit", [&] { circumstance("toolkit"); }}});
  }

  void read_dims() {
    document_.says_inputs = true;
    reader_.read_members([&](const std::string& name) {
      document_.conditions["dim " + name] = std::to_string(reader_.read_count("an extent"));
    });
  }

  void read_inputs() {
    document_.says_inputs = true;
    reader_.read_members([&](const std::string& name) {
      InputType& input = document_.inputs[name];
      read_fields({{"dtype", [&] { input.dtype = reader_.read_string(); }},
                   {"shape", [&] { input.shape = read_shape(); }}});
    });
  }

  std::string read_shape() {
    std::string shape = "[";
    reader_.read_array([&](std::size_t i) {
      shape += (i > 0 ? ", " : "") + std::to_string(reader_.read_count("an extent"));
    });
    return shape + "]";
  }

  void read_plans() {
    reader_.read_members([&](const std::string& name) {
      PlanFigures plan;
      plan.name = name;
      std::optional<std::uint64_t> read;
      std::optional<std::uint64_t> write;
      read_fields({{"read", [&] { read = bytes_or_null(); }},
                   {"write", [&] { write = bytes_or_null(); }},
                   {"total", [&] { plan.bytes = bytes_or_null(); }},
                   {"kernels", [&] { read_kernels(plan); }},
                   {"measured", [&] { plan.isolated = read_measured(); }},
                   {"measured_pipeline", [&] { plan.pipeline = read_measured(); }},
                   {"verified", [&] { plan.verified = read_verified(); }}});
      if (!plan.bytes) plan.bytes = sum(read, write);
      document_.plans.push_back(std::move(plan));
    });
  }

  // The processes of a profile are compared as plans, and their kernels by name.
  void read_processes() {
    reader_.read_array([&](std::size_t i) {
      PlanFigures process;
      process.name = i == 0 ? "program" : fmt::format("process {}", i + 1);
      read_fields({{"kernels", [&] { read_profiled_kernels(process); }},
                   {"totals", [&] { process.pipeline = read_profiled(); }}});
      for (const KernelFigures& kernel : process.kernels) {
        process.pipeline.uncounted += kernel.measured.uncounted;
      }
      if (i == 0) document_.plan = process.name;
      document_.plans.push_back(std::move(process));
    });
  }

  void read_profiled_kernels(PlanFigures& process) {
    std::map<std::string, int> repeats;
    reader_.read_array([&](std::size_t) {
      KernelFigures kernel;
      kernel.measured = read_profiled(&kernel.name);
      const int repeat = ++repeats[kernel.name];
      if (repeat > 1) kernel.name += fmt::format(" ({})", repeat);
      kernel.ops.push_back(kernel.name);
      process.kernels.push_back(std::move(kernel));
    });
  }

  MeasuredFigures read_profiled(std::string* name = nullptr) {
    MeasuredFigures figures;
    std::uint64_t launches = 0;
    std::uint64_t counted = 0;
    read_fields({{"name",
                  [&] {
                    if (name != nullptr) *name = reader_.read_string();
                  }},
                 {"launches", [&] { launches = bytes_or_null().value_or(0); }},
                 {"counted", [&] { counted = bytes_or_null().value_or(0); }},
                 {"dram_read", [&] { figures.read = bytes_or_null(); }},
                 {"dram_write", [&] { figures.write = bytes_or_null(); }},
                 {"time_us", [&] {
                    const std::optional<std::uint64_t> time = time_or_null();
                    if (time)
                      figures.time = MeasuredTime{.median = *time, .p10 = *time, .p90 = *time};
                  }}});
    figures.uncounted = launches - std::min(counted, launches);
    return figures;
  }

  void read_kernels(PlanFigures& plan) {
    std::map<std::string, int> repeats;
    reader_.read_array([&](std::size_t i) {
      KernelFigures kernel;
      std::optional<std::uint64_t> read;
      std::optional<std::uint64_t> write;
      read_fields({{"name", [&] { kernel.name = reader_.read_string(); }},
                   {"ops", [&] { kernel.ops = read_names(); }},
                   {"read", [&] { read = bytes_or_null(); }},
                   {"write", [&] { write = bytes_or_null(); }},
                   {"reads", [&] { read_tensors(kernel, kernel.reads); }},
                   {"writes", [&] { read_tensors(kernel, kernel.writes); }},
                   {"boundary", [&] { read_boundaries(kernel); }},
                   {"cannot_launch", [&] { kernel.cannot_launch = reader_.read_string(); }},
                   {"measured", [&] { kernel.measured = read_measured(); }}});
      if (kernel.name.empty()) kernel.name = fmt::format("kernel {}", i);
      if (kernel.ops.empty()) {
        const int repeat = ++repeats[kernel.name];
        if (repeat > 1) kernel.name += fmt::format(" ({})", repeat);
        kernel.ops.push_back(kernel.name);
      }
      kernel.bytes = sum(read, write);
      plan.kernels.push_back(std::move(kernel));
    });
  }

  std::optional<std::uint64_t> sum(std::optional<std::uint64_t> read,
                                   std::optional<std::uint64_t> write) {
    if (!read || !write) return std::nullopt;
    if (!checked_add(*read, *write)) {
      reader_.fail(fmt::format("moves more than {} bytes", kMaxCount));
    }
    return read;
  }

  std::vector<std::string> read_names() {
    std::vector<std::string> names;
    reader_.read_array([&](std::size_t) { names.push_back(reader_.read_string()); });
    return names;
  }

  void read_tensors(KernelFigures& kernel, TensorBytes& tensors) {
    kernel.lists_tensors = true;
    reader_.read_members(
        [&](const std::string& name) { tensors[name] = reader_.read_count("a number of bytes"); });
  }

  void read_boundaries(KernelFigures& kernel) {
    reader_.read_array([&](std::size_t) {
      BoundaryReason boundary;
      read_fields({{"with", [&] { boundary.with = reader_.read_string(); }},
                   {"tensor", [&] { boundary.tensor = reader_.read_string(); }},
                   {"reason", [&] { boundary.reason = reader_.read_string(); }}});
      kernel.boundaries.push_back(std::move(boundary));
    });
  }

  MeasuredFigures read_measured() {
    MeasuredFigures figures;
    if (take_null()) return figures;
    read_fields({{"dram_read", [&] { figures.read = bytes_or_null(); }},
                 {"dram_write", [&] { figures.write = bytes_or_null(); }},
                 {"time_us", [&] { figures.time = read_time(); }},
                 {"reason", [&] { figures.reason = take_null() ? "" : reader_.read_string(); }}});
    return figures;
  }

  std::optional<MeasuredTime> read_time() {
    if (take_null()) return std::nullopt;
    std::optional<std::uint64_t> median;
    std::optional<std::uint64_t> p10;
    std::optional<std::uint64_t> p90;
    read_fields({{"median", [&] { median = time_or_null(); }},
                 {"p10", [&] { p10 = time_or_null(); }},
                 {"p90", [&] { p90 = time_or_null(); }}});
    if (!median) return std::nullopt;
    // Without p10 and p90, both are the median.
    return MeasuredTime{
        .median = *median, .p10 = p10.value_or(*median), .p90 = p90.value_or(*median)};
  }

  std::optional<bool> read_verified() {
    std::optional<bool> ok;
    if (take_null()) return ok;
    read_fields({{"ok", [&] { ok = reader_.read_boolean(); }}});
    return ok;
  }

  JsonReader& reader_;
  const bool any_version_;
  ResultDocument document_;
  std::string state_;     // of a point
  std::string measured_;  // whether the points of a sweep are
  std::vector<ResultDocument> points_;
};

}  // namespace

std::vector<ResultDocument> read_results(JsonReader& reader, bool any_version) {
  std::vector<ResultDocument> results;
  const auto read_one = [&] {
    for (ResultDocument& result : ResultReader(reader, any_version).read()) {
      results.push_back(std::move(result));
    }
  };
  if (reader.peek() == JsonKind::kArray) {
    reader.read_array([&](std::size_t) { read_one(); });
  } else {
    read_one();
  }
  reader.expect_end();
  return results;
}

}  // namespace fusecalc
