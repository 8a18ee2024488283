#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "reference/evaluation.hpp"
#include "reference/random.hpp"

namespace fusecalc {

// The data of a graph input. It may also be an intermediate tensor that is not a view: the
// reference then starts from its data and does not evaluate the op that writes it.
struct GraphInput {
  TensorId tensor = kNone;
  InputData data;
};

// The expected value of an element. `rounding_error` estimates the effect of all roundings up to
// it: a device result is correct within a few times that. Infinite if no estimate is possible.
struct Expected {
  double value = 0;
  double rounding_error = 0;
};

// The requested elements, in order, or the reason why they cannot be evaluated.
struct Answer {
  std::vector<Expected> elements{};
  std::string reason{};
  bool estimated = false;  // long sums, from a sample of their terms; included in rounding_error
};

// Takes about half a second on one core.
inline constexpr std::uint64_t kReferenceWork = std::uint64_t{1} << 28U;

// Evaluates any element of any tensor of a graph in fp64, straight from the graph's inputs. Results
// are not rounded between ops, except that integers and bools are whole; evaluation.hpp describes
// how.
class Reference {
 public:
  // The graph and the inputs must outlive it.
  Reference(const OpGraph& graph, std::span<const GraphInput> inputs);

  // If more than `work` scalar operations are needed, estimates long sums and means; fails with a
  // reason if that is still too many.
  Answer evaluate(TensorId tensor, std::span<const std::uint64_t> elements,
                  std::uint64_t work = kReferenceWork) const;

 private:
  ReferenceInputs inputs_;
};

}  // namespace fusecalc
