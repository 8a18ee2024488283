// ATen ops that move elements, and constants.

#include <algorithm>
#include <array>

#include "core/checked.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;

std::uint64_t elements_of(const ModelType& type) {
  return elements_between(type.shape(), 0, type.shape().size());
}

// A number in every element; what reads it reads the number.
bool fill(const AtenCall& call, double number) {
  call.set_number(0, number);
  call.graph().fold_node();
  return true;
}

bool zeros(const AtenCall& call, std::string_view) { return fill(call, 0); }
bool ones(const AtenCall& call, std::string_view) { return fill(call, 1); }

bool full(const AtenCall& call, std::string_view) {
  for (const std::string_view name : {"fill_value", "value", "s"}) {
    if (const auto number = call.number(name)) return fill(call, *number);
  }
  const auto value = call.value("value");
  if (!value) return false;
  if (call.at(*value).number) return fill(call, *call.at(*value).number);
  AtenCall::Step single = call.tensor(*value);
  if (call.at(*value).type.dtype() != call.type().dtype()) {
    single = call.step("cast", {single},
                       {{.name = "to", .value = std::string(name_of(call.type().dtype()))}});
  }
  return call.last_step("broadcast_to", {single}, {listed("shape", call.type().extents)});
}

bool concat(const AtenCall& call, std::string_view) {
  Inputs inputs;
  std::vector<ValueId> parts;
  for (const ValueId id : call.values("tensors")) {
    if (elements_of(call.at(id).type) != 0) parts.push_back(id);
  }
  if (parts.empty()) return false;
  if (parts.size() == 1 && call.at(parts[0]).type.shape() == call.type().shape()) {
    return call.equal(0, parts[0]), true;
  }
  for (const ValueId id : parts) inputs.emplace_back(call.tensor(id));
  return call.op("concat", inputs, {listed("axes", {WrittenDim(call.whole("dim", 0))})});
}

bool stack(const AtenCall& call, std::string_view) {
  const ModelType& type = call.type();
  const auto axis = axis_of(call.whole("dim", 0), type.shape().size());
  if (!axis) return false;
  ModelType part = type;
  part.type.shape[*axis] = 1;
  part.extents[*axis] = std::int64_t{1};
  Inputs inputs;
  const std::vector<ValueId> parts = call.values("tensors");
  for (const ValueId id : parts) {
    part.type.dtype = call.at(id).type.dtype();
    const auto row =
        call.graph().op("reshape", {call.tensor(id)}, {listed("shape", part.extents)}, part);
    if (!row) return false;
    inputs.emplace_back(*row);
  }
  if (parts.size() == 1) return call.op("copy", inputs);
  return call.op("concat", inputs,
                 {listed("axes", std::vector<std::int64_t>{static_cast<std::int64_t>(*axis)})});
}

// Repeats along axes: a new axis before each, which is merged into it. `tile` may leave out the
// first ones.
bool repeat(const AtenCall& call, std::string_view tiles) {
  const auto self = call.value("self");
  std::vector<std::int64_t> repeats = call.wholes(tiles.empty() ? "repeats" : tiles);
  if (!self || repeats.empty()) return false;
  const ModelType from = call.at(*self).type;
  if (!tiles.empty() && repeats.size() < from.shape().size()) {
    repeats.insert(repeats.begin(), from.shape().size() - repeats.size(), 1);
  }
  if (repeats.size() < from.shape().size()) return false;
  const std::size_t added = repeats.size() - from.shape().size();
  ModelType apart = model_type({}, from.dtype());
  ModelType spread = apart;
  const auto push = [](ModelType& type, std::uint64_t extent, const WrittenDim& written) {
    type.type.shape.push_back(extent);
    type.extents.push_back(written);
  };
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] != 1) {
      push(apart, 1, std::int64_t{1});
      push(spread, static_cast<std::uint64_t>(repeats[i]), repeats[i]);
    }
    if (i < added) continue;
    push(apart, from.shape()[i - added], from.extents[i - added]);
    push(spread, from.shape()[i - added], from.extents[i - added]);
  }
  ModelGraph& graph = call.graph();
  const auto before =
      graph.op("reshape", {call.tensor(*self)}, {listed("shape", apart.extents)}, apart);
  if (!before) return false;
  const auto copies =
      graph.op("broadcast_to", {*before}, {listed("shape", spread.extents)}, spread);
  if (!copies) return false;
  if (spread.shape() == call.type().shape()) return call.set(0, *copies), true;
  return call.op("reshape", {*copies}, {listed("shape", call.type().extents)});
}

