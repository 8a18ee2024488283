#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "planner/region.hpp"
#include "planner/search.hpp"

namespace fusecalc {

// What a search knows of the kernels that it checked last: stretches of kernels overlap, and parts
// of those that were too much work are searched again.
class CheckedKernels {
 public:
  CheckedKernels(TrafficCounter& counter, const Rules& rules) : counter_(counter), rules_(rules) {}

  struct Checked {
    std::optional<std::uint64_t> bytes{};  // of a legal one
    bool remains = false;                  // a larger one that holds it is not legal either
  };

  TrafficCounter& counter() const { return counter_; }
  // Valid until the next call. `kernel` has its ops in canonical order.
  const Checked& of(const Kernel& kernel);

 private:
  struct Hash {
    std::size_t operator()(const Kernel& kernel) const;
  };

  TrafficCounter& counter_;
  const Rules& rules_;
  std::unordered_map<Kernel, Checked, Hash> known_;
};

// A kernel that a region may be partitioned into.
struct LegalKernel {
  OpSet ops = 0;
  OpSet needs = 0;  // what must run before it
  std::uint64_t bytes = 0;
};

// All legal kernels of a region, those of one op among them; nothing where finding them takes more
// work than there is.
std::optional<std::vector<LegalKernel>> legal_kernels(CheckedKernels& checked, const Region& region,
                                                      std::size_t& work);

}  // namespace fusecalc
