#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/library_matmul.hpp"
#include "graph/op_graph.hpp"
#include "traffic/known_gaps.hpp"

namespace fusecalc {

// CUDA C++ text that becomes one module. Its entries are extern "C" and come back in order.
struct KernelSource {
  std::string text;
  std::vector<std::string> entries;
  std::vector<std::string> options{};  // for NVRTC, beyond the architecture
  // Uses what only the device's own architecture has (wgmma), not its successors: sm_90a.
  bool architecture_bound = false;
};

// How the windows of a convolution cover an input whose dimensions are {channel, w, h, image}; each
// pair is along w, then along h. A box has neighbouring pixels of the result, at one tap.
struct MappedWindows {
  std::array<std::int32_t, 2> first{};     // where the first window begins
  std::array<std::int32_t, 2> last{};      // where the last may begin, from the input's last on
  std::array<std::uint32_t, 2> strides{};  // from a window to the next
};

// A tensor that a kernel takes as a map for the copy engine (backend/backend.hpp's TensorMap).
struct MappedTensor {
  TensorId storage = kNone;  // none: the workspace, from GeneratedKernel::packed_at on
  DType dtype = DType::kBf16;
  std::uint64_t offset = 0;  // bytes from the memory's beginning
  std::array<std::uint64_t, 4> extents{};
  std::array<std::uint64_t, 3> strides{};  // bytes
  std::array<std::uint32_t, 4> box{};
  std::optional<MappedWindows> windows{};  // the box is {channels, pixels, 1, 1} then
};

// A product that the vendor's library computes, with the memory of these tensors.
struct LibraryProduct {
  LibraryMatmul matmul;
  TensorId a = kNone;  // none: GeneratedKernel::packed_at
  TensorId b = kNone;
  TensorId result = kNone;
  TensorId bias = kNone;
  // Where they begin in that memory, in elements: a view may begin anywhere.
  std::uint64_t a_offset = 0;
  std::uint64_t b_offset = 0;
  std::uint64_t bias_offset = 0;
  // Equal products of the same a, which one call computes with it.
  std::vector<LibraryProduct> siblings{};
};

// An entry that runs right after the one before it, with the same pointers.
struct FollowingEntry {
  std::uint64_t blocks = 1;
  unsigned threads = 0;
};

// A kernel as text, and how it is launched.
struct GeneratedKernel {
  KernelSource source;
  // The same as a call of the vendor's library.
  std::optional<LibraryProduct> library{};
  // The same in other variants; only measuring tells which is fastest.
  std::vector<GeneratedKernel> others{};
  std::vector<MappedTensor> maps{};  // the first entry's first parameters
  // The memory that it takes a pointer to, in order: that of these tensors (OpGraph::storage_of).
  std::vector<TensorId> storages;
  // One pointer more where it is not 0: memory that blocks share, all zero before the first launch.
  std::uint64_t workspace_bytes = 0;
  std::uint64_t blocks = 1;
  unsigned blocks_y = 1;
  unsigned blocks_z = 1;
  unsigned threads = 0;
  std::uint32_t shared_bytes = 0;  // dynamic
  bool cooperative = false;        // blocks wait for each other
  bool waits_for_packing = false;  // in its code: it may start before `packing` has ended
  // Where not 0: clusters of so many blocks take one piece of work after another, and no more of
  // them are launched than run at once.
  unsigned persistent_cluster = 0;
  KnownGaps gaps{};
  std::vector<FollowingEntry> following{};  // the source's other entries
  // The source's last entry, which runs before all others: it copies an operand into the workspace.
  std::optional<FollowingEntry> packing{};
  std::uint64_t packed_at = 0;
  std::string schedule;  // how the work is distributed, for users
};

}  // namespace fusecalc
