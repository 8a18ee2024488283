#include "graph/graph_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <variant>

#include "core/error.hpp"
#include "input/op_list.hpp"

namespace fusecalc::testing {

OpGraph graph_of(std::string_view json, const std::vector<DimOverride>& overrides) {
  JsonReader reader(ByteSource::from_memory(json, "t"));
  return build_graph(std::get<WrittenGraph>(read_op_list(reader)), overrides);
}

std::string bf16_list(const std::string& tensors, const std::string& ops) {
  return R"({"format": "fusecalc.ops/1", "dtype": "bf16", "tensors": {)" + tensors +
         R"(}, "ops": [)" + ops + "]}";
}

std::string fault_of(std::string_view json, const std::vector<DimOverride>& overrides) {
  try {
    graph_of(json, overrides);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    const std::string text = error.what();
    REQUIRE(text.starts_with("t: "));
    return text.substr(3);
  }
  return {};
}

const Tensor& tensor_named(const OpGraph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.tensors, name, &Tensor::name);
  REQUIRE_MESSAGE(found != graph.tensors.end(), name);
  return *found;
}

OpId op_called(const OpGraph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.ops, name, &Op::name);
  REQUIRE_MESSAGE(found != graph.ops.end(), name);
  return static_cast<OpId>(found - graph.ops.begin());
}

}  // namespace fusecalc::testing
