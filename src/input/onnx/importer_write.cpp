// How rules write ops: operands, results, and the names of nodes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <unordered_set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "input/affine.hpp"
#include "input/einsum.hpp"
#include "input/model_shapes.hpp"
#include "input/onnx/importer.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

std::vector<std::int64_t> strides_in(const OnnxKnown& value) {
  return value.strides.empty() ? contiguous(value.type.shape) : value.strides;
}

std::vector<WrittenDim> dims_of(const Shape& shape) {
  std::vector<WrittenDim> result;
  for (const std::uint64_t extent : shape) result.emplace_back(static_cast<std::int64_t>(extent));
  return result;
}

// How many axes of the one shape each axis of the other merges; empty if it does more than merge.
std::vector<std::size_t> merged_axes(const Shape& from, const Shape& to) {
  std::vector<std::size_t> counts;
  std::size_t next = 0;
  for (const std::uint64_t extent : to) {
    const std::size_t first = next;
    std::uint64_t product = 1;
    while (next < from.size() && (next == first || product < extent)) product *= from[next++];
    if (next == first || product != extent) return {};
    counts.push_back(next - first);
  }
  return next == from.size() ? counts : std::vector<std::size_t>{};
}

// Why the shape of a result is not known, and what helps.
std::string missing_shape(const OnnxNode& node, std::string_view output) {
  constexpr std::array<std::string_view, 4> kOfData = {"NonZero", "Unique", "Compress",
                                                       "NonMaxSuppression"};
  if (std::ranges::find(kOfData, node.type) != kOfData.end()) {
    return fmt::format(
        "how many elements {} has depends on data, not on shapes; export the model "
        "up to here, or without the operator (a mask as Where in place of its "
        "indices)",
        in_quotes(output));
  }
  if (node.type.starts_with("Sequence")) {
    return fmt::format(
        "{} is a sequence of tensors, which fusecalc does not read; export the model "
        "without it",
        in_quotes(output));
  }
  const bool known = rule_of(node.domain, node.type) != nullptr;
  return fmt::format(
      "the file states no shape of {}, and {}; run ONNX shape inference on the model "
      "first",
      in_quotes(output),
      known ? "fusecalc does not know this form of the operator"
            : "fusecalc does not know the operator");
}

// Axes, counts along them and single numbers are part of the code of an op, which reads none of
// them from memory.
bool is_argument(const Constant* constant) {
  if (constant == nullptr) return false;
  constexpr std::size_t kMostCounts = 16;  // before and after each of 8 axes
  const TensorType& type = constant->type;
  const bool counts = !is_float(type.dtype) && bytes_of(type.dtype, 1) >= 4;
  return constant->elements.size() == 1 ||
         (counts && type.shape.size() == 1 && constant->elements.size() <= kMostCounts);
}

// A path as a name.
std::string dotted(std::string_view path) {
  if (path.starts_with("/")) path.remove_prefix(1);
  std::string name(path);
  std::ranges::replace(name, '/', '.');
  return name;
}

// What the graphs inside a node read from memory.
class GraphReads {
 public:
  void add(const OnnxGraph& graph) {
    std::vector<std::string_view> defined;
    const auto define = [&](std::string_view name) {
      if (inside_.insert(name).second) defined.push_back(name);
    };
    const auto read = [&](std::string_view name) {
      if (!name.empty() && !inside_.contains(name)) captured.insert(name);
    };
    for (const OnnxTensor& tensor : graph.initializers) {
      define(tensor.name);
      if (!constant_of(tensor)) weights.push_back(&tensor);
    }
    for (const OnnxValue& value : graph.inputs) define(value.name);
    for (const OnnxNode& node : graph.nodes) {
      std::ranges::for_each(node.inputs, read);
      for (const OnnxAttribute& attribute : node.attributes) {
        if (attribute.graph) add(*attribute.graph);
      }
      std::ranges::for_each(node.outputs, define);
    }
    for (const OnnxValue& value : graph.outputs) read(value.name);
    for (const std::string_view name : defined) inside_.erase(name);
  }

