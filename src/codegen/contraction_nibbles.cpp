// Products of few rows with weights of four bits: kernels/contract_nibbles.cuh.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

std::optional<GroupedWeights> ContractionWriter::packed_weights() const {
  const bool fits = strided_ && computes_weights() && product_.batches() == 1 &&
                    !product_.a.across && alignment_of(product_.a) == 8;
  return fits ? grouped_weights(graph_, kernel_.ops(), id_) : std::nullopt;
}

// The Weights struct. It is given an integer in place of those in memory.
std::string ContractionWriter::packed_struct(const GroupedWeights& weights) {
  const std::string packed = code_.parameters().input(weights.packed);
  const Loop loop{.element = {.name = "i", .pattern = LanePattern::kUnit}};
  CodeBlock block = block_of(1);
  block.values[{weights.packed, loop.element.name}] = {.text = "q", .type = ComputeType::kF32};
  const Value value = element({code_, loop, block}, op_.operands[1].tensor, loop.element);
  block.before += "float weight;\n";
  block.lanes += fmt::format("weight = {};\n", converted(value, ComputeType::kF32).text);
  const std::string_view type = stored_type(graph_.tensors[weights.packed].type.dtype);
  return fmt::format(
      "struct Weights {{\n  typedef {0} Packed;\n  static constexpr int kGroup = {1};\n{2}"
      "  __device__ __forceinline__ const {0}* packed() const {{ return {3}; }}\n"
      "  __device__ __forceinline__ float operator()(int line, int k, float q) const {{\n"
      "    const idx i = (idx)line * {4} + k;\n{5}    return weight;\n  }}\n}};\n",
      type, weights.group, code_.parameters().members(), packed, product_.k, block.text("    "));
}

// False where no tiling of it fits on chip.
bool ContractionWriter::write_nibbles(const GroupedWeights& weights) {
  const std::vector<PackedTiling> tilings =
      packed_tilings(product_.m, product_.n, std::max(1U, device_.multiprocessors),
                     device_.on_chip_bytes, weights.group);
  if (tilings.empty()) return false;
  const PackedTiling tiling = tiling_of(tilings);
  const std::uint64_t tile_n = tiling.lines();
  epilogue_.write(product_, tile_n);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const std::string packed = packed_struct(weights);
  const KernelFacts facts{.threads = tiling.threads(),
                          .shared_bytes = tiling.shared_bytes(product_.m, weights.group),
                          .tile_rows = 16,
                          .tile_columns = tile_n,
                          .tile_depth = tiling.depth()};
  result_.source.text +=
      blocks({"mma", "contract_skinny", "contract_nibbles"}) + packed + epilogue_.text() +
      shape(8) +
      strided_entry(fmt::format("ContractNibbles<{}, {}, {}, {}, {}, {}, Weights",
                                name_of(operand_type()), tiling.line_warps, tiling.depth_warps,
                                tiling.line_tiles, product_.m, tiling.stages),
                    facts, ", Contract::kBlocksPerSm", a,
                    fmt::format("Weights{{{}}}", code_.parameters().arguments()));
  facts.launch(result_);
  result_.blocks = ceil_div(product_.n, tile_n);
  result_.schedule = fmt::format("mma, tiles of 16 x {}, packed weights", tile_n);
  return true;
}

}  // namespace fusecalc
