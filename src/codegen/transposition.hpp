#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/code_block.hpp"
#include "codegen/kernel_view.hpp"

namespace fusecalc {

// A transposed read: rows of the loop run along axis `along` of the map, its last one, and rows of
// the tensors along axis `across`.
struct Transposition {
  IndexTransform map;
  std::size_t across = 0;
  std::size_t along = 0;
  std::vector<TensorId> tensors{};  // that are read so

  std::uint64_t rows() const { return map.axes[across].extent; }
  std::uint64_t columns() const { return map.axes[along].extent; }
  // Elements of the tensors from one column to the next.
  std::uint64_t pitch() const { return map.axes[along].stride; }
};

// How the elements of a tile lie in memory.
enum class TileRuns : std::uint8_t {
  kAligned,  // each of its rows and columns begins at a whole group
  kAnywhere,
  kLines,      // like those, of 4 bytes each: lines of the tensors as they lie
  kTensorRun,  // it has all of few rows, and is one run of the tensors
  kLoopRun,    // it has all of few columns, and is one run of the loop
};

// The tiles of a transposition, moved in groups of `width` elements.
struct TransposedTiling {
  TileRuns runs = TileRuns::kAligned;
  std::uint64_t width = 1;
  std::uint64_t rows = 0;  // that a tile stores
  std::uint64_t columns = 0;
  // What a run of the loop begins with is a multiple of so many elements, whole sectors: so it may
  // begin some columns (or rows) ahead of the tile, which holds them, too.
  std::uint64_t sector = 1;
  std::uint64_t ahead = 0;
  std::uint64_t words = 0;  // of lines and runs: elements on chip, of each tensor
  std::uint64_t pitch = 0;  // of lines: elements on chip from one to the next; `rows`: one run
  // Groups of a row that a warp stores at once, and in how many rows.
  unsigned along = 4;
  unsigned across() const { return 32 / along; }
};

// The first transposition that a large scattered read of the block follows, where tiles help.
std::optional<Transposition> find_transposition(const KernelView& kernel, const CodeBlock& block,
                                                std::uint64_t space);
TransposedTiling tiling_of(const KernelView& kernel, const Transposition& found, unsigned width);

// Columns of which a word holds an element each (kShared in kernels/transposed.cuh), in groups of
// `width`.
std::uint64_t shared_columns(DType dtype, std::uint64_t width);
std::uint64_t word_bytes(DType dtype);

}  // namespace fusecalc