  std::set<std::string_view> captured;     // values that are defined around the graphs
  std::vector<const OnnxTensor*> weights;  // that the graphs state themselves

 private:
  std::unordered_set<std::string_view> inside_;  // what the graphs being added define
};

}  // namespace

// The module whose weight the node reads ("layers.0.mlp.up_proj"), or nothing.
std::string OnnxImporter::module_of(const OnnxNode& node) const {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const OnnxKnown* value = input(node, i);
    while (value != nullptr && value->permuted) value = value->permuted.get();
    if (value == nullptr) continue;
    const std::string& name = value->source;
    for (const std::string_view end : {".weight", ".bias", ".gamma"}) {
      if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
    }
  }
  return {};
}

// Names it after the module of its weight, else after itself. A path is also its scope.
void OnnxImporter::begin(const OnnxNode& node) {
  std::string name = module_of(node);
  if (name.empty()) {
    name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
    if (name.starts_with("node_")) name.erase(0, 5);
    name = dotted(name);
  }
  if (name.empty()) name = node.type;
  const std::size_t dot = name.rfind('.');
  std::string scope = dot == std::string::npos ? "" : name.substr(0, dot);
  std::string target(node.type);
  if (!node.domain.empty()) target = fmt::format("{}.{}", node.domain, node.type);
  places_->push_back(place_of(node));
  graph_.begin_node(
      {.target = std::move(target), .name = std::move(name), .scope = std::move(scope)});
}

ModelGraph::TensorId OnnxImporter::tensor_of(const OnnxKnown& value) {
  if (value.tensor) return *value.tensor;
  const auto [entry, added] = constant_tensors_.emplace(value.constant.get(), 0);
  if (added) {
    entry->second = graph_.input(value.source.empty() ? "constant" : value.source,
                                 model_type(value.type.shape, value.type.dtype),
                                 known_elements(value.type.shape, value.constant->elements));
  }
  return entry->second;
}

std::vector<ModelGraph::Input> OnnxImporter::written(const std::vector<Operand>& operands) {
  std::vector<ModelGraph::Input> result;
  for (const Operand& operand : operands) {
    if (const auto* number = std::get_if<double>(&operand)) {
      result.emplace_back(*number);
    } else {
      result.emplace_back(tensor_of(*std::get<const OnnxKnown*>(operand)));
    }
  }
  return result;
}

void OnnxImporter::name_output(const OnnxNode& node, std::size_t i, const OnnxKnown& value) {
  if (value.tensor) graph_.name_result(*value.tensor, dotted(node.outputs[i]));
}

void OnnxImporter::alias(const OnnxNode& node, const OnnxKnown& value, std::size_t i) {
  if (i > 0) name_output(node, i, value);
  bind(node.outputs[i], OnnxKnown(value));
}

OnnxKnown OnnxImporter::known(ModelGraph::TensorId tensor) const {
  return {.type = graph_.type(tensor).type, .tensor = tensor};
}

bool OnnxImporter::bind_results(const OnnxNode& node,
                                const std::optional<std::vector<ModelGraph::TensorId>>& results) {
  if (!results) return false;
  for (std::size_t i = 0; i < results->size(); ++i) {
    alias(node, known((*results)[i]), i);
  }
  return true;
}

bool OnnxImporter::write(const OnnxNode& node, std::string_view op,
                         const std::vector<Operand>& inputs, Written attributes,
                         std::size_t outputs) {
  return bind_results(node, graph_.op(op, written(inputs), std::move(attributes), outputs));
}

std::optional<std::vector<ModelGraph::TensorId>> OnnxImporter::results_as(
    std::string_view op, const std::vector<Operand>& inputs, const std::vector<DType>& dtypes,
    const Written& attributes) {
  auto results = graph_.op(op, written(inputs), attributes, dtypes.size());
  if (!results) return std::nullopt;
  std::vector<ModelType> types;
  bool same = true;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    types.push_back(graph_.type((*results)[i]));
    same = same && types[i].dtype() == dtypes[i];
    types[i].type.dtype = dtypes[i];
  }
  return same ? results : graph_.op(op, written(inputs), attributes, types);
}

