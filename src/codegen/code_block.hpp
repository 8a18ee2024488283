#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/value.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// Code that computes a group of `width` neighbouring elements: what is done once for all of them,
// what is done in each lane (a loop over j), and what is done at the end. Values and indices are
// computed once per block: it remembers the variables that have them.
struct CodeBlock {
  unsigned width = 1;
  std::string width_text = "1";  // the same, or the name of a template's parameter
  std::string before{};
  std::string lanes{};
  std::string after{};
  // Code for the schedule to place ahead of the loop that this block is in: the results of rows
  // that it uses, and copies of what it reads into held values.
  std::string row_results{};
  std::string copies{};

  std::map<std::pair<TensorId, std::string>, Value> values{};
  std::map<std::string, Index> indices{};
  std::vector<TensorId> held{};  // values that it puts where the loop holds them
  // Reads whose lanes are scattered, and the map from the loop's index to theirs.
  std::vector<std::pair<TensorId, IndexTransform>> scattered_reads{};

  std::string text(std::string_view indent) const;
};

CodeBlock block_of(unsigned width);

}  // namespace fusecalc
