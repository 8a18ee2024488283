#pragma once

#include <map>
#include <optional>
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
  // A tensor in memory, by the type that it is stored in and its pointer.
  struct Stored {
    std::string type;
    std::string memory;
  };

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
  // In a matrix: what the code takes as `ahead` or as `beside`, loaded before, and what it leaves
  // in `pack` for others to store, each at the loop's index.
  std::optional<Stored> ahead{};
  std::optional<Stored> beside{};
  std::optional<Stored> made{};
  // In a matrix of pixels: addresses that are read of a column, and at the loop's own index.
  std::vector<std::string> columns_read{};
  std::vector<std::string> own_read{};
  // In a matrix: the code of what is the same in all rows, in arrays of the group's elements, where
  // the schedule keeps that: what is done once, and in each lane.
  struct Terms {
    std::vector<std::string> names{};
    std::string before{};
    std::string lanes{};
  };
  Terms terms{};
  // In a matrix: whether it reads what differs between columns, or between MatrixLoop::period rows.
  bool differs = false;

  std::string text(std::string_view indent) const;
};

CodeBlock block_of(unsigned width);

}  // namespace fusecalc
