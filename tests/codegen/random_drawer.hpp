#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/random_ops.hpp"
#include "core/dtype.hpp"
#include "graph/op_table.hpp"
#include "graph/shape.hpp"
#include "plan/random_graph.hpp"

namespace fusecalc::testing {

// A tensor that ops may read.
struct Drawn {
  std::string name;  // as JSON
  Shape shape;
  DType dtype = DType::kF32;
};

// One op as it is being drawn.
struct Line {
  std::vector<std::string> inputs{};  // as JSON
  std::vector<std::string> attributes{};
  std::size_t outputs = 1;
  bool overwrites = false;  // the first output lives in the first input's memory
};

// Draws a list op by op. A rule proposes inputs and attributes that should fit; build_graph decides
// whether they do, and says what comes out.
class Drawer {
 public:
  Drawer(std::uint64_t seed, std::size_t ops);
  RandomOps draw();

  Dice& dice() { return dice_; }
  template <typename T, std::size_t n>
  const T& one_of(const std::array<T, n>& choices) {
    return choices[dice_.below(n)];
  }

  // A tensor to read: a late one, mostly. By value, as adding tensors moves them.
  Drawn pick();
  Drawn pick_ranked(std::size_t least_rank);
  // The tensor that was added last.
  Drawn last() const { return values_.back(); }
  // A new graph input.
  Drawn input(const Shape& shape, DType dtype);
  Drawn input(const Shape& shape) { return input(shape, any_dtype()); }
  Drawn indices(const Shape& shape);

  std::uint64_t extent();
  Shape shape();
  DType any_dtype();  // the list's own, mostly
  // A shape that broadcasts to this one.
  Shape narrowed(Shape shape);

 private:
  bool add_op();
  bool attempt(const OpRow& row, const Line& line);
  std::string document() const;
  const OpRow& next_row();

  Dice dice_;
  std::size_t wanted_;
  DType dtype_;
  bool recent_;
  bool products_;
  std::vector<std::string> tensors_;
  std::vector<std::string> ops_;
  std::vector<Drawn> values_;
  std::vector<std::string> made_;  // the results among them
  std::string outputs_;
  OpGraph graph_;
};

// Proposes the inputs and attributes of an op of this row.
Line propose(Drawer& drawer, const OpRow& row);

}  // namespace fusecalc::testing
