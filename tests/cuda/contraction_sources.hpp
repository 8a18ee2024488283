#pragma once

#include <string>
#include <vector>

#include "core/embedded.hpp"

namespace fusecalc::cuda {

// Building blocks one after another, then the text that uses them.
inline std::string source_of(const std::vector<std::string>& blocks, const std::string& text) {
  std::string source;
  for (const std::string& block : blocks) source += std::string(embedded_kernel(block)) + "\n";
  return source + text;
}

inline const std::vector<std::string> kContractSm90 = {
    "elements", "quick",  "accumulators", "columns", "epilogue",     "tile_walk",
    "prologue", "hopper", "stages",       "rounds",  "contract_sm90"};
inline const std::vector<std::string> kContractSm80 = {
    "elements",  "quick",    "accumulators", "columns",      "epilogue",
    "tile_walk", "prologue", "mma",          "operand_sm80", "contract_sm80"};

// C as it is, in bf16, with rows of kLine elements.
inline const std::string kStore = R"(
struct Store {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  bf16* out;
  i64 rows, line;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    store_columns<1>(out + (batch * rows + row) * line + column, valid, v);
  }
};
)";

}  // namespace fusecalc::cuda
