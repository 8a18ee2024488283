#include "measure/reference.hpp"

#include "core/error.hpp"

namespace fusecalc {

Reference::Reference(const OpGraph& graph, std::span<const GraphInput> inputs)
    : inputs_{graph, std::vector<const InputData*>(graph.tensors.size(), nullptr)} {
  for (const GraphInput& input : inputs) inputs_.data[input.tensor] = &input.data;
}

Answer Reference::evaluate(TensorId tensor, std::span<const std::uint64_t> elements,
                           std::uint64_t work) const {
  Answer answer;
  try {
    for (const Lanes& lanes : Evaluation(inputs_, work).run(tensor, elements)) {
      answer.elements.push_back({.value = lanes[0], .spread = spread_of(lanes)});
    }
  } catch (const Error& error) {
    answer.reason = error.what();
  }
  return answer;
}

}  // namespace fusecalc
