#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.hpp"
#include "cuda/cupti.hpp"

namespace fusecalc::cuda {

// The DRAM byte counters of one chip: their metrics, the configuration that collects them, and the
// decoding of their data. Needs no GPU.
class DramMetrics {
 public:
  // The names of these counters depend on the chip; CUPTI is queried for them. An empty
  // availability image means all counters of the chip. Throws Error if none are known, or if they
  // need more than one pass.
  DramMetrics(const std::string& chip, std::span<const std::uint8_t> availability);
  DramMetrics(const DramMetrics&) = delete;
  DramMetrics& operator=(const DramMetrics&) = delete;
  ~DramMetrics();

  static constexpr std::size_t kMetrics = 2;
  using Names = std::array<const char*, kMetrics>;  // bytes read, bytes written

  Names names() const { return names_; }
  std::size_t passes() const { return passes_; }
  const std::vector<std::uint8_t>& config() const { return config_; }

  // The bytes counted in a range of decoded counter data.
  Bytes evaluate(const std::vector<std::uint8_t>& counter_data, std::size_t range) const;

 private:
  bool configure(const Names& names);

  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::string chip_;
  std::vector<std::uint8_t> availability_;
  Names names_{};
  std::size_t passes_ = 0;
  std::vector<std::uint8_t> config_;
};

}  // namespace fusecalc::cuda
