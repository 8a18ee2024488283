#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "backend/backend.hpp"

namespace fusecalc::cuda {

// A launch's arguments in the form that the driver expects: a pointer to each.
class LaunchArguments {
 public:
  explicit LaunchArguments(const std::vector<Argument>& arguments);
  LaunchArguments(const LaunchArguments&) = delete;
  LaunchArguments& operator=(const LaunchArguments&) = delete;

  void** pointers() { return pointers_.data(); }

 private:
  std::vector<std::uint64_t> values_;
  std::deque<CUtensorMap> maps_;  // a deque keeps their addresses valid
  std::vector<void*> pointers_;
};

}  // namespace fusecalc::cuda
