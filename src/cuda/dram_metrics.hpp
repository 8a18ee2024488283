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

// The DRAM byte counters of one chip: which metrics they are, the configuration that collects them,
// and how to read them back. Needs no GPU.
class DramMetrics {
 public:
  // Chips name these counters differently; CUPTI is asked which it knows. An empty availability
  // image means all counters that the chip has. Throws Error where none are known, or where they
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

  // What a range of decoded counter data counted.
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
