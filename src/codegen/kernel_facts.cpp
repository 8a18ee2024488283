#include "codegen/kernel_facts.hpp"

#include <fmt/format.h>

namespace fusecalc {

std::string static_asserts(std::initializer_list<Fact> facts) {
  std::string text;
  for (const Fact& fact : facts) {
    text +=
        fact.upper_bound
            ? fmt::format("static_assert({0} <= {1}, \"{0} is above {1}, the host's bound\");\n",
                          fact.name, fact.value)
            : fmt::format(
                  "static_assert({0} == {1}, \"{0} is not {1}, which the host takes it for\");\n",
                  fact.name, fact.value);
  }
  return text;
}

std::string KernelFacts::asserted_of(std::string_view name) const {
  std::string text;
  const auto add = [&](std::string_view member, std::uint64_t value) {
    text += static_asserts({{fmt::format("{}::{}", name, member), value}});
  };
  add("kThreads", threads);
  add("kSharedBytes", shared_bytes);
  if (tile_rows != 0) add("kTileRows", tile_rows);
  if (tile_columns != 0) add("kTileColumns", tile_columns);
  if (tile_depth != 0) add("kTileDepth", tile_depth);
  if (tile_keys != 0) add("kTileKeys", tile_keys);
  if (blocks_per_cluster != 0) add("kBlocksPerCluster", blocks_per_cluster);
  if (row_workspace_bytes != 0) add("kRowWorkspaceBytes", row_workspace_bytes);
  if (tile_workspace_bytes != 0) add("kTileWorkspaceBytes", tile_workspace_bytes);
  return text;
}

void KernelFacts::launch(GeneratedKernel& kernel) const {
  kernel.threads = static_cast<unsigned>(threads);
  kernel.shared_bytes = static_cast<std::uint32_t>(shared_bytes);
}

}  // namespace fusecalc
