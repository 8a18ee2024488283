// Products whose rows must be reduced before anything is stored: a softmax or a norm of each row.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
bool ContractionWriter::fits_row_clusters() const {
  return operand_type() != DType::kF32 && fits_tensor_cores() && fits_copy_engine(product_) &&
         !row_tilings(in_halves(product_.shape(), operand_type()), device_.multiprocessors).empty();
}

// Whether lanes may hold neighbours (LinesOfB::kInOrder in contract_sm90.cuh).
bool ContractionWriter::rows_in_order() const {
  return !product_.b.across && product_.b.inner == 0 && product_.b.outer == 0 &&
         product_.n % 8 == 0;
}

void ContractionWriter::write_rows() {
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write_rows(product_, {.loads_ahead = rows_in_order() && !product_.a.across});
  reserve_packed();
  result_.source.architecture_bound = true;
  result_.source.text +=
      blocks({"hopper", "stages", "contract_rows_sm90"}) + epilogue_.text() + shape(1);
}

void ContractionWriter::tile_rows() {
  const GeneratedKernel untiled = std::move(result_);
  std::vector<GeneratedKernel> kernels;
  const bool in_order = rows_in_order();
  for (const RowTiling& tiling :
       row_tilings(in_halves(product_.shape(), operand_type()), device_.multiprocessors)) {
    GeneratedKernel& kernel = kernels.emplace_back(untiled);
    kernel.maps = {map_of(product_.a, product_.m, kTileRows),
                   in_order
                       ? map_in_order(product_.b, product_.n)
                       : map_of(product_.b, product_.n, static_cast<std::uint32_t>(tiling.tile_n))};
    const std::uint64_t exchange = 2 * tiling.cluster * kTileRows * 4 * epilogue_.row_parts();
    const KernelFacts facts{
        .threads = 384,
        .shared_bytes = tiling.stages() * (kTileRows + tiling.tile_n) * 128 + exchange + 256,
        .tile_rows = kTileRows,
        .tile_columns = tiling.tile_n,
        .tile_depth = box_elements(),
        .blocks_per_cluster = tiling.cluster};
    kernel.source.text += mapped_entry(
        fmt::format("ContractRowsSm90<{}, {}, {}, {}, {}", stored_type(operand_type()),
                    tiling.tile_n, tiling.cluster, product_.a.across, lines_of_b(in_order)),
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