bool OnnxImporter::write_as(const OnnxNode& node, std::string_view op,
                            const std::vector<Operand>& inputs, const std::vector<DType>& dtypes,
                            const Written& attributes) {
  return bind_results(node, results_as(op, inputs, dtypes, attributes));
}

std::optional<CausalMask> OnnxImporter::causal(const OnnxKnown& mask) {
  return causal_mask(graph_, tensor_of(mask), false);
}

bool OnnxImporter::write_biased(const OnnxNode& node, const OnnxKnown& product,
                                const OnnxKnown& bias) {
  if (!product.tensor) return false;
  auto origin = graph_.written_by(*product.tensor, "linear");
  if (!origin) {
    origin = graph_.written_by(*product.tensor, "matmul");
    if (!origin || !origin->attributes.empty()) return false;
    const auto b = std::get<ModelGraph::TensorId>(origin->inputs[1]);
    const bool is_matrix = graph_.type(b).shape().size() == 2;
    if (!is_matrix || graph_.type(*product.tensor).shape().size() < 2) return false;
    const auto weight = graph_.op("permute_view", {b}, {listed("perm", {1, 0})}, 1);
    if (!weight) return false;
    origin->inputs[1] = weight->front();
  }
  if (origin->inputs.size() != 2) return false;
  origin->inputs.emplace_back(tensor_of(bias));
  const ModelType type = graph_.type(*product.tensor);  // also of integers of 64 bits
  return bind_results(node, graph_.op("linear", origin->inputs, {}, std::span(&type, 1)));
}

std::optional<OnnxKnown> OnnxImporter::write_step(std::string_view op,
                                                  const std::vector<Operand>& inputs,
                                                  const Written& attributes) {
  const auto results = graph_.op(op, written(inputs), attributes, 1);
  if (!results) return std::nullopt;
  return known(results->front());
}

std::optional<std::vector<OnnxKnown>> OnnxImporter::write_steps_as(
    std::string_view op, const std::vector<Operand>& inputs, const std::vector<DType>& dtypes,
    const Written& attributes) {
  const auto results = results_as(op, inputs, dtypes, attributes);
  if (!results) return std::nullopt;
  std::vector<OnnxKnown> values;
  for (const ModelGraph::TensorId tensor : *results) {
    values.push_back(known(tensor));
  }
  return values;
}

std::optional<OnnxKnown> OnnxImporter::write_step_as(std::string_view op,
                                                     const std::vector<Operand>& inputs,
                                                     DType dtype, const Written& attributes) {
  auto results = write_steps_as(op, inputs, {dtype}, attributes);
  return results ? std::optional(std::move(results->front())) : std::nullopt;
}

std::optional<OnnxKnown> OnnxImporter::permute(const OnnxKnown& value,
                                               const std::vector<std::size_t>& perm) {
  const std::vector<std::int64_t> before = strides_in(value);
  std::vector<WrittenDim> axes;
  std::vector<std::int64_t> strides;
  for (const std::size_t axis : perm) {
    axes.emplace_back(static_cast<std::int64_t>(axis));
    strides.push_back(before[axis]);
  }
  auto result = write_step("permute_view", {&value}, {{"perm", axes}});
  if (!result) return std::nullopt;
  result->permuted = std::make_shared<const OnnxKnown>(value);
  result->perm = perm;
  if (strides != contiguous(result->type.shape)) result->strides = std::move(strides);
  if (!value.apart) return result;
  std::vector<std::size_t> apart;
  for (const std::size_t axis : perm) {
    const auto first =
        std::accumulate(value.merged.begin(),
                        value.merged.begin() + static_cast<std::ptrdiff_t>(axis), std::size_t{0});
    for (std::size_t i = 0; i < value.merged[axis]; ++i) apart.push_back(first + i);
    result->merged.push_back(value.merged[axis]);
  }
  const auto turned = permute(*value.apart, apart);
  if (turned) result->apart = std::make_shared<const OnnxKnown>(*turned);
  return result;
}

