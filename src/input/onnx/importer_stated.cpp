// What the file states: dimensions, inputs, outputs, and their types.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "input/onnx/importer.hpp"

namespace fusecalc {
namespace {

// The symbolic dimensions that the file names.
std::set<std::string_view> dims_of(const OnnxGraph& graph) {
  std::set<std::string_view> names;
  for (const std::vector<OnnxValue>* values : {&graph.inputs, &graph.outputs, &graph.values}) {
    for (const OnnxValue& value : *values) {
      if (!value.shape) continue;
      for (const OnnxDim& dim : *value.shape) {
        const auto* name = std::get_if<std::string_view>(&dim);
        if (name != nullptr && !name->empty()) names.insert(*name);
      }
    }
  }
  return names;
}

}  // namespace

std::deque<std::string> name_open_dims(OnnxGraph& graph) {
  const std::set<std::string_view> taken = dims_of(graph);
  std::deque<std::string> names;
  for (OnnxValue& value : graph.inputs) {
    const bool constant =
        std::ranges::count(graph.initializers, value.name, &OnnxTensor::name) != 0;
    if (constant || !value.shape || !dtype_of_onnx(value.type)) continue;
    for (std::size_t axis = 0; axis < value.shape->size(); ++axis) {
      auto* name = std::get_if<std::string_view>(&(*value.shape)[axis]);
      if (name == nullptr || !name->empty()) continue;
      std::string& given = names.emplace_back(fmt::format("{}_{}", value.name, axis));
      while (taken.contains(given)) given += "_";
      *name = given;
    }
  }
  return names;
}

void OnnxImporter::set_dims(const std::vector<DimOverride>& dims) {
  const std::set<std::string_view> named = dims_of(model_.graph);
  for (const DimOverride& dim : dims) {
    if (!named.contains(dim.name)) {
      if (unknown_dim_.empty()) unknown_dim_ = dim.name;
      continue;
    }
    dims_[dim.name] = dim.extent;
    graph_.dim(dim.name, dim.extent);
  }
}

std::optional<std::uint64_t> OnnxImporter::extent_of(const OnnxDim& dim) const {
  if (const auto* extent = std::get_if<std::uint64_t>(&dim)) return *extent;
  const auto found = dims_.find(std::get<std::string_view>(dim));
  if (found == dims_.end()) return std::nullopt;
  return found->second;
}

std::optional<TensorType> OnnxImporter::type_of(const OnnxValue& value) const {
  const std::optional<DType> dtype = dtype_of_onnx(value.type);
  if (!dtype || !value.shape) return std::nullopt;
  TensorType type{.shape = {}, .dtype = *dtype};
  for (const OnnxDim& dim : *value.shape) {
    const std::optional<std::uint64_t> extent = extent_of(dim);
    if (!extent) return std::nullopt;
    type.shape.push_back(*extent);
  }
  const std::optional<std::uint64_t> elements = checked_elements(type.shape);
  if (!elements || !checked_bytes_of(type.dtype, *elements)) return std::nullopt;
  return type;
}

std::optional<TensorType> OnnxImporter::type_of(const OnnxTensor& tensor) {
  const std::optional<DType> dtype = dtype_of_onnx(tensor.type);
  const std::optional<std::uint64_t> elements = checked_elements(tensor.dims);
  if (!dtype || !elements || !checked_bytes_of(*dtype, *elements)) return std::nullopt;
  return TensorType{tensor.dims, *dtype};
}

std::optional<TensorType> OnnxImporter::stated(const OnnxNode& node, std::size_t i) const {
  if (i >= node.outputs.size()) return std::nullopt;
  const auto found = stated_.find(node.outputs[i]);
  if (found == stated_.end()) return std::nullopt;
  return found->second;
}

void OnnxImporter::refuse_open_dims() const {
  std::set<std::string_view> open;
  for (const OnnxValue& value : model_.graph.inputs) {
    if (!value.shape) continue;
    for (const OnnxDim& dim : *value.shape) {
      const auto* name = std::get_if<std::string_view>(&dim);
      if (name != nullptr && !name->empty() && !extent_of(dim)) open.insert(*name);
    }
  }
  if (open.empty()) return;
  std::vector<std::string> options;
  for (const std::string_view name : open) options.push_back("--dim " + printable(name) + "=N");
  const std::string unknown =
      unknown_dim_.empty() ? "" : fmt::format(" (unknown dim {})", in_quotes(unknown_dim_));
  throw Error(Fault::kBadInput,
              fmt::format("{}: the model leaves {} open; set {} with {}{}", document_,
                          open.size() == 1 ? "a dimension" : "dimensions",
                          open.size() == 1 ? "it" : "them", fmt::join(options, " "), unknown));
}

void OnnxImporter::declare(std::string_view name, const TensorType& type,
                           std::shared_ptr<const Constant> constant) {
  OnnxKnown value{.type = type, .constant = std::move(constant), .source = std::string(name)};
  if (!value.constant) {
    value.tensor = graph_.input(value.source, model_type(type.shape, type.dtype));
  }
  bind(name, std::move(value));
}

void OnnxImporter::declare_constants(const OnnxGraph& graph) {
  for (const OnnxTensor& tensor : graph.initializers) {
    const std::optional<TensorType> type = type_of(tensor);
    if (!type) continue;
    std::optional<Constant> constant = constant_of(tensor);
    declare(tensor.name, *type,
            constant ? std::make_shared<const Constant>(std::move(*constant)) : nullptr);
  }
}

void OnnxImporter::declare_inputs() {
  refuse_open_dims();
  declare_constants(model_.graph);
  for (const OnnxValue& value : model_.graph.inputs) {
    if (find(value.name) != nullptr) continue;  // an initializer gives its default
    if (const auto type = type_of(value)) declare(value.name, *type, nullptr);
  }
  for (const std::vector<OnnxValue>* list : {&model_.graph.values, &model_.graph.outputs}) {
    for (const OnnxValue& value : *list) {
      if (const auto type = type_of(value)) stated_[value.name] = *type;
    }
  }
}

void OnnxImporter::add_outputs() {
  for (const OnnxValue& value : model_.graph.outputs) {
    const OnnxKnown* result = find(value.name);
    if (result == nullptr) {
      throw Error(Fault::kBadInput, fmt::format("{}: no node writes the output {}", document_,
                                                in_quotes(value.name)));
    }
    require_stated(value, result->type);
    if (result->tensor) graph_.output(*result->tensor);
  }
}

// Where --dim sets dimensions, the file may state the shapes of its export.
void OnnxImporter::require_stated(const OnnxValue& value, const TensorType& type) const {
  const auto expect = [&](bool same, std::string_view what, std::string_view computed,
                          std::string_view stated) {
    if (same) return;
    throw Error(Fault::kBadInput,
                fmt::format("{}: the output {} has the {} {}, but the file states {}; run ONNX "
                            "shape inference on the model",
                            document_, in_quotes(value.name), what, computed, stated));
  };
  if (const auto dtype = dtype_of_onnx(value.type)) {
    expect(*dtype == type.dtype, "type", name_of(type.dtype), name_of(*dtype));
  }
  const auto stated = stated_.find(value.name);
  if (!dims_.empty() || stated == stated_.end()) return;
  const Shape& shape = stated->second.shape;
  if (shape.empty()) return;  // without extents, it may be left open
  expect(shape == type.shape, "shape", to_string(type.shape), to_string(shape));
}

}  // namespace fusecalc
