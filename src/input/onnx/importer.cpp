#include "input/onnx/importer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "input/onnx/onnx.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

// Functions and branches nest less than this, and models have fewer nodes.
constexpr int kMostNesting = 16;
constexpr std::uint64_t kMostNodes = 1'000'000;
constexpr std::uint64_t kOldestOpset = 13;
constexpr std::uint64_t kLatestOpset = 23;

void require_opset(const OnnxModel& model, const std::string& document) {
  const auto opset = model.opsets.find("");
  if (opset == model.opsets.end()) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: states no opset of ONNX; is the file cut off?", document));
  }
  const bool old = opset->second < kOldestOpset;
  if (!old && opset->second <= kLatestOpset) return;
  throw Error(
      Fault::kBadInput,
      fmt::format("{}: opset {} is {} than {}, the {} that fusecalc reads; convert the model "
                  "with onnx.version_converter",
                  document, opset->second, old ? "older" : "newer",
                  old ? kOldestOpset : kLatestOpset, old ? "oldest" : "latest"));
}

// Every value has one writer.
void require_single_writers(const OnnxGraph& graph, const std::string& document) {
  std::unordered_map<std::string_view, const OnnxNode*> writers;
  for (const OnnxTensor& tensor : graph.initializers) writers.emplace(tensor.name, nullptr);
  for (const OnnxValue& value : graph.inputs) writers.emplace(value.name, nullptr);
  for (const OnnxNode& node : graph.nodes) {
    for (const std::string_view output : node.outputs) {
      if (output.empty()) continue;
      const auto [writer, first] = writers.emplace(output, &node);
      if (first) continue;
      const std::string other = writer->second == nullptr
                                    ? "an input of the graph"
                                    : "written by " + OnnxImporter::place_of(*writer->second);
      throw Error(Fault::kBadInput,
                  fmt::format("{}: {}: its output {} is already {}", document,
                              OnnxImporter::place_of(node), in_quotes(output), other));
    }
  }
}

// Why the elements of an input cannot be counted.
std::string input_fault(const OnnxValue& value) {
  if (!dtype_of_onnx(value.type)) return "its elements are of a type that fusecalc does not read";
  if (!value.shape) return "the file does not state its shape";
  return fmt::format("it has more than {} bytes", kMaxCount);
}

using Renamed = std::function<std::string_view(std::string_view)>;

// Gives the values of a node their names in a call, those of the graphs inside it, too, whose nodes
// it counts.
void rename_values(OnnxNode& node, const Renamed& renamed, std::uint64_t& nodes) {
  for (std::string_view& name : node.inputs) name = renamed(name);
  for (std::string_view& name : node.outputs) name = renamed(name);
  for (OnnxAttribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    auto graph = std::make_shared<OnnxGraph>(*attribute.graph);
    nodes += graph->nodes.size();
    for (OnnxNode& inner : graph->nodes) rename_values(inner, renamed, nodes);
    for (OnnxTensor& tensor : graph->initializers) tensor.name = renamed(tensor.name);
    for (std::vector<OnnxValue>* values : {&graph->inputs, &graph->outputs, &graph->values}) {
      for (OnnxValue& value : *values) value.name = renamed(value.name);
    }
    attribute.graph = std::move(graph);
  }
}

}  // namespace

OnnxImporter::OnnxImporter(const OnnxModel& model, const std::string& document,
                           const std::vector<DimOverride>& dims)
    : model_(model),
      document_(document),
      places_(std::make_shared<std::vector<std::string>>()),
      graph_(document, [places = places_](const WrittenGraph& graph, const WrittenPlace& place) {
        const bool of_op = place.part >= WrittenPlace::Part::kOp && place.index < graph.ops.size();
        return of_op ? places->at(graph.ops[place.index].source) : std::string{};
      }) {
  set_dims(dims);
}

const OnnxKnown* OnnxImporter::input(const OnnxNode& node, std::size_t i) const {
  return i < node.inputs.size() ? find(node.inputs[i]) : nullptr;
}

