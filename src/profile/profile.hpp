#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/results.hpp"
#include "core/bytes.hpp"
#include "profile/alignment.hpp"
#include "profile/launch.hpp"

namespace fusecalc {

inline constexpr std::string_view kProfileSchema = "fusecalc.profile/1";

// The launches of one name, added up.
struct ProfiledKernel {
  std::string name;
  LaunchKind kind = LaunchKind::kKernel;
  std::uint64_t launches = 0;
  std::uint64_t counted = 0;
  Bytes dram{};  // of those that were counted
  std::uint64_t timed = 0;
  double seconds = 0;             // of those that were timed
  std::uint64_t timed_bytes = 0;  // of those that were counted and timed

  std::optional<double> bytes_per_second() const;
};

// What limits a kernel, from its rate and time alone.
std::string_view bound_of(const ProfiledKernel& kernel, double peak_bytes_per_s);

struct Uncounted {
  std::string what;
  std::uint64_t launches = 0;
  std::string why;
};

struct ProfiledProcess {
  std::uint64_t pid = 0;
  std::string command{};
  bool ended = false;  // by itself, so that nothing is missing at the end
  std::vector<ProfiledLaunch> launches{};
  std::vector<ProfiledKernel> kernels{};        // the most bytes first
  std::vector<ProfiledKernel> graph_kernels{};  // nodes of its graphs: the most time first
  Bytes totals{};                               // with what was drained
  std::optional<std::uint64_t> drained{};       // writes that were still in the L2 at the end
  double seconds = 0;                           // of all launches that were timed
  std::vector<Uncounted> uncounted{};
  std::vector<std::string> faults{};  // why counting stopped
  double cost_s = 0;                  // waiting for launches and reading their counters
  double opening_s = 0;               // of it, before the first launch was counted
  double wall_s = 0;
  double peak_bytes_per_s = 0;  // of its first device's memory; 0: unknown
};

// The result of `profile`: the one model behind every output format.
struct Profile {
  std::string name{};
  std::vector<std::string> program{};
  std::string outcome{};  // how the program ended: "exit code 0"
  bool isolated = false;
  std::optional<PresentGpu> gpu{};
  std::vector<ProfiledProcess> processes{};
  std::optional<Alignment> alignment{};
  std::size_t aligned_process = 0;

  Bytes totals() const;
  std::uint64_t launches() const;
  std::uint64_t counted() const;
};

}  // namespace fusecalc
