#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/results.hpp"
#include "core/bytes.hpp"
#include "measure/statistics.hpp"
#include "traffic/known_gaps.hpp"
#include "traffic/savings.hpp"

namespace fusecalc {

inline constexpr std::string_view kMeasurementSchema = "fusecalc.measurement/1";

// What was observed of some work. What was not observed is empty, and `reason` says why.
struct Observed {
  std::optional<Bytes> dram;
  std::optional<TimeSpread> time;
  std::string reason{};
};

struct KernelMeasurement {
  std::string name{};
  std::uint64_t operations = 1;  // fused into it
  Bytes analytic;
  Observed observed;  // alone, from a cold L2
  KernelResources resources;
  std::string schedule{};  // which variant ran; empty: it has no code, observed.reason says why
  std::string choice{};    // why this variant ran, if there were several
  KnownGaps gaps{};
  double occupancy = 0;
  std::uint64_t module = 0;  // kernels of the same source share one; 0: it was not compiled
  double compile_seconds = 0;
  bool cached = false;
};

// The errors of a plan's results.
struct Verified {
  double max_rel_err = 0;
  double tolerance = 0;
  bool ok = false;
  std::string worst{};                   // the element, as text
  std::vector<std::string> unchecked{};  // what was not checked, or not exactly, and why
};

struct PlanMeasurement {
  std::string key;  // as in --plan
  Bytes analytic;
  std::vector<KernelMeasurement> kernels{};
  Observed isolated{};               // the sum over its kernels
  Observed pipeline{};               // its kernels back to back
  std::vector<std::string> notes{};  // one for every gap between analytic and measured bytes
  std::optional<Verified> verified{};
  std::string verified_reason{};  // why `verified` is empty
};

// The result of `measure`: the model of every output format.
struct Measurement {
  std::string name{};
  std::uint64_t operations = 0;
  std::uint64_t dtype_bytes = 0;
  std::uint64_t seed = 0;
  bool synthetic = true;     // only sizes are known: the kernels compute nothing
  bool interrupted = false;  // by the user; contains what was measured until then
  PresentGpu gpu;
  std::optional<double> copy_bytes_per_s{};  // read + written by the device's own copy, in this run
  PlanMeasurement unfused{};
  PlanMeasurement fused{};

  Savings savings() const { return {unfused.analytic.total(), fused.analytic.total()}; }
  // Runs after which the fused plan has saved its compile time, which is that of the original
  // compilation for cached kernels; empty if it is not faster.
  std::optional<double> payback_runs() const;
  // By time, unfused over fused: back to back, or each kernel alone where that was not measured.
  std::optional<double> measured_speedup() const;
};

// Measured against analytic bytes, in percent of the analytic ones; empty if those are 0.
std::optional<double> error_percent(std::uint64_t measured, std::uint64_t analytic);

// The useful bytes of a kernel or plan over its median time.
double bytes_per_second(const Bytes& analytic, const TimeSpread& time);

}  // namespace fusecalc
