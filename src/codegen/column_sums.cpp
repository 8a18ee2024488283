// Kernels around the loop of kernels/column_sums.cuh, which describes their traffic.

#include "codegen/column_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/ceil_div.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

// Columns that a warp adds up together; whole lines of the L2.
constexpr std::uint64_t kSliceColumns = 128;
constexpr std::uint64_t kGateBytes = 256;

}  // namespace

std::uint64_t ColumnKernel::pitch() const {
  return ceil_div(tiling.length, kSliceColumns) * kSliceColumns;
}

std::string ColumnKernel::constants(const std::string& more) const {
  const std::uint64_t slices = std::max<std::uint64_t>(1, sums * pitch() / kSliceColumns);
  const std::uint64_t each = std::bit_ceil(ceil_div(slices, blocks));
  return fmt::format(
      "struct Tiling {{\n  typedef {} Number;\n  static constexpr u64 kRows = {}ull;\n"
      "  static constexpr u32 kLength = {}, kGroups = {}, kEnds = {}, kPitch = {};\n"
      "  static constexpr u32 kTeam = {}, kTeams = {}, kThreads = {};\n"
      "  static constexpr u32 kStages = {}, kSums = {}, kSlices = {};\n"
      "  static constexpr int kWidth = {}, kRounds = {}, kRowSums = {};\n"
      "{}}};\n",
      name_of(number), tiling.rows, tiling.length, tiling.groups, tiling.ends, pitch(), tiling.team,
      tiling.teams, tiling.threads(), tiling.stages, sums,
      std::min<std::uint64_t>(each, tiling.threads() / kWarp), tiling.width, tiling.rounds,
      row_sums, more);
}

GeneratedKernel ColumnKernel::write(const KernelCode& code, const std::string& structs,
                                    const std::string& body) const {
  GeneratedKernel result;
  std::string& text = result.source.text;
  text = preamble(code.view().graph(), tiling.rows * tiling.length);
  text += embedded_kernel("column_sums");
  text += structs;
  text += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({}, 1) fused({}{}) {{\n"
      "  extern __shared__ __align__(16) u8 shared[];\n  const In in{{{}}};\n"
      "  {}\n  rows_and_columns<Tiling>(body, {}, shared);\n}}\n",
      tiling.threads(), code.parameters().declarations(), sums > 0 ? ", u32* gates" : "",
      code.parameters().arguments(), body,
      sums > 0 ? fmt::format("gates, reinterpret_cast<Tiling::Number*>(gates + {})",
                             kGateBytes / sizeof(std::uint32_t))
               : "nullptr, nullptr");
  result.source.entries = {"fused"};
  result.storages = code.parameters().storages();
  result.threads = tiling.threads();
  result.blocks = blocks;
  result.shared_bytes = static_cast<std::uint32_t>(tiling.shared_bytes);
  result.schedule =
      fmt::format("rows by {} threads, {} at a time in each block", tiling.team, tiling.teams);
  if (sums > 0) {
    result.cooperative = true;
    result.workspace_bytes = kGateBytes + blocks * sums * pitch() * number_bytes();
    result.gaps.more_reads = result.gaps.more_writes =
        "blocks leave their sums of columns in memory for each other";
  }
  return result;
}

}  // namespace fusecalc
