// Ops of lists of tensors, as optimisers have them.

#include <algorithm>
#include <array>

#include "input/pt2/aten.hpp"
#include "input/pt2/importer.hpp"

namespace fusecalc {
namespace {

using Kind = ProgramArgument::Kind;

// What an argument of _foreach_X is called in the schema of X; of any X where that is not stated.
struct ListArgument {
  std::string_view of;
  std::string_view name;
  std::string_view single;
};
constexpr std::array kListArguments = {
    ListArgument{"addcmul", "scalars", "value"}, ListArgument{"addcdiv", "scalars", "value"},
    ListArgument{"clamp_min", "scalar", "min"},  ListArgument{"clamp_min", "scalars", "min"},
    ListArgument{"clamp_min", "other", "min"},   ListArgument{"clamp_max", "scalar", "max"},
    ListArgument{"clamp_max", "scalars", "max"}, ListArgument{"clamp_max", "other", "max"},
    ListArgument{"lerp", "tensors1", "end"},     ListArgument{"lerp", "weights", "weight"},
    ListArgument{"", "scalar", "other"},         ListArgument{"", "scalars", "other"},
};

std::string_view single_name(std::string_view op, std::string_view name) {
  const auto* row = std::ranges::find_if(kListArguments, [&](const ListArgument& each) {
    return each.name == name && (each.of.empty() || each.of == op);
  });
  return row == kListArguments.end() ? name : row->single;
}

// Arguments whose tensors an op overwrites that has no results.
constexpr std::array<std::string_view, 5> kOverwrittenLists = {
    "self", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "momentum_buffer_list",
};

std::size_t members_of(const ProgramArgument& argument) {
  switch (argument.kind) {
    case Kind::kTensors: return argument.tensors.size();
    case Kind::kInts: return argument.ints.size();
    case Kind::kFloats: return argument.floats.size();
    default: return 1;
  }
}

// The argument of the call for tensor i: an element of a list, or what all calls have.
ProgramArgument single_argument(const ProgramArgument& from, std::size_t i, std::string_view op) {
  ProgramArgument argument;
  argument.name = single_name(op, from.name);
  argument.kind = from.kind;
  const std::size_t place = from.list ? i : 0;
  if (from.kind == Kind::kTensors) argument.tensors.push_back(from.tensors[place]);
  if (from.kind == Kind::kInts) argument.ints.push_back(from.ints[place]);
  if (from.kind == Kind::kFloats) argument.floats.push_back(from.floats[place]);
  argument.truth = from.truth;
  argument.text = from.text;
  return argument;
}

// _foreach_X as calls of X, one for each tensor; none where its lists do not fit together.
std::vector<ProgramNode> single_calls(const ProgramNode& node) {
  constexpr std::string_view kForEach = "_foreach_";
  std::string_view op = op_of(node.target);
  if (!op.starts_with(kForEach)) return {};
  op.remove_prefix(kForEach.size());
  const bool in_place = is_in_place(op);
  const std::string_view name = in_place ? op.substr(0, op.size() - 1) : op;
  std::size_t count = 0;
  for (const ProgramArgument& argument : node.inputs) {
    if (argument.list && argument.kind == Kind::kTensors) count = argument.tensors.size();
  }
  const auto fits = [&](const ProgramArgument& argument) {
    // One tensor that holds the factors of all calls is no argument of any.
    const bool factors = argument.kind == Kind::kTensors && argument.name == "scalars";
    return !factors && members_of(argument) == (argument.list ? count : 1);
  };
  if (count == 0 || !std::ranges::all_of(node.inputs, fits)) return {};
  std::vector<std::string> results;
  for (const ProgramArgument& argument : in_place ? node.inputs : node.outputs) {
    const bool written = !in_place || argument.name == "self";
    if (written) results.insert(results.end(), argument.tensors.begin(), argument.tensors.end());
  }
  if (results.size() != count) return {};
  std::vector<ProgramNode> calls;
  for (std::size_t i = 0; i < count; ++i) {
    if (results[i].empty()) continue;
    ProgramNode call;
    call.target = "torch.ops.aten." + std::string(name == "norm" ? "linalg_vector_norm" : op);
    call.modules = node.modules;
    for (const ProgramArgument& argument : node.inputs) {
      call.inputs.push_back(single_argument(argument, i, name));
    }
    ProgramArgument& result = call.outputs.emplace_back();
    result.kind = Kind::kTensors;
    result.tensors = {results[i]};
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace

bool Pt2Importer::read_lists(std::size_t frame, const ProgramNode& node) {
  std::vector<ProgramNode> calls = single_calls(node);
  for (ProgramNode& single : calls) call(frame, single_nodes_.emplace_back(std::move(single)));
  if (!calls.empty()) return true;
  if (!is_in_place(op_of(node.target)) || !node.outputs.empty()) return false;
  const AtenCall whole(*this, frame, node);
  std::vector<ModelGraph::TensorId> inputs;
  for (const ValueId id : whole.all_values()) inputs.push_back(tensor(id));
  std::vector<ValueId> targets;
  std::vector<ModelType> types;
  for (const std::string_view name : kOverwrittenLists) {
    for (const ValueId id : whole.values(name)) {
      targets.push_back(id);
      types.push_back(bindings_[id].value.type);
    }
  }
  if (targets.empty()) return false;
  const auto results = graph_.custom(inputs, types, {.op_class = OpClass::kPointwise});
  for (std::size_t i = 0; i < targets.size(); ++i) write_back(targets[i], results[i]);
  return true;
}

}  // namespace fusecalc
