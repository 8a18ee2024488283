#include "measure/calibration.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <variant>

#include "analysis/analyze.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "measure/graph_runner.hpp"

namespace fusecalc {
namespace {

// Which time of an op list tells a constant.
enum class Timed : std::uint8_t { kFused, kBackToBack };

// An op list whose time depends on one constant more than on those above it.
struct Probe {
  DeviceConstant DeviceConstants::*constant;
  Timed timed;
  std::string (*list)(const Device&);
};

// So many elements that a tensor of f32 takes a share of the L2, in whole rows of 1,024.
std::uint64_t rows_in_l2(const Device& device, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(device.l2_bytes) * share / 4096) + 1;
}

// More than the L2 holds, and no more than kernels usually move: the rate of a copy falls by some
// percent where it moves gigabytes.
std::uint64_t large_rows(const Device& device) { return rows_in_l2(device, 3); }

std::string op_list(const std::string& dtype, const std::string& tensors, const std::string& ops) {
  return fmt::format(
      R"({{"format": "fusecalc.ops/1", "dtype": "{}", "tensors": {{{}}}, "ops": [{}]}})", dtype,
      tensors, ops);
}

std::string rows_list(std::uint64_t rows, const std::string& ops) {
  return op_list("f32", fmt::format(R"("x": {{"shape": [{}, 1024]}})", rows), ops);
}

std::string chain(std::span<const std::string_view> kinds, std::size_t count) {
  std::string ops;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string input = i == 0 ? "x" : fmt::format("y{}", i - 1);
    ops += fmt::format(R"({}{{"op": "{}", "inputs": ["{}"], "output": "y{}"}})", i == 0 ? "" : ", ",
                       kinds[i % kinds.size()], input, i);
  }
  return ops;
}

std::string negations(std::size_t count) {
  static constexpr std::array<std::string_view, 1> kKinds = {"neg"};
  return chain(kKinds, count);
}

// Several kinds, because what the op table says of one kind's instructions may be off.
std::string arithmetic(std::size_t count) {
  static constexpr std::array<std::string_view, 5> kKinds = {"tanh", "exp", "sigmoid", "gelu",
                                                             "silu"};
  return chain(kKinds, count);
}

std::string product(std::uint64_t size) {
  return op_list("f16",
                 fmt::format(R"("x": {{"shape": [{0}, {0}]}}, "w": {{"shape": [{0}, {0}]}})", size),
                 R"({"op": "linear", "inputs": ["x", "w"], "output": "y"})");
}

constexpr std::array kProbes = {
    Probe{&DeviceConstants::launch_us, Timed::kFused,
          [](const Device&) { return rows_list(1, negations(1)); }},
    Probe{&DeviceConstants::dram_read_gbps, Timed::kFused,
          [](const Device& device) {
            return rows_list(large_rows(device),
                             R"({"op": "sum", "inputs": ["x"], "output": "y", "axes": [-1]})");
          }},
    Probe{&DeviceConstants::dram_write_gbps, Timed::kFused,
          [](const Device& device) { return rows_list(large_rows(device), negations(1)); }},
    Probe{&DeviceConstants::l2_gbps, Timed::kBackToBack,
          [](const Device& device) { return rows_list(rows_in_l2(device, 0.15), negations(8)); }},
    Probe{&DeviceConstants::clock_ghz, Timed::kFused,
          [](const Device& device) { return rows_list(large_rows(device) / 2, arithmetic(25)); }},
    Probe{&DeviceConstants::tensor_clock_ghz, Timed::kFused,
          [](const Device&) { return product(4096); }},
    Probe{&DeviceConstants::tensor_slowdown, Timed::kFused,
          [](const Device&) { return product(8192); }},
};

struct Probing {
  Analysis analysis;

  const GraphAnalysis& graph() const { return *analysis.graph; }
  const PlanAnalysis& plan(Timed timed) const {
    return graph().plan(timed == Timed::kFused ? PlanKind::kAuto : PlanKind::kUnfused);
  }
};

Probing analyzed(const Probe& probe, const Device& device) {
  JsonReader reader(ByteSource::from_memory(probe.list(device), "calibration"));
  OpGraph graph = build_graph(std::get<WrittenGraph>(read_op_list(reader)), {});
  return {analyze_graph(std::move(graph), "calibration", device, PlanKind::kAuto)};
}

