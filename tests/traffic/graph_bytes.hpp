#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

inline std::ostream& operator<<(std::ostream& out, const Bytes& bytes) {
  return out << bytes.read << " read, " << bytes.write << " written";
}

}  // namespace fusecalc

namespace fusecalc::testing {

// Of tensors of 1000 f32.
constexpr std::uint64_t kUnit = 4000;
inline Bytes units(std::uint64_t read, std::uint64_t write) {
  return {read * kUnit, write * kUnit};
}

// What one kernel of the named ops moves; all ops where none is named.
Bytes kernel_bytes(const OpGraph& graph, const std::vector<std::string>& ops = {});
// The same for one kernel per op, together.
Bytes unfused_bytes(const OpGraph& graph);
Bytes limit_bytes(const OpGraph& graph);

// What the kernel reads or writes of one tensor; 0 where it does not touch it.
std::uint64_t bytes_read(const OpGraph& graph, const std::vector<std::string>& ops,
                         std::string_view tensor);
std::uint64_t bytes_written(const OpGraph& graph, const std::vector<std::string>& ops,
                            std::string_view tensor);

}  // namespace fusecalc::testing
