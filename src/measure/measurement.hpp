#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "core/bytes.hpp"
#include "measure/statistics.hpp"
#include "traffic/savings.hpp"

namespace fusecalc {

inline constexpr std::string_view kMeasurementSchema = "fusecalc.measurement/1";

// What the device said about one piece of work. What was not read is empty, and `reason` says why.
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
  std::string
      schedule{};        // how its work is spread; empty: it has no code, observed.reason tells why
  std::string choice{};  // why it runs this way, where there was another
  KnownGaps gaps{};
  double occupancy = 0;
  std::uint64_t module = 0;  // kernels of the same source share one; 0: it was not compiled
  double compile_seconds = 0;
  bool cached = false;
};

// How far a plan's results are from what they should be.
struct Verified {
  double max_rel_err = 0;
  double tolerance = 0;
  bool ok = false;
  std::string worst{};                   // the place, for people
  std::vector<std::string> unchecked{};  // what was not, or not exactly, and why
};

struct PlanMeasurement {
  std::string key;  // as in --plan
  Bytes analytic;
  std::vector<KernelMeasurement> kernels{};
  Observed isolated{};               // its kernels' figures, added up
  Observed pipeline{};               // its kernels back to back
  std::vector<std::string> notes{};  // a sentence for every gap between analytic and measured bytes
  std::optional<Verified> verified{};
  std::string verified_reason{};  // why it is not
};

// What `measure` found out: the one model behind every output format.
struct Measurement {
  std::string name{};
  std::uint64_t operations = 0;
  std::uint64_t dtype_bytes = 0;
  std::uint64_t seed = 0;
  bool synthetic = true;     // sizes alone are known: the kernels compute nothing
  bool interrupted = false;  // by the user; what was measured until then stands
  DeviceInfo device;
  std::optional<double> copy_bytes_per_s{};  // read + written by the device's own copy, in this run
  PlanMeasurement unfused{};
  PlanMeasurement fused{};

  Savings savings() const { return {unfused.analytic.total(), fused.analytic.total()}; }
  // Runs after which the fused plan's gain has paid for its compilation, at the time that took, be
  // it long ago; nothing where there is no gain.
  std::optional<double> payback_runs() const;
  // By time, unfused over fused: back to back, or each kernel alone where that was not measured.
  std::optional<double> measured_speedup() const;
};

// Measured against analytic bytes, in percent of the analytic ones; nothing where those are 0.
std::optional<double> error_percent(std::uint64_t measured, std::uint64_t analytic);

// The useful bytes of a kernel or plan over its median time.
double bytes_per_second(const Bytes& analytic, const TimeSpread& time);

}  // namespace fusecalc
