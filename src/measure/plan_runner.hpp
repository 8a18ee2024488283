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
  std::optional<std::size_t> runs;  // exactly so many timed runs of everything
  double time_budget_s = 0.5;       // for all timing together
  std::uint64_t seed = 0;
};

// Says what is being done, for people who wait.
using Progress = std::function<void(const std::string&)>;

// A launch of ours, or a call of the vendor's library.
using PreparedStep = std::variant<Launch, PreparedMatmul>;

void enqueue(GpuBackend& gpu, const std::vector<PreparedStep>& steps);

// One of several programs that compute the same kernel.
struct Variant {
  std::vector<PreparedStep> steps{};
  std::size_t main = 0;    // the step that does the work; what is before it makes ready
  std::string schedule{};  // how it works
  std::string name{};      // what it is, beside the others: "cuBLASLt"
  KnownGaps gaps{};
};

// A kernel of a plan, ready to run: its buffers exist and hold data.
struct PreparedKernel {
  std::string name;
  std::uint64_t operations = 1;
  Bytes analytic;
  std::vector<PreparedStep> steps{};  // what it takes, in order; none where it has no code
  std::size_t main = 0;               // the step that does the work
  std::string reason{};               // why there is none
  std::string schedule{};
  std::string choice{};  // why this variant runs, where there are others
  KnownGaps gaps{};
  // Where there are several, and which is fastest is yet to be found: settle() of
  // measure/variant.hpp fills in steps, schedule, choice and gaps.
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
// comes first, since it is what a machine may not permit; timing follows with the profiler gone.
std::vector<PlanMeasurement> run_plans(GpuBackend& gpu, std::span<const PreparedPlan> plans,
                                       const MeasureOptions& options, const Progress& progress);

// What the device's own copy moves in a second, reads and writes together; nothing where no buffers
// of a telling size can be had.
std::optional<double> copy_ceiling(GpuBackend& gpu);

}  // namespace fusecalc
