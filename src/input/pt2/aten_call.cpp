#include <algorithm>
#include <cmath>

#include "input/model_shapes.hpp"
#include "input/pt2/importer.hpp"

namespace fusecalc {
namespace {

using Kind = ProgramArgument::Kind;

// The name of result i of a node; empty if there is none.
const std::string& result_name(const ProgramNode& node, std::size_t result) {
  static const std::string nothing;
  for (const ProgramArgument& output : node.outputs) {
    for (const std::string& name : output.tensors) {
      if (!name.empty() && result-- == 0) return name;
    }
  }
  return nothing;
}

std::optional<std::vector<ModelGraph::Input>> all_of(const std::vector<AtenCall::Step>& steps) {
  std::vector<ModelGraph::Input> inputs;
  for (const AtenCall::Step& step : steps) {
    if (!step) return std::nullopt;
    inputs.push_back(*step);
  }
  return inputs;
}

}  // namespace

ModelGraph& AtenCall::graph() const { return importer_.graph_; }

const ProgramArgument* AtenCall::argument(std::string_view name) const {
  const auto found = std::ranges::find(node_.inputs, name, &ProgramArgument::name);
  return found == node_.inputs.end() ? nullptr : &*found;
}

bool AtenCall::given(std::string_view name) const {
  const ProgramArgument* found = argument(name);
  if (found == nullptr || found->kind == Kind::kAbsent) return false;
  return found->kind != Kind::kTensors || found->list || !found->tensors[0].empty();
}

std::optional<ValueId> AtenCall::value(std::string_view name) const {
  const ProgramArgument* found = argument(name);
  const bool tensor = found != nullptr && found->kind == Kind::kTensors && !found->list;
  if (!tensor || found->tensors[0].empty()) return std::nullopt;
  return importer_.lookup(frame_, &node_, found->tensors[0]);
}

const ProgramValue& AtenCall::at(ValueId id) const { return importer_.bindings_[id].value; }

std::vector<ValueId> AtenCall::values(std::string_view name) const {
  std::vector<ValueId> ids;
  const ProgramArgument* found = argument(name);
  if (found == nullptr) return ids;
  for (const std::string& tensor : found->tensors) {
    if (!tensor.empty()) ids.push_back(importer_.lookup(frame_, &node_, tensor));
  }
  return ids;
}

std::vector<ValueId> AtenCall::all_values() const {
  std::vector<ValueId> ids;
  for (const ProgramArgument& argument : node_.inputs) {
    for (const std::string& tensor : argument.tensors) {
      if (!tensor.empty()) ids.push_back(importer_.lookup(frame_, &node_, tensor));
    }
  }
  return ids;
}

std::optional<std::int64_t> AtenCall::whole(std::string_view name) const {
  const ProgramArgument* found = argument(name);
  if (found == nullptr || found->kind != Kind::kInts || found->ints.empty()) return std::nullopt;
  return importer_.int_value(frame_, found->ints[0]);
}

std::int64_t AtenCall::whole(std::string_view name, std::int64_t otherwise) const {
  return whole(name).value_or(otherwise);
}

std::vector<std::int64_t> AtenCall::wholes(std::string_view name) const {
  std::vector<std::int64_t> values;
  const ProgramArgument* found = argument(name);
  if (found == nullptr || found->kind != Kind::kInts) return values;
  for (const ProgramArgument::Int& value : found->ints) {
    values.push_back(importer_.int_value(frame_, value));
  }
  return values;
}

std::optional<double> AtenCall::number(std::string_view name) const {
  const ProgramArgument* found = argument(name);
  if (found == nullptr) return std::nullopt;
  if (found->kind == Kind::kFloats && !found->floats.empty()) return found->floats[0];
  if (found->kind == Kind::kBool) return found->truth ? 1 : 0;
  const std::optional<std::int64_t> whole = this->whole(name);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

bool AtenCall::truth(std::string_view name, bool otherwise) const {
  const ProgramArgument* found = argument(name);
  return found != nullptr && found->kind == Kind::kBool ? found->truth : otherwise;
}

std::string AtenCall::text(std::string_view name) const {
  const ProgramArgument* found = argument(name);
  return found == nullptr ? std::string() : found->text;
}

std::optional<AxisRange> AtenCall::range(const ModelType& from) const {
  const auto axis = axis_of(whole("dim", 0), from.shape().size());
  if (!axis) return std::nullopt;
  const auto extent = static_cast<std::int64_t>(from.shape()[*axis]);
  const auto within = [&](std::int64_t index) {
    return std::clamp<std::int64_t>(index < 0 ? index + extent : index, 0, extent);
  };
  AxisRange range{.axis = *axis};
  if (given("index")) {
    const std::int64_t index = whole("index", 0);
    range.start = within(index);
    range.end = range.start + 1;
    if (index < -extent || index >= extent) return std::nullopt;
    return range;
  }
  range.start = within(whole("start", 0));
  range.end = std::max(range.start, within(whole("end", extent)));
  if (given("length")) range.end = std::min(extent, range.start + whole("length", 0));
  range.step = whole("step", 1);
  return range;
}

std::size_t AtenCall::results() const {
  std::size_t count = 0;
  for (const ProgramArgument& output : node_.outputs) {
    count += output.tensors.size() -
             static_cast<std::size_t>(std::ranges::count(output.tensors, std::string()));
  }
  return count;
}

const ModelType& AtenCall::type(std::size_t result) const {
  return importer_.type_of(frame_, result_name(node_, result));
}

std::optional<ModelType> AtenCall::pairs(std::size_t result) const {
  return importer_.pairs_of(frame_, result_name(node_, result));
}

std::vector<std::int64_t> AtenCall::strides(std::size_t result) const {
  return importer_.strides_of(frame_, result_name(node_, result));
}

bool AtenCall::used(std::size_t result) const {
  return importer_.frames_[frame_].last_read.contains(result_name(node_, result));
}

ModelGraph::TensorId AtenCall::tensor(ValueId value) const { return importer_.tensor(value); }

ModelGraph::Input AtenCall::operand(ValueId id) const {
  const ProgramValue& value = at(id);
  if (value.number && !std::isnan(*value.number)) return *value.number;
  if (value.base != ProgramValue::kNoTensor) return value.base;
  return importer_.tensor(id);
}

bool AtenCall::may_overwrite(std::string_view name) const {
  const auto id = value(name);
  if (!id) return false;
  const Pt2Importer::Binding& binding = importer_.bindings_[*id];
  const ModelGraph::TensorId own = binding.value.tensor;
  const bool whole = importer_.storages_[binding.storage].base == *id &&
                     own != ProgramValue::kNoTensor && !graph().is_view(own);
  if (!whole || importer_.is_shared(own)) return false;
  if (is_in_place(op_of(node_.target))) return true;
  if (graph().is_input(own) && !importer_.mutated_.contains(own)) return false;
  const auto shows = [&](ValueId taken) {
    return importer_.bindings_[taken].storage == binding.storage;
  };
  return std::ranges::count_if(all_values(), shows) == 1 &&
         importer_.is_last_reader(frame_, node_, binding.storage);
}

bool AtenCall::overwrites_input(std::string_view name) const {
  return may_overwrite(name) && importer_.mutated_.contains(at(*value(name)).tensor);
}

ValueId AtenCall::bind(std::size_t result, ProgramValue value) const {
  value.type = type(result);
  value.strides = strides(result);
  return importer_.bind(frame_, result_name(node_, result), std::move(value));
}

void AtenCall::share(std::size_t result, ValueId source, ProgramValue value) const {
  const ValueId id = bind(result, std::move(value));
  Pt2Importer::Binding& view = importer_.bindings_[id];
  const Pt2Importer::Binding& viewed = importer_.bindings_[source];
  importer_.storages_.pop_back();  // that of its own, just made
  view.storage = viewed.storage;
  view.version = importer_.storages_[viewed.storage].version;
  view.frame = frame_;
  view.node = &node_;
  view.name = result_name(node_, result);
}

void AtenCall::set(std::size_t result, ModelGraph::TensorId tensor) const {
  bind(result, {.type = {}, .strides = {}, .tensor = tensor});
}

void AtenCall::set_overwritten(ModelGraph::TensorId tensor) const {
  importer_.mutated_.insert(tensor);
  set(0, tensor);
}

void AtenCall::set_number(std::size_t result, double number) const {
  bind(result, {.type = {}, .strides = {}, .number = number});
}

void AtenCall::set_pairs(std::size_t result, ModelGraph::TensorId pairs) const {
  bind(result, {.type = {}, .strides = {}, .pairs = pairs});
}

void AtenCall::share(std::size_t result, ValueId source, ModelGraph::TensorId tensor) const {
  share(result, source, ProgramValue{.type = {}, .strides = {}, .tensor = tensor});
}

void AtenCall::share_base(std::size_t result, ValueId source, ModelGraph::TensorId base) const {
  share(result, source, ProgramValue{.type = {}, .strides = {}, .base = base});
}

void AtenCall::share_number(std::size_t result, ValueId source, double number) const {
  share(result, source, ProgramValue{.type = {}, .strides = {}, .number = number});
}

void AtenCall::share_pairs(std::size_t result, ValueId source, ModelGraph::TensorId pairs) const {
  share(result, source, ProgramValue{.type = {}, .strides = {}, .pairs = pairs});
}

void AtenCall::equal(std::size_t result, ValueId source) const {
  ProgramValue value = at(source);
  if (value.tensor != ProgramValue::kNoTensor) {
    importer_.shared_.resize(std::max<std::size_t>(importer_.shared_.size(), value.tensor + 1));
    importer_.shared_[value.tensor] = true;
    // A copy that is a view reads the memory below, which must stay as it is.
    importer_.shared_[graph().below_views(value.tensor)] = true;
  }
  bind(result, std::move(value));
}

void AtenCall::overwrite(ValueId argument, ModelGraph::TensorId tensor) const {
  importer_.write_back(argument, tensor);
}

bool AtenCall::op(std::string_view row, std::vector<ModelGraph::Input> inputs,
                  std::vector<WrittenAttribute> attributes, std::size_t outputs) const {
  std::vector<ModelType> types;
  for (std::size_t i = 0; i < outputs; ++i) types.push_back(type(i));
  const auto made = graph().op(row, std::move(inputs), std::move(attributes), types);
  if (!made) return false;
  for (std::size_t i = 0; i < outputs; ++i) set(i, (*made)[i]);
  return true;
}

AtenCall::Step AtenCall::step(std::string_view row, const std::vector<Step>& inputs,
                              std::vector<WrittenAttribute> attributes) const {
  const auto given = all_of(inputs);
  const auto made =
      given ? graph().op(row, *given, std::move(attributes), std::size_t{1}) : std::nullopt;
  return made ? Step(made->front()) : std::nullopt;
}

bool AtenCall::last_step(std::string_view row, const std::vector<Step>& inputs,
                         std::vector<WrittenAttribute> attributes) const {
  const auto given = all_of(inputs);
  return given && op(row, *given, std::move(attributes));
}

}  // namespace fusecalc
