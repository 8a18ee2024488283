#pragma once

#include <atomic>
#include <cstdint>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/injection.hpp"

namespace fusecalc::cuda {

// Which launches are counted, by the settings. One thread at a time, but for set_running().
class Selection {
 public:
  explicit Selection(const InjectionSettings& settings);

  // Called once for every launch, in their order.
  bool takes(const std::string& name, const std::vector<std::string>& ranges);

  // The program's calls of cudaProfilerStart and cudaProfilerStop.
  void set_running(bool running) { running_ = running; }

 private:
  bool name_matches(const std::string& name);

  const InjectionSettings& settings_;
  std::regex kernel_;
  std::unordered_map<std::string, bool> matches_;
  std::atomic<bool> running_;
  std::uint64_t seen_ = 0;
};

}  // namespace fusecalc::cuda
