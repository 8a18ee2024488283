#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/bytes.hpp"
#include "traffic/savings.hpp"

namespace fusecalc {

inline constexpr std::string_view kAnalysisSchema = "fusecalc.analysis/1";

// What `analyze` found out: the one model behind every output format.
struct Analysis {
  std::string name;
  std::string plan;  // whose bytes are set against the unfused ones
  std::uint64_t operations = 0;
  std::uint64_t dtype_bytes = 0;
  Bytes unfused;
  Bytes fused;

  Savings savings() const { return {unfused.total(), fused.total()}; }
};

}  // namespace fusecalc
