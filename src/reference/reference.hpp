#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "reference/evaluation.hpp"
#include "reference/random.hpp"

namespace fusecalc {

// What a graph input holds, by its tensor. It may be any other tensor, too, as long as it is no
// view: the reference then starts from there, and asks nothing of the op that writes it.
struct GraphInput {
  TensorId tensor = kNone;
  InputData data;
};

// What an element should be. `spread` is about how far roundings on the way may move it: the result
// of a device is right where it lies within a few spreads. Infinite where nothing can be said.
struct Expected {
  double value = 0;
  double spread = 0;
};

// The elements that were asked for, in order; or the reason why they cannot be had.
struct Answer {
  std::vector<Expected> elements{};
  std::string reason{};
  bool estimated = false;  // long sums from some of their terms, which the spread tells
};

// About half a second's worth on one core.
inline constexpr std::uint64_t kReferenceWork = std::uint64_t{1} << 28U;

// Evaluates any element of any tensor of a graph in fp64, straight from the graph's inputs. Results
// are not rounded between ops, except that integers and bools are whole; evaluation.hpp tells how.
class Reference {
 public:
  // The graph and the inputs must outlive it.
  Reference(const OpGraph& graph, std::span<const GraphInput> inputs);

  // Where more scalar operations than `work` are needed, estimates long sums and means; gives up
  // where that is still too much.
  Answer evaluate(TensorId tensor, std::span<const std::uint64_t> elements,
                  std::uint64_t work = kReferenceWork) const;

 private:
  ReferenceInputs inputs_;
};

}  // namespace fusecalc
