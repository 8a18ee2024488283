#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

// What a loop over the elements of what a kernel writes reads of an operand again, because that
// is repeated along an axis which is not the last: `bytes`, in each of `passes`, one after the
// other, over `pass` elements of the loop. And all of that for `outer` parts of the loop.
struct RepeatedRead {
  std::uint64_t outer = 1;
  std::uint64_t passes = 1;
  std::uint64_t pass = 1;
  double bytes = 0;
};

// The loop of a kernel without contractions.
struct LoopSpace {
  std::uint64_t elements = 0;
  std::uint64_t unit =
      1;              // elements whose multiples blocks begin with: passes side by side must, too
  bool rows = false;  // also where there is but one part

  // Of results of so many elements.
  static LoopSpace of_results(std::uint64_t elements);
  // Nothing where rows run across memory.
  static std::optional<LoopSpace> of_rows(const RowLayout& rows);
};

// How far such reads are apart, and what a kernel does about it.
struct RepeatedReads {
  LoopSpace space{};
  std::vector<RepeatedRead> reads{};
  // Passes that blocks take side by side: some chunks of each in turn, so that what they read again
  // is still in the L2. As many as divide the passes, at most 32; the rest counts as outer.
  std::optional<RepeatedRead> side_by_side{};

  // Bytes that the kernel moves from one read to the next, out of `moved` in all.
  double distance(const RepeatedRead& read, double moved) const;
};

// Of a kernel that moves so many bytes.
RepeatedReads repeated_reads(const OpGraph& graph, const Kernel& kernel, const LoopSpace& space,
                             double moved, std::uint64_t l2_bytes);

// The share that the L2 has lost of what a stream reads again after so many bytes.
double lost_by_stream(double distance, std::uint64_t l2_bytes);

}  // namespace fusecalc