bool embedding(const AtenCall& call, std::string_view) {
  const auto weight = call.value("weight");
  const auto indices = call.value("indices");
  if (!weight || !indices) return false;
  return call.op("embedding", {call.tensor(*weight), call.tensor(*indices)});
}

// Sums, means or maxima of rows are a custom op that reads the rows that the indices name, at most
// the table: PyTorch has one kernel for it.
bool embedding_bag(const AtenCall& call, std::string_view) {
  const auto weight = call.value("weight");
  const auto indices = call.value("indices");
  if (!weight || !indices || call.at(*weight).type.shape().size() != 2) return false;
  std::uint64_t rows = elements_of(call.at(*indices).type);
  if (!checked_multiply(rows, call.at(*weight).type.shape()[1])) return false;
  return set_custom(call,
                    {.op_class = OpClass::kMovement, .reads = {{call.tensor(*weight), rows}}});
}

bool index_select(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto index = call.value("index");
  if (!self || !index) return false;
  return call.op("gather", {call.tensor(*self), call.tensor(*index)},
                 {listed("axes", {WrittenDim(call.whole("dim", 0))})});
}

// Of all elements, one after the other.
bool take(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto index = call.value("index");
  if (!self || !index) return false;
  const ModelType from = call.at(*self).type;
  const auto flat =
      reshaped(call.graph(), call.tensor(*self), model_type({elements_of(from)}, from.dtype()));
  return flat && call.op("gather", {*flat, call.tensor(*index)}, {listed("axes", {0})});
}

// A custom op that reads as many elements of `self` as the result has, and all of the rest.
bool gather_some(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  std::vector<ModelGraph::TensorId> inputs;
  for (const ValueId id : call.all_values()) inputs.push_back(call.tensor(id));
  const ModelGraph::Custom custom{.op_class = OpClass::kMovement,
                                  .reads = {{inputs[0], elements_of(call.type())}}};
  call.set(0, call.graph().custom(inputs, std::span(&call.type(), 1), custom)[0]);
  return true;
}

// x[:, i]: a gather where one axis is indexed.
bool index(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const ProgramArgument* indices = call.argument("indices");
  if (!self || indices == nullptr) return false;
  const std::vector<ValueId> given = call.values("indices");
  const auto place =
      std::ranges::find_if(indices->tensors, [](const auto& n) { return !n.empty(); });
  if (given.size() == 1 && call.at(given[0]).type.dtype() != DType::kBool) {
    const auto axis = static_cast<std::int64_t>(place - indices->tensors.begin());
    const bool made = call.op("gather", {call.tensor(*self), call.tensor(given[0])},
                              {listed("axes", std::vector<std::int64_t>{axis})});
    if (made) return true;
  }
  return gather_places(call, *self, indices->tensors) || gather_some(call, {});
}

constexpr std::array kMovementRules = {
    AtenRule{"zeros", zeros},
    AtenRule{"zeros_like", zeros},
    AtenRule{"new_zeros", zeros},
    AtenRule{"zero", zeros},
    AtenRule{"ones", ones},
    AtenRule{"ones_like", ones},
    AtenRule{"new_ones", ones},
    AtenRule{"full", full},
    AtenRule{"full_like", full},
    AtenRule{"new_full", full},
    AtenRule{"fill", full},
    AtenRule{"scalar_tensor", full},
    AtenRule{"empty", zeros},
    AtenRule{"empty_like", zeros},
    AtenRule{"new_empty", zeros},
    AtenRule{"empty_permuted", zeros},
    AtenRule{"cat", concat},
    AtenRule{"concat", concat},
    AtenRule{"concatenate", concat},
    AtenRule{"stack", stack},
    AtenRule{"repeat", repeat},
    AtenRule{"tile", repeat, "dims"},
    AtenRule{"embedding", embedding},
    AtenRule{"embedding_bag", embedding_bag},
    AtenRule{"_embedding_bag", embedding_bag},
    AtenRule{"index_select", index_select},
    AtenRule{"take", take},
    AtenRule{"index", index},
    AtenRule{"_unsafe_index", index},
};

}  // namespace

std::span<const AtenRule> aten_movement_rules() { return kMovementRules; }

std::optional<ModelGraph::TensorId> filled(ModelGraph& graph, const ModelType& type,
                                           double number) {
  return graph.op("full", {},
                  {listed("shape", type.extents),
                   {.name = "value", .value = number},
                   {.name = "to", .value = std::string(name_of(type.dtype()))}},
                  type);
}

}  // namespace fusecalc
