#include "reference/reference.hpp"

#include "core/error.hpp"

namespace fusecalc {

Reference::Reference(const OpGraph& graph, std::span<const GraphInput> inputs)
    : inputs_{graph, std::vector<const InputData*>(graph.tensors.size(), nullptr)} {
  for (const GraphInput& input : inputs) inputs_.data[input.tensor] = &input.data;
}

Answer Reference::evaluate(TensorId tensor, std::span<const std::uint64_t> elements,
                           std::uint64_t work) const {
  Answer answer;
  for (const std::uint64_t most_terms : {kMaxCount, std::uint64_t{256}, std::uint64_t{32}}) {
    std::uint64_t left = work;
    Evaluation evaluation(inputs_, left, most_terms);
    try {
      for (const Lanes& lanes : evaluation.evaluate(tensor, elements)) {
        answer.elements.push_back({.value = lanes[0], .rounding_error = rms_deviation(lanes)});
      }
      answer.reason.clear();
      answer.estimated = evaluation.estimated();
      break;
    } catch (const Error& error) {
      answer.reason = error.what();
    }
    // Estimating helps only if the work budget was exceeded.
    if (left > 0 || !evaluation.could_estimate()) break;
  }
  return answer;
}

}  // namespace fusecalc
