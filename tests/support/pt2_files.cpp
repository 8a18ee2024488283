#include "support/pt2_files.hpp"

#include <cstdint>

#include "input/pt2/pt2.hpp"
#include "support/zip_files.hpp"

namespace fusecalc::testing {
namespace {

using Json = nlohmann::json;

// An argument as the format tags it. An object is tagged already.
Json tagged(const Json& value) {
  if (value.is_object()) return value;
  if (value.is_null()) return {{"as_none", true}};
  if (value.is_string()) return tensor_argument(value.get<std::string>());
  if (value.is_boolean()) return {{"as_bool", value}};
  if (value.is_number_integer()) return {{"as_int", value}};
  if (value.is_number()) return {{"as_float", value}};
  if (!value.empty() && value[0].is_string()) {
    Json tensors = Json::array();
    for (const Json& name : value) tensors.push_back({{"name", name}});
    return {{"as_tensors", tensors}};
  }
  return {{"as_ints", value}};
}

}  // namespace

Json tensor_argument(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

ProgramText& ProgramText::tensor(const std::string& name, const std::vector<Size>& sizes,
                                 const std::vector<int>& strides, int dtype) {
  Json shape = Json::array();
  Json steps = Json::array();
  for (const Size& size : sizes) shape.push_back(size.json);
  std::uint64_t stride = 1;  // wraps, for shapes that are refused
  for (std::size_t i = sizes.size(); i > 0; --i) {
    const Json& size = sizes[i - 1].json;
    const Json step = strides.empty() ? Json(stride) : Json(strides[i - 1]);
    steps.insert(steps.begin(), Json{{"as_int", step}});
    const Json& extent =
        size.contains("as_int") ? size["as_int"] : size["as_expr"]["hint"]["as_int"];
    stride *= extent.get<std::uint64_t>();
  }
  graph["tensor_values"][name] = {{"dtype", dtype}, {"sizes", shape}, {"strides", steps}};
  return *this;
}

ProgramText& ProgramText::parameter(const std::string& name, const std::string& path,
                                    const std::vector<Size>& sizes) {
  graph["inputs"].push_back(tensor_argument(name));
  inputs_.push_back({{"parameter", {{"arg", {{"name", name}}}, {"parameter_name", path}}}});
  return tensor(name, sizes);
}

ProgramText& ProgramText::input(const std::string& name, const std::vector<Size>& sizes) {
  graph["inputs"].push_back(tensor_argument(name));
  inputs_.push_back({{"user_input", {{"arg", tensor_argument(name)}}}});
  return tensor(name, sizes);
}

ProgramText& ProgramText::node(const std::string& op,
                               const std::vector<std::pair<std::string, Json>>& arguments,
                               const std::vector<std::string>& results,
                               const std::string& modules) {
  Json inputs = Json::array();
  for (const auto& [name, value] : arguments) {
    inputs.push_back({{"name", name}, {"arg", tagged(value)}, {"kind", 1}});
  }
  Json outputs = Json::array();
  for (const std::string& name : results) outputs.push_back(tensor_argument(name));
  Json metadata = {{"stack_trace", "File \"model.py\", line 1"}};
  if (!modules.empty()) metadata["nn_module_stack"] = modules;
  graph["nodes"].push_back(
      {{"target", op.find('.') == std::string::npos ? "torch.ops.aten." + op + ".default" : op},
       {"inputs", inputs},
       {"outputs", outputs},
       {"metadata", metadata}});
  return *this;
}

ProgramText& ProgramText::output(const std::string& name) {
  graph["outputs"].push_back(tensor_argument(name));
  outputs_.push_back({{"user_output", {{"arg", tensor_argument(name)}}}});
  return *this;
}

ProgramText& ProgramText::mutation(const std::string& name, const std::string& input) {
  graph["outputs"].push_back(tensor_argument(name));
  outputs_.push_back(
      {{"user_input_mutation", {{"arg", {{"name", name}}}, {"user_input_name", input}}}});
  return *this;
}

ProgramText& ProgramText::range(const std::string& symbol, int min, int max) {
  ranges_[symbol] = {{"min_val", min}, {"max_val", max}};
  return *this;
}

Json ProgramText::json() const {
  return {{"graph_module",
           {{"graph", graph},
            {"signature", {{"input_specs", inputs_}, {"output_specs", outputs_}}},
            {"module_call_graph", Json::array()}}},
          {"opset_version", {{"aten", 10}}},
          {"range_constraints", ranges_},
          {"schema_version", {{"major", major}, {"minor", minor}}},
          {"torch_version", "2.13.0"}};
}

std::string ProgramText::file() const { return pt2_of(json()); }

std::string pt2_of(const Json& program) {
  return zip_of({{.name = "model/byteorder", .bytes = "little"},
                 {.name = "model/models/model.json", .bytes = program.dump()}});
}

Model read(const ProgramText& program, const std::vector<DimOverride>& dims) {
  return read_pt2(program.file(), "m.pt2", dims);
}

}  // namespace fusecalc::testing
