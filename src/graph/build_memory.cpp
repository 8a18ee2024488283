// Tensors that share memory: views, and results that are stored in an input's memory.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "graph/builder.hpp"

namespace fusecalc {
namespace {

// Puts a map before those of the tensor that a view shows.
void add_map(Tensor& view, const Tensor& viewed, const StridedMap& source) {
  if (source.identity() && view.elements == viewed.elements) return;
  const auto both = view.maps.empty() ? source : joined(source, view.maps.front());
  if (both && !view.maps.empty()) view.maps.erase(view.maps.begin());
  const StridedMap& first = both ? *both : source;
  if (!first.identity()) view.maps.insert(view.maps.begin(), first);
  view.shown = std::min(viewed.shown, source.distinct());
  if (view.maps.size() == 1) view.shown = std::min(view.shown, view.maps[0].distinct());
}

}  // namespace

void GraphBuilder::add_views(const WrittenOp& written, const Op& op, const Inference& inference) {
  Op scratch;
  scratch.position = op.position;
  const TensorId base = op.operands[0].tensor;
  for (std::size_t i = 0; i < written.outputs.size(); ++i) {
    add_output(scratch, i, inference.outputs[i]);
    const TensorId id = scratch.outputs[i];
    Tensor& view = graph_.tensors[id];
    const Tensor& viewed = graph_.tensors[base];
    if (view.type.dtype != viewed.type.dtype) {
      fail({Part::kOutput, op.position, i},
           "a view cannot change the dtype; a cast, which copies, can");
    }
    view.view_of = base;
    view.value = viewed.value;
    view.storage = graph_.tensors[viewed.value].storage;
    view.maps = viewed.maps;
    view.shown = viewed.shown;
    if (view.elements == 0) continue;
    add_map(view, viewed, inference.sources[i]);
    find_window(id);
  }
}

void GraphBuilder::find_window(TensorId id) {
  Tensor& view = graph_.tensors[id];
  if (view.maps.empty() && view.elements == graph_.tensors[view.value].elements) {
    view.window = view.value;
    return;
  }
  std::vector<std::uint64_t> key = {view.value, view.elements};
  for (const StridedMap& map : view.maps) {
    key.insert(key.end(), {map.axes.size(), map.offset});
    for (const StridedMap::Axis& axis : map.axes) {
      key.insert(key.end(), {axis.extent, axis.stride});
    }
  }
  view.window = windows_.try_emplace(std::move(key), id).first->second;
}

// The result of an op that updates one of its inputs.
void GraphBuilder::store_in_input(const WrittenOp& written, OpId id, std::size_t input) {
  const Op& op = graph_.ops[id];
  const TensorId home = op.operands[input].tensor;
  if (written.inplace.empty()) {
    store_in({Part::kOutput, op.position, 0}, op.outputs[0], home, id);
  } else if (graph_.tensors[op.outputs[0]].storage != graph_.storage_of(home)) {
    fail({Part::kInplace, op.position, 0},
         fmt::format("{} updates {} in place; remove \"inplace\"", in_quotes(op.name),
                     in_quotes(graph_.tensors[home].name)));
  }
}

void GraphBuilder::apply_inplace(const WrittenOp& written, const Op& op) {
  const auto id = static_cast<OpId>(graph_.ops.size() - 1);
  for (std::size_t item = 0; item < written.inplace.size(); ++item) {
    const std::string& output = written.inplace[item].first;
    const std::string& home = written.inplace[item].second;
    const WrittenPlace place{Part::kInplace, op.position, item};
    const auto found = std::ranges::find(written.outputs, output);
    if (found == written.outputs.end()) {
      fail(place, not_of_op(output, "output", {written.outputs.begin(), written.outputs.end()}));
    }
    const auto input = std::ranges::find_if(op.operands, [&](const Operand& operand) {
      return operand.tensor != kNone && graph_.tensors[operand.tensor].name == home;
    });
    if (input == op.operands.end()) fail(place, not_of_op(home, "input", input_names(op)));
    store_in(place, op.outputs[static_cast<std::size_t>(found - written.outputs.begin())],
             input->tensor, id);
  }
}

// What is not overwritten keeps its bits and its place.
void GraphBuilder::check_patch(const WrittenPlace& place, const Tensor& tensor,
                               TensorId home) const {
  const std::string& name = graph_.tensors[home].name;
  if (tensor.type.dtype != graph_.tensors[home].type.dtype) {
    fail(place, fmt::format("{} overwrites a part of {} in place, so its dtype must be {}, not {}",
                            in_quotes(tensor.name), in_quotes(name),
                            name_of(graph_.tensors[home].type.dtype), name_of(tensor.type.dtype)));
  }
  if (graph_.tensors[home].window == graph_.tensors[home].value) return;
  fail(place, fmt::format("{} overwrites a part of {} in place, which is a view in another order "
                          "than memory; copy it first",
                          in_quotes(tensor.name), in_quotes(name)));
}

// A result takes the place of a whole tensor.
void GraphBuilder::check_home(const WrittenPlace& place, const Tensor& tensor,
                              TensorId home) const {
  const Tensor& view = graph_.tensors[home];
  const Tensor& value = graph_.tensors[view.value];
  if (view.shown < value.elements) {
    fail(place, fmt::format("{} cannot be stored in {}, which shows {} of the {} elements of {}; "
                            "update {} itself, for example with scatter_update",
                            in_quotes(tensor.name), in_quotes(view.name), view.shown,
                            value.elements, in_quotes(value.name), in_quotes(value.name)));
  }
  if (view.elements > value.elements) {
    fail(place,
         fmt::format("{} cannot be stored in {}, which repeats elements of {}; copy it first",
                     in_quotes(tensor.name), in_quotes(view.name), in_quotes(value.name)));
  }
  if (tensor.bytes != value.bytes) {
    fail(place,
         fmt::format("{} has {} bytes and cannot be stored in the {} bytes of {}",
                     in_quotes(tensor.name), tensor.bytes, value.bytes, in_quotes(view.name)));
  }
}

void GraphBuilder::store_in(const WrittenPlace& place, TensorId output, TensorId home,
                            OpId writer) {
  Tensor& tensor = graph_.tensors[output];
  const TensorId value = graph_.tensors[home].value;
  check_home(place, tensor, home);
  if (const OpId other = graph_.tensors[value].overwritten_by; other != kNone) {
    fail(place, fmt::format("{} is already overwritten by {}", in_quotes(graph_.tensors[home].name),
                            in_quotes(graph_.ops[other].name)));
  }
  graph_.tensors[value].overwritten_by = writer;
  tensor.storage = graph_.tensors[value].storage;
  const Op& op = graph_.ops[writer];
  const auto i = std::ranges::find(op.outputs, output) - op.outputs.begin();
  if (op.writes[static_cast<std::size_t>(i)].least == tensor.elements) return;
  check_patch(place, tensor, home);
  graph_.tensors[value].patched_by = writer;
}

}  // namespace fusecalc
