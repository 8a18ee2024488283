// Products whose rows must be reduced before anything is stored: a softmax or a norm of each row.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "codegen/split_k.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kMostBlocks = 4;

struct Tiling {
  std::uint64_t tile_n = 0;
  std::uint64_t cluster = 0;

  std::uint64_t columns() const { return tile_n * cluster; }
};

// Those that hold a row, the one that wastes least of what it holds first. A tile of 256 columns
// leaves its threads few registers beside the sums: it is for rows that no other holds.
std::vector<Tiling> tilings_of(std::uint64_t columns) {
  std::vector<Tiling> tilings;
  for (const std::uint64_t tile_n : {192U, 128U}) {
    const Tiling tiling{tile_n, ceil_div(columns, tile_n)};
    // A wider tile of no fewer blocks holds nothing more.
    if (!tilings.empty() && tilings.back().cluster == tiling.cluster) tilings.pop_back();
    if (tiling.cluster <= kMostBlocks) tilings.push_back(tiling);
  }
  std::ranges::stable_sort(tilings, {}, &Tiling::columns);
  constexpr std::uint64_t kWidest = 256;
  if (tilings.empty() && columns <= kWidest * kMostBlocks) {
    tilings.push_back({kWidest, ceil_div(columns, kWidest)});
  }
  return tilings;
}

}  // namespace

bool ContractionWriter::fits_row_clusters() const {
  return fits_tensor_cores() && fits_copy_engine(product_) && !tilings_of(product_.n).empty();
}

void ContractionWriter::write_rows() {
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write_rows(product_);
  reserve_packed();
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"hopper", "stages", "contract_rows_sm90"}) + epilogue_.text() + shape(1);
}

void ContractionWriter::tile_rows() {
  const GeneratedKernel untiled = std::move(result_);
  std::vector<GeneratedKernel> kernels;
  for (const Tiling& tiling : tilings_of(product_.n)) {
    GeneratedKernel& kernel = kernels.emplace_back(untiled);
    kernel.maps = {map_of(product_.a, product_.m, kTileRows),
                   map_of(product_.b, product_.n, static_cast<std::uint32_t>(tiling.tile_n))};
    constexpr std::uint64_t kStages = 4;
    const std::uint64_t exchange = 2 * tiling.cluster * kTileRows * 4 * epilogue_.row_parts();
    const KernelFacts facts{
        .threads = 384,
        .shared_bytes = kStages * (kTileRows + tiling.tile_n) * 128 + exchange + 256,
        .tile_rows = kTileRows,
        .tile_columns = tiling.tile_n,
        .tile_depth = kBoxElements,
        .blocks_per_cluster = tiling.cluster};
    kernel.source.text += mapped_entry(
        fmt::format("ContractRowsSm90<{}, {}, {}, {}, {}", name_of(operand_type()), tiling.tile_n,
                    tiling.cluster, product_.a.across, product_.b.across),
        facts, ", 1");
    facts.launch(kernel);
    kernel.persistent_cluster = static_cast<unsigned>(tiling.cluster);
    kernel.blocks = tiling.cluster * (ceil_div(product_.m, kTileRows)) * product_.batches();
    kernel.schedule = fmt::format("wgmma, rows of {} x {} in clusters of {}", kTileRows,
                                  tiling.tile_n, tiling.cluster);
  }
  result_ = std::move(kernels.front());
  result_.others.assign(kernels.begin() + 1, kernels.end());
}

}  // namespace fusecalc