double predicted_us(const Probe& probe, const Device& device) {
  const Probing probing = analyzed(probe, device);
  const PlanAnalysis& plan = probing.plan(probe.timed);
  return probe.timed == Timed::kFused ? plan.kernels.front().predicted.time_us
                                      : plan.predicted.time_us;
}

double measured_us(GpuBackend& gpu, const Probe& probe, const Device& device) {
  const Probing probing = analyzed(probe, device);
  TrafficCounter counter(probing.graph().graph, device);
  MeasureOptions options;
  options.counters = false;
  options.isolated = probe.timed == Timed::kFused;
  options.pipeline = probe.timed == Timed::kBackToBack;
  const Measurement measurement =
      measure_graph(gpu, counter, named_plan(probing.graph().plan(PlanKind::kUnfused)),
                    named_plan(probing.graph().plan(PlanKind::kAuto)), options, std::nullopt,
                    [](const std::string&) {});
  const Observed& observed = probe.timed == Timed::kFused
                                 ? measurement.fused.kernels.front().observed
                                 : measurement.unfused.pipeline;
  if (!observed.time) throw Error(Fault::kUnavailable, "calibration: " + observed.reason);
  return observed.time->median * 1e6;
}

// More would be noise.
double four_digits(double value) { return std::stod(fmt::format("{:.4g}", value)); }

struct Solution {
  double value = 0;
  bool exact = true;  // otherwise the nearest, because no value explains the time
};

// The value at which the model predicts that time, between an eighth and eight times a usual
// one. Predictions rise or fall with the constant all the way.
Solution solve(const Probe& probe, Device device, double usual, double time_us) {
  constexpr double kWide = 8;
  constexpr int kSteps = 24;
  DeviceConstant& constant = device.constants.*probe.constant;
  const auto excess = [&](double value) {
    constant.value = value;
    return predicted_us(probe, device) - time_us;
  };
  double low = usual / kWide;
  double high = usual * kWide;
  const double at_low = excess(low);
  const double at_high = excess(high);
  if ((at_high > 0) == (at_low > 0)) {
    return {.value = std::abs(at_low) < std::abs(at_high) ? low : high, .exact = false};
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = std::sqrt(low * high);
    ((excess(middle) > 0) == (at_high > 0) ? high : low) = middle;
  }
  return {.value = std::sqrt(low * high)};
}

std::string_view name_of_constant(const Probe& probe) {
  return std::ranges::find(constant_table(), probe.constant, &ConstantRow::member)->name;
}

}  // namespace

std::vector<double> predicted_probes(const Device& device) {
  std::vector<double> times;
  for (const Probe& probe : kProbes) times.push_back(predicted_us(probe, device));
  return times;
}

Calibration fit_constants(Device device, std::span<const double> times) {
  const DeviceConstants usual = device.constants;
  Calibration result{.device = std::move(device), .notes = {}};
  DeviceConstants& constants = result.device.constants;
  for (const ConstantRow& row : constant_table()) {
    (constants.*row.member).origin = ConstantOrigin::kCalibrated;
  }
  // Each list depends on the other constants, too, so later rounds correct the first.
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kProbes.size(); ++i) {
      DeviceConstant& constant = constants.*kProbes[i].constant;
      const DeviceConstant& before = usual.*kProbes[i].constant;
      const Solution found = solve(kProbes[i], result.device, before.value, times[i]);
      constant.value = four_digits(found.value);
      if (found.exact || round + 1 < kRounds) continue;
      constant = {.value = before.value, .origin = ConstantOrigin::kDatasheet};
      result.notes.push_back(
          fmt::format("{}: no value explains {:.1f} us, so it stays {}, which widens the ranges",
                      name_of_constant(kProbes[i]), times[i], shortest_decimal(constant.value)));
    }
  }
  return result;
}

Calibration calibrate(GpuBackend& gpu, const Progress& progress) {
  Device device = with_constants(gpu.device());
  std::vector<double> times(kProbes.size());
  // An idle GPU lowers its clocks; the first round raises them.
  for (const char* round : {"warming up", "measuring"}) {
    for (std::size_t i = 0; i < kProbes.size(); ++i) {
      progress(fmt::format("{}, {}", round, name_of_constant(kProbes[i])));
      times[i] = measured_us(gpu, kProbes[i], device);
    }
  }
  progress("solving");
  device.source = fmt::format("fusecalc doctor --calibrate, driver {}", gpu.description().driver);
  return fit_constants(std::move(device), times);
}

}  // namespace fusecalc
