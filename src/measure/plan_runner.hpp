#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.hpp"
#include "measure/measurement.hpp"

namespace fusecalc {

struct MeasureOptions {
  bool counters = true;
  bool isolated = true;             // each kernel alone, from a cold L2
  bool pipeline = true;             // a plan's kernels back to back
  std::optional<std::size_t> runs;  // the exact number of timed runs
  double time_budget_s = 0.5;       // for all timing together
  std::uint64_t seed = 0;
  bool all_ways = true;  // time all ways to run a kernel for the fastest, not the first one alone
};

// Reports the current activity to the user.
using Progress = std::function<void(const std::string&)>;

// A launch of a generated kernel, or a call of the vendor's library.
using PreparedStep = std::variant<Launch, PreparedMatmul>;

void enqueue(GpuBackend& gpu, const std::vector<PreparedStep>& steps);

// One of several implementations of a kernel.
struct Variant {
  std::vector<PreparedStep> steps{};
  std::size_t main = 0;    // the step that does the work; those before it prepare operands
  std::string schedule{};  // description
  std::string name{};      // what distinguishes it from the others: "cuBLASLt"
  KnownGaps gaps{};
  const std::string* source = nullptr;  // the text that was generated; none of the library
};

// A kernel of a plan, ready to run: its buffers exist and hold data.
struct PreparedKernel {
  std::string name;
  std::uint64_t operations = 1;
  Bytes analytic;
  std::vector<PreparedStep> steps{};  // in order; empty if it has no code
  std::size_t main = 0;               // the step that does the work
  std::string reason{};               // why there is no code
  std::string schedule{};
  std::string choice{};  // why this variant runs, if there are several
  KnownGaps gaps{};
  const std::string* source = nullptr;
  // If there are several, choose_variant() (measure/variant.hpp) fills in steps, schedule, choice,
  // gaps and source from the fastest.
  std::vector<Variant> variants{};
};

struct PreparedPlan {
  std::string key;
  Bytes analytic;
  std::vector<PreparedKernel> kernels{};
  // Bytes of the largest tensor that one of its kernels writes and another reads; 0 without any.
  std::uint64_t largest_intermediate = 0;
};

// Counts, then times, every kernel that can be launched and every plan of which all can. Counting
// comes first, because it may not be permitted; timing follows with the profiler closed.
std::vector<PlanMeasurement> run_plans(GpuBackend& gpu, std::span<const PreparedPlan> plans,
                                       const MeasureOptions& options, const Progress& progress);

// Bytes per second of a device-to-device copy, reads and writes together; empty if there is no room
// for buffers of at least twice the L2.
std::optional<double> copy_ceiling(GpuBackend& gpu);

}  // namespace fusecalc
