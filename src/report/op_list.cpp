#include "report/op_list.hpp"

#include "json/writer.hpp"

namespace fusecalc {
namespace {

using Layout = JsonWriter::Layout;

void write_extents(JsonWriter& json, const std::vector<WrittenDim>& extents) {
  json.begin_array(Layout::kInline);
  for (const WrittenDim& extent : extents) {
    std::visit([&](const auto& value) { json.value(value); }, extent);
  }
  json.end();
}

void write_names(JsonWriter& json, const std::vector<std::string>& names) {
  json.begin_array(Layout::kInline);
  for (const std::string& name : names) json.value(name);
  json.end();
}

void write_counts(JsonWriter& json, std::string_view key,
                  const std::vector<std::pair<std::string, std::uint64_t>>& counts) {
  if (counts.empty()) return;
  json.key(key).begin_object(Layout::kInline);
  for (const auto& [name, count] : counts) json.member(name, count);
  json.end();
}

void write_attribute(JsonWriter& json, const WrittenAttribute& attribute) {
  json.key(attribute.name);
  if (const auto* list = std::get_if<std::vector<WrittenDim>>(&attribute.value)) {
    return write_extents(json, *list);
  }
  std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (!std::is_same_v<Value, std::vector<WrittenDim>>) json.value(value);
      },
      attribute.value);
}

void write_op(JsonWriter& json, const WrittenOp& op) {
  json.begin_object(Layout::kInline);
  if (op.name) json.member("name", *op.name);
  json.member("op", op.op);
  json.key("inputs").begin_array(Layout::kInline);
  for (const auto& input : op.inputs) {
    std::visit([&](const auto& value) { json.value(value); }, input);
  }
  json.end();
  if (op.outputs.size() == 1) {
    json.member("output", op.outputs[0]);
  } else {
    json.key("outputs");
    write_names(json, op.outputs);
  }
  for (const WrittenAttribute& attribute : op.attributes) write_attribute(json, attribute);
  if (!op.inplace.empty()) {
    json.key("inplace").begin_object(Layout::kInline);
    for (const auto& [output, input] : op.inplace) json.member(output, input);
    json.end();
  }
  write_counts(json, "reads", op.reads);
  write_counts(json, "writes", op.writes);
  if (op.flops) json.member("flops", *op.flops);
  if (op.op_class) json.member("class", *op.op_class);
  if (op.scope) json.member("scope", *op.scope);
  json.end();
}

void write_tensor(JsonWriter& json, const WrittenTensor& tensor) {
  json.key(tensor.name).begin_object(Layout::kInline);
  if (tensor.shape) {
    json.key("shape");
    write_extents(json, *tensor.shape);
  }
  if (tensor.dtype) json.member("dtype", *tensor.dtype);
  json.end();
}

}  // namespace

void write_op_list(const WrittenGraph& graph, Output& output) {
  JsonWriter json(output);
  json.begin_object();
  json.member("format", "fusecalc.ops/1");
  if (graph.name) json.member("name", *graph.name);
  if (graph.dtype) json.member("dtype", *graph.dtype);
  if (!graph.dims.empty()) {
    json.key("dims").begin_object(Layout::kInline);
    for (const auto& [name, extent] : graph.dims) {
      json.key(name);
      std::visit([&](const auto& value) { json.value(value); }, extent);
    }
    json.end();
  }
  json.key("tensors").begin_object();
  for (const WrittenTensor& tensor : graph.tensors) write_tensor(json, tensor);
  json.end();
  json.key("ops").begin_array();
  for (const WrittenOp& op : graph.ops) write_op(json, op);
  json.end();
  if (graph.outputs) {
    json.key("outputs");
    write_names(json, *graph.outputs);
  }
  json.end();
}

}  // namespace fusecalc
