#pragma once

#include <cstdint>

#include "core/bytes.hpp"
#include "device/device.hpp"
#include "plan/phases.hpp"
#include "traffic/kernel_traffic.hpp"

namespace fusecalc {

// Counts the bytes of kernels of one graph: the elements touched of each external value, once per
// pass if its rows do not fit on chip, else once; and each result that is needed outside, once.
// Memory that several tensors share counts once.
class TrafficCounter {
 public:
  TrafficCounter(const OpGraph& graph, const Device& device);

  const OpGraph& graph() const { return phases_.graph(); }
  const Device& device() const { return device_; }
  PhaseFinder& phases() { return phases_; }

  // Valid until the next call.
  const KernelTraffic& count(const Kernel& kernel);
  // The bytes alone, for comparing plans.
  Bytes bytes(const Kernel& kernel);

  // Whether the rows that the kernel reads in more than one pass stay on chip.
  bool rows_fit(const Phases& phases) const;

 private:
  void add(std::uint64_t& total, std::uint64_t bytes, const Kernel& kernel) const;
  void count_reads(const Kernel& kernel);
  void count_writes(const Kernel& kernel);

  const Device& device_;
  PhaseFinder phases_;
  KernelTraffic traffic_;
};

// Graph inputs once and graph outputs once: the lower bound for any plan.
KernelTraffic count_limit(const OpGraph& graph, const Device& device);

}  // namespace fusecalc