// What exporters merge for a batched product or a transposition and split again afterwards was
// never copied.
std::optional<OnnxKnown> OnnxImporter::reshape(const OnnxKnown& value, const Shape& shape) {
  if (shape == value.type.shape) return value;
  if (value.apart && shape == value.apart->type.shape) return *value.apart;
  const OnnxKnown* from = &value;
  std::optional<OnnxKnown> copied;
  if (!value.strides.empty() && !viewable(value.type.shape, value.strides, shape)) {
    copied = write_step("copy", {&value});
    if (!copied) return std::nullopt;
    from = &*copied;
  }
  auto result = write_step("reshape", {from}, {{"shape", dims_of(shape)}});
  if (!result || !copied) return result;
  result->merged = merged_axes(value.type.shape, shape);
  if (!result->merged.empty()) result->apart = std::make_shared<const OnnxKnown>(value);
  return result;
}

std::optional<OnnxKnown> OnnxImporter::einsum(const std::string& equation,
                                              const std::vector<const OnnxKnown*>& operands) {
  std::vector<StridedTensor> tensors;
  for (const OnnxKnown* each : operands) {
    tensors.push_back({tensor_of(*each), strides_in(*each)});
  }
  auto result = write_einsum(graph_, equation, std::move(tensors));
  if (!result) return std::nullopt;
  OnnxKnown value{.type = graph_.type(result->tensor).type, .tensor = result->tensor};
  if (result->strides != contiguous(value.type.shape)) value.strides = std::move(result->strides);
  return value;
}

// The inputs of a node, but for its arguments, and what the graphs inside it read.
std::vector<ModelGraph::TensorId> OnnxImporter::read_by(const OnnxNode& node) {
  std::vector<ModelGraph::TensorId> result;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const OnnxKnown* value = input(node, i);
    if (value == nullptr || (i > 0 && is_argument(value->constant.get()))) continue;
    result.push_back(tensor_of(*value));
  }
  GraphReads reads;
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.graph) reads.add(*attribute.graph);
  }
  std::unordered_set<ModelGraph::TensorId> given(result.begin(), result.end());
  for (const std::string_view name : reads.captured) {
    const OnnxKnown& value = require(node, name);
    if (is_argument(value.constant.get())) continue;
    const ModelGraph::TensorId tensor = tensor_of(value);
    if (given.insert(tensor).second) result.push_back(tensor);
  }
  for (const OnnxTensor* weight : reads.weights) {
    const auto type = type_of(*weight);
    if (type)
      result.push_back(
          graph_.input(std::string(weight->name), model_type(type->shape, type->dtype)));
  }
  return result;
}

bool OnnxImporter::write_custom(const OnnxNode& node, OpClass op_class, std::uint64_t flops,
                                const std::vector<TensorType>& outputs,
                                std::optional<std::uint64_t> of_first) {
  const std::vector<ModelGraph::TensorId> inputs = read_by(node);
  std::vector<ModelType> types;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const std::optional<TensorType> type =
        i < outputs.size() ? std::optional(outputs[i]) : stated(node, i);
    if (!type) fail(node, missing_shape(node, node.outputs[i]));
    types.push_back(model_type(type->shape, type->dtype));
    places.push_back(i);
  }
  if (types.empty()) return true;
  ModelGraph::Custom custom;
  custom.op_class = op_class;
  custom.flops = flops;
  if (of_first) custom.reads.emplace_back(inputs[0], *of_first);
  const auto results = graph_.custom(inputs, types, custom);
  for (std::size_t i = 0; i < results.size(); ++i) {
    alias(node, known(results[i]), places[i]);
  }
  return true;
}

}  // namespace fusecalc
