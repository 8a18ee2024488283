// What is left of the ops of a model once it is known what reads them.

#include <algorithm>
#include <numeric>

#include "input/model_graph.hpp"

namespace fusecalc {

// The ops that an output needs. Ops are in order: what an op reads is written before it.
std::vector<bool> ModelGraph::needed_ops() const {
  std::vector<bool> needed(ops_.size(), false);
  const auto need = [&](TensorId tensor) {
    if (!is_input(tensor)) needed[tensors_[tensor].producer] = true;
  };
  for (const TensorId tensor : outputs_) need(tensor);
  for (std::size_t i = ops_.size(); i > 0; --i) {
    if (!needed[i - 1]) continue;
    for (const Input& input : ops_[i - 1].inputs) {
      if (const auto* tensor = std::get_if<TensorId>(&input)) need(*tensor);
    }
  }
  return needed;
}

// Every tensor is read as by[tensor].
void ModelGraph::replace(const std::vector<TensorId>& by) {
  for (Op& op : ops_) {
    for (Input& input : op.inputs) {
      if (auto* tensor = std::get_if<TensorId>(&input)) *tensor = by[*tensor];
    }
    for (auto& [tensor, elements] : op.custom.reads) tensor = by[tensor];
  }
  for (TensorId& output : outputs_) output = by[output];
}

// Takes every alternative at first, then leaves out those that something else needs the inside of:
// what they would save is computed all the same.
void ModelGraph::choose_alternatives() {
  constexpr int kMostRounds = 4;
  if (alternatives_.empty()) return;
  const std::vector<bool> before = needed_ops();
  const std::vector<Op> ops = ops_;
  const std::vector<TensorId> outputs = outputs_;
  std::vector<TensorId> by(tensors_.size());
  std::vector<bool> needed;
  for (int round = 0;; ++round) {
    std::iota(by.begin(), by.end(), 0);
    for (const Alternative& each : alternatives_) by[each.written] = each.same;
    ops_ = ops;
    outputs_ = outputs;
    replace(by);
    needed = needed_ops();
    const std::size_t left_out = std::erase_if(alternatives_, [&](const Alternative& each) {
      return round == kMostRounds || std::ranges::any_of(each.inner, [&](TensorId inner) {
               return needed[tensors_[inner].producer];
             });
    });
    if (left_out == 0) break;
  }
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const bool joined = before[i] && !needed[i] && ops_[i].row->op_class != OpClass::kView;
    if (joined) nodes_[ops_[i].node].joined = true;
  }
}

// A cast back to the type that a cast came from is what that cast read. Views between the two show
// it instead, where nothing else reads them.
void ModelGraph::join_casts() {
  std::vector<std::size_t> readers(tensors_.size(), 0);
  const std::vector<bool> needed = needed_ops();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (!needed[i]) continue;
    for (const Input& input : ops_[i].inputs) {
      if (const auto* tensor = std::get_if<TensorId>(&input)) ++readers[*tensor];
    }
  }
  for (const TensorId output : outputs_) ++readers[output];
  std::vector<TensorId> by(tensors_.size());
  std::iota(by.begin(), by.end(), 0);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (!needed[i] || ops_[i].row->family != OpFamily::kCast) continue;
    const TensorId back = ops_[i].outputs[0];
    const DType dtype = tensors_[back].type.dtype();
    const TensorId read = std::get<TensorId>(ops_[i].inputs[0]);
    std::vector<TensorId> views;
    TensorId wide = read;
    while (!is_input(wide) && ops_[tensors_[wide].producer].row->op_class == OpClass::kView &&
           readers[wide] == 1 && ops_[tensors_[wide].producer].outputs.size() == 1) {
      views.push_back(wide);
      wide = std::get<TensorId>(ops_[tensors_[wide].producer].inputs[0]);
    }
    if (is_input(wide) || ops_[tensors_[wide].producer].row->family != OpFamily::kCast) continue;
    const auto* from = std::get_if<TensorId>(&ops_[tensors_[wide].producer].inputs[0]);
    if (from == nullptr || tensors_[*from].type.dtype() != dtype ||
        !is_float(tensors_[wide].type.dtype()) || !is_float(dtype) ||
        bytes_of(tensors_[wide].type.dtype(), 8) <= bytes_of(dtype, 8)) {
      continue;
    }
    for (const TensorId view : views) tensors_[view].type.type.dtype = dtype;
    if (!views.empty()) ops_[tensors_[views.back()].producer].inputs[0] = *from;
    by[back] = views.empty() ? *from : views.front();
    --readers[read];
    ++readers[by[back]];
  }
  for (TensorId& each : by) {
    while (by[each] != each) each = by[each];
  }
  replace(by);
}

}  // namespace fusecalc