const OnnxKnown* OnnxImporter::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? nullptr : &found->second;
}

const Constant* OnnxImporter::constant(const OnnxNode& node, std::size_t i) const {
  const OnnxKnown* value = input(node, i);
  return value == nullptr ? nullptr : value->constant.get();
}

std::size_t OnnxImporter::output_count(const OnnxNode& node) {
  std::size_t count = node.outputs.size();
  while (count > 1 && node.outputs[count - 1].empty()) --count;
  return count;
}

void OnnxImporter::bind(std::string_view name, OnnxKnown value) {
  if (!name.empty()) values_[std::string(name)] = std::move(value);
}

std::string OnnxImporter::place_of(const OnnxNode& node) {
  const bool unnamed = node.name.empty() && !node.outputs.empty();
  return fmt::format("node {} ({})", in_quotes(unnamed ? node.outputs[0] : node.name),
                     printable(node.type));
}

// Shape and Size need no elements.
std::optional<Constant> OnnxImporter::fold_shape(const OnnxNode& node) const {
  const OnnxKnown* x = input(node, 0);
  if (x == nullptr || (node.type != "Size" && node.type != "Shape")) return std::nullopt;
  const Shape& shape = x->type.shape;
  std::optional<Constant> result(std::in_place);
  result->type.dtype = DType::kI64;
  if (node.type == "Size") {
    result->elements = {static_cast<double>(elements_between(shape, 0, shape.size()))};
    return result;
  }
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bound = [&](std::int64_t place) {
    return std::clamp(place < 0 ? std::max(place, -rank) + rank : place, std::int64_t{0}, rank);
  };
  const std::int64_t start = bound(whole_attribute(node, "start", 0));
  const std::int64_t end = std::max(start, bound(whole_attribute(node, "end", rank)));
  result->elements.assign(shape.begin() + start, shape.begin() + end);
  result->type.shape = {result->elements.size()};
  return result;
}

// No op is left of a view or a cast that is folded, so that its result keeps the name of its input.
std::string OnnxImporter::folded_source(const OnnxNode& node) const {
  constexpr std::array<std::string_view, 8> kShown = {
      "Cast", "CastLike", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"};
  const OnnxKnown* x = input(node, 0);
  return x != nullptr && std::ranges::count(kShown, node.type) != 0 ? x->source : std::string{};
}

bool OnnxImporter::fold(const OnnxNode& node) {
  if (node.outputs.size() != 1 || !node.domain.empty()) return false;
  std::optional<Constant> result = fold_shape(node);
  if (!result) {
    std::vector<const Constant*> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(constant(node, i));
    // CastLike needs the type of its second input, but none of its elements.
    Constant like;
    if (node.type == "CastLike" && inputs.size() == 2 && input(node, 1) != nullptr) {
      like.type = input(node, 1)->type;
      inputs[1] = &like;
    }
    result = fold_node(node, inputs);
  }
  if (!result) return false;
  OnnxKnown value{.type = result->type, .source = folded_source(node)};
  value.constant = std::make_shared<const Constant>(std::move(*result));
  bind(node.outputs[0], std::move(value));
  begin(node);
  graph_.fold_node();
  return true;
}

// A condition that is known decides which branch is part of the model.
bool OnnxImporter::inline_branch(const OnnxNode& node) {
  if (!node.domain.empty() || node.type != "If") return false;
  const Constant* condition = constant(node, 0);
  if (condition == nullptr || condition->elements.size() != 1) return false;
  const OnnxAttribute* branch =
      node.find(condition->elements[0] != 0 ? "then_branch" : "else_branch");
  if (branch == nullptr || !branch->graph) return false;
  const OnnxGraph& graph = *branch->graph;
  if (graph.outputs.size() < node.outputs.size()) return false;
  declare_constants(graph);
  for (const OnnxNode& inner : graph.nodes) process(inner);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (const OnnxKnown* result = find(graph.outputs[i].name)) alias(node, *result, i);
  }
  return true;
}

