#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/generate.hpp"

namespace fusecalc::cuda {

// The targets of every kernel: the newest architecture of each generation.
struct Architecture {
  const char* name;
  std::string_view device;
};
inline constexpr std::array kArchitectures = {
    Architecture{"sm_80", "a100"}, Architecture{"sm_90", "h200"}, Architecture{"sm_100", "b200"}};
// Those with less shared memory, and one without the tensor cores that our kernels need.
inline constexpr std::array kOtherArchitectures = {Architecture{"sm_75", "t4"},
                                                   Architecture{"sm_120", "rtx5090"}};

// Compiles kernels for one architecture, without a GPU, and holds what ptxas reports to the budget:
// registers and shared memory that the launch can have, and no spills but those that are known.
class KernelChecks {
 public:
  explicit KernelChecks(const Architecture& architecture) : architecture_(&architecture) {}

  // From now on for another one.
  void turn_to(const Architecture& architecture) { architecture_ = &architecture; }

  // A counter with the architecture's room on chip.
  TrafficCounter counter_of(const OpGraph& graph) const;
  // Every kernel of a plan. A text that was seen before is compiled again for Hopper and before
  // sm_80, and not for the others, which differ in little but tilings. What cannot be generated
  // counts as left out; what does not compile fails the test case.
  void check(TrafficCounter& counter, const std::vector<Kernel>& plan);
  void check(TrafficCounter& counter, const Kernel& kernel);

  std::size_t compiled() const { return done_[0].size() + done_[1].size() + done_[2].size(); }
  std::size_t left_out() const { return left_out_; }

 private:
  // One of the ways to run a kernel.
  void check(const OpGraph& graph, const Kernel& kernel, const GeneratedKernel& code);
  void check_entry(const OpGraph& graph, const Kernel& kernel, const GeneratedKernel& code,
                   std::size_t entry, const std::string& log) const;

  bool is_new(const std::string& text);

  const Architecture* architecture_;
  std::array<std::set<std::string>, 3> done_;  // before sm_80, for Hopper, for the others
  std::size_t left_out_ = 0;
};

}  // namespace fusecalc::cuda
