#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/index_map.hpp"
#include "codegen/text.hpp"

namespace fusecalc {

// The linear index of an element of some tensor, as a variable of the generated code.
struct Index {
  std::string name;  // of the group's first element where the pattern is unit
  LanePattern pattern = LanePattern::kUniform;
  bool aligned = true;      // unit: the first is a multiple of the group's width
  unsigned align = 1;       // unit, in a matrix: it is a multiple of so many, 8 at most
  bool of_column = false;   // in a matrix: the same in all rows
  std::uint64_t begin = 0;  // where it is: that of the first column
  // The maps that lead here from the loop's own index; none where an index that was read from
  // memory lies between.
  std::optional<std::vector<IndexTransform>> path = std::vector<IndexTransform>{};

  // The index in one lane, inside the loop over j.
  std::string lane() const { return pattern == LanePattern::kUnit ? "(" + name + " + j)" : name; }
};

// A computed element, as an expression of the generated code.
struct Value {
  std::string text;
  ComputeType type = ComputeType::kF32;
  bool uniform = false;            // the same in all lanes
  bool of_column = false;          // a term of a matrix's columns (CodeBlock::terms)
  std::optional<double> number{};  // a literal of the graph, of any type
  // An integer as a float, where that takes less than to convert it.
  std::string as_float{};
  // Where it comes from memory as it is: the element as it is stored, and its type there.
  std::string stored{};
  std::optional<DType> stored_as{};
};

Value converted(const Value& value, ComputeType type);

}  // namespace fusecalc
