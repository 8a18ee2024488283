#pragma once

#include <cstdint>

#include "graph/op_graph.hpp"

namespace fusecalc {

// Which elements a rotary op turns, and by which angles. Element `i` of the last axis is turned
// with partner(i): the first of both becomes x cos - partner sin, the other x cos + partner sin.
struct Rotary {
  std::uint64_t length = 0;   // of the last axis
  std::uint64_t rotated = 0;  // its first so many are turned, the others stay
  std::uint64_t angles = 0;   // along the last axis of the cosines and of the sines
  bool interleaved = false;

  std::uint64_t half() const { return rotated / 2; }
  bool turns(std::uint64_t i) const { return i < rotated; }
  bool is_first(std::uint64_t i) const { return interleaved ? i % 2 == 0 : i < half(); }
  std::uint64_t partner(std::uint64_t i) const {
    const std::uint64_t apart = interleaved ? 1 : half();
    return is_first(i) ? i + apart : i - apart;
  }
  std::uint64_t angle(std::uint64_t i) const {
    if (angles == rotated) return i;
    return interleaved ? i / 2 : i % half();
  }
};

inline Rotary rotary_of(const OpGraph& graph, const Op& op) {
  const std::uint64_t length = graph.tensor(op.operands[0].tensor).type.shape.back();
  return {.length = length,
          .rotated =
              op.attributes->rotated ? static_cast<std::uint64_t>(*op.attributes->rotated) : length,
          .angles = graph.tensor(op.operands[1].tensor).type.shape.back(),
          .interleaved = op.attributes->interleaved};
}

}  // namespace fusecalc
