#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "codegen/generated.hpp"

namespace fusecalc {

// A constant of device code, and the value that host code assumes for it.
struct Fact {
  std::string_view name;  // an expression of constants
  std::uint64_t value = 0;
  bool upper_bound = false;  // device code may have less
};

// Code that fails to compile, naming the constant, if a value differs or a bound does not hold.
std::string static_asserts(std::initializer_list<Fact> facts);

// What host code assumes of a struct of kernels/*.cuh in order to launch it. Each member is the
// constant of that name there; 0 if the struct has no such constant.
struct KernelFacts {
  std::uint64_t threads = 0;             // kThreads, of a block
  std::uint64_t shared_bytes = 0;        // kSharedBytes, dynamic ones
  std::uint64_t tile_rows = 0;           // kTileRows, of the result
  std::uint64_t tile_columns = 0;        // kTileColumns
  std::uint64_t tile_depth = 0;          // kTileDepth, of k, that a copy brings
  std::uint64_t tile_keys = 0;           // kTileKeys, of attention
  std::uint64_t blocks_per_cluster = 0;  // kBlocksPerCluster
  // kRowWorkspaceBytes, for each row of the result if several blocks share it
  std::uint64_t row_workspace_bytes = 0;
  std::uint64_t tile_workspace_bytes = 0;  // kTileWorkspaceBytes, where several share a tile's k

  // Of a struct that the source calls `name`. Launches rely on these numbers: NVRTC holds them
  // against the struct itself, without a GPU.
  std::string asserted_of(std::string_view name) const;
  // Has a kernel launched so.
  void launch(GeneratedKernel& kernel) const;
};

}  // namespace fusecalc