bool OnnxImporter::inline_function(const OnnxNode& node) {
  const auto function = std::ranges::find_if(model_.functions, [&](const OnnxFunction& candidate) {
    return candidate.name == node.type && candidate.domain == node.domain;
  });
  if (function == model_.functions.end()) return false;
  std::unordered_map<std::string_view, std::string_view> actual;
  for (std::size_t i = 0; i < function->inputs.size(); ++i) {
    actual[function->inputs[i]] = i < node.inputs.size() ? node.inputs[i] : std::string_view{};
  }
  for (std::size_t i = 0; i < function->outputs.size() && i < node.outputs.size(); ++i) {
    actual[function->outputs[i]] = node.outputs[i];
  }
  std::string_view call = node.name;
  if (call.empty() && !node.outputs.empty()) call = node.outputs[0];
  const auto renamed = [&](std::string_view name) {
    if (name.empty()) return name;
    const auto [entry, inserted] = actual.emplace(name, std::string_view{});
    if (inserted) entry->second = names_.emplace_back(fmt::format("{}/{}", call, name));
    return entry->second;
  };
  for (const OnnxNode& original : function->nodes) {
    OnnxNode& inner = inlined_.emplace_back(original);
    inner.name = names_.emplace_back(fmt::format("{}/{}", call, original.name));
    rename_values(inner, renamed, processed_);
    std::erase_if(inner.attributes, [&](OnnxAttribute& attribute) {
      if (attribute.refers_to.empty()) return false;
      const OnnxAttribute* given = node.find(attribute.refers_to);
      if (given == nullptr) return true;
      const std::string_view name = attribute.name;
      attribute = *given;
      attribute.name = name;
      return false;
    });
    process(inner);
  }
  return true;
}

void OnnxImporter::fail(const OnnxNode& node, std::string_view what) const {
  throw Error(Fault::kBadInput, fmt::format("{}: {}: {}", document_, place_of(node), what));
}

// What a node reads, by its name.
const OnnxKnown& OnnxImporter::require(const OnnxNode& node, std::string_view name) const {
  if (const OnnxKnown* value = find(name)) return *value;
  const auto given = std::ranges::find(model_.graph.inputs, name, &OnnxValue::name);
  if (given != model_.graph.inputs.end()) {
    fail(node,
         fmt::format("the graph's input {} is not read: {}", in_quotes(name), input_fault(*given)));
  }
  fail(node, "its input " + in_quotes(name) + " is not known: no earlier node writes it");
}

void OnnxImporter::process(const OnnxNode& node) {
  if (++processed_ > kMostNodes) fail(node, "the model has more than a million nodes");
  for (const std::string_view name : node.inputs) {
    if (!name.empty()) require(node, name);
  }
  if (fold(node)) return;
  if (++nesting_ > kMostNesting) fail(node, "functions and branches are nested more than 16 deep");
  const bool inlined = inline_branch(node) || inline_function(node);
  --nesting_;
  if (inlined) return;
  begin(node);
  const OnnxRule rule = rule_of(node.domain, node.type);
  // Every rule computes something from its first input.
  const bool known = rule != nullptr && input(node, 0) != nullptr && !node.outputs.empty();
  if (!known || !rule(*this, node)) write_custom(node, OpClass::kOpaque);
}

Model OnnxImporter::run() {
  require_single_writers(model_.graph, document_);
  declare_inputs();
  for (const OnnxNode& node : model_.graph.nodes) process(node);
  add_outputs();
  return graph_.finish();
}

Model read_onnx(std::string_view file, const std::string& name,
                const std::vector<DimOverride>& dims) {
  OnnxModel model = decode_onnx(file, name);
  require_opset(model, name);
  const std::deque<std::string> names = name_open_dims(model.graph);
  return OnnxImporter(model, name, dims).run();
}

}  // namespace fusecalc
