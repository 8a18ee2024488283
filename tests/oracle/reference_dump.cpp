// Prints every element of every tensor of op lists as the reference computes it from the random
// inputs, for reference_oracle.py:
//     tensor NAME DTYPE [VALUE SPREAD]...
//     failed NAME REASON
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "measure/inputs.hpp"
#include "reference/reference.hpp"

namespace fusecalc {
namespace {

void dump(const char* path) {
  JsonReader reader(ByteSource::open(path));
  const OpGraph graph = build_graph(std::get<WrittenGraph>(read_op_list(reader)), {});
  const std::vector<GraphInput> inputs = random_inputs(graph, 1);
  const Reference reference(graph, inputs);
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    std::vector<std::uint64_t> elements(tensor.elements);
    for (std::uint64_t i = 0; i < elements.size(); ++i) elements[i] = i;
    const Answer answer = reference.evaluate(id, elements);
    if (!answer.reason.empty()) {
      std::printf("failed %s %s\n", tensor.name.c_str(), answer.reason.c_str());
      continue;
    }
    std::printf("tensor %s %s", tensor.name.c_str(),
                std::string(name_of(tensor.type.dtype)).c_str());
    for (const Expected& expected : answer.elements) {
      std::printf(" %.17g %.17g", expected.value, expected.rounding_error);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace fusecalc

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) fusecalc::dump(argv[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
