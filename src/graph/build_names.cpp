// Names in the document (dims, tensors, ops), and the order in which ops can run.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/checked.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/builder.hpp"
#include "graph/dim_expression.hpp"
#include "graph/foreign_names.hpp"

namespace fusecalc {
namespace {

std::vector<std::string_view> dim_names(const WrittenGraph& written) {
  std::vector<std::string_view> names;
  for (const auto& [name, extent] : written.dims) names.push_back(name);
  return names;
}

// Whether this can be a name: a letter, then letters, digits, points and underscores.
bool is_name(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (c & '\x80') != 0;
  };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && letter(text[0]) && std::ranges::all_of(text, inner);
}

std::string unknown_dim(const WrittenGraph& written, const std::string& name) {
  std::string hint = did_you_mean(name, dim_names(written));
  if (hint.empty()) hint = "; add it to the dims";
  const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  if (number) hint = "; write numbers without quotes";
  if (!number && !is_name(name)) {
    return in_quotes(name) +
           " is not an expression of dims: it may have names, whole numbers, + - * / and "
           "parentheses";
  }
  return fmt::format("unknown dim {}{}", in_quotes(name), hint);
}

// The values of dims that are expressions of other dims, in whatever order they are written.
class DimResolver {
 public:
  using Fail = std::function<void(std::size_t position, const std::string& message)>;

  // `values` holds the dims that are numbers; it gets the others.
  DimResolver(const WrittenGraph& written,
              std::unordered_map<std::string_view, std::uint64_t>& values, Fail fail)
      : written_(written), values_(values), fail_(std::move(fail)) {
    for (std::size_t i = 0; i < written.dims.size(); ++i)
      positions_.emplace(written.dims[i].first, i);
  }

  std::uint64_t resolve(std::size_t position) {
    const auto& [name, extent] = written_.dims[position];
    if (const auto known = values_.find(name); known != values_.end()) return known->second;
    constexpr std::size_t kDeepest = 32;  // of the stack, much less than it has
    if (!open_.insert(position).second) fail_(position, "it depends on itself");
    if (open_.size() > kDeepest) {
      fail_(position, fmt::format("more than {} dims depend on each other", kDeepest));
    }
    const auto& expression = std::get<std::string>(extent);
    const std::int64_t value = evaluate(position, expression);
    if (value < 0) fail_(position, fmt::format("{} is {}", in_quotes(expression), value));
    open_.erase(position);
    return values_.emplace(name, static_cast<std::uint64_t>(value)).first->second;
  }

 private:
  std::int64_t evaluate(std::size_t position, const std::string& expression) {
    if (!is_dim_expression(expression)) return value_of(position, expression);
    return evaluate_dims(expression,
                         {.dim = [&](const std::string& part) { return value_of(position, part); },
                          .fail = [&](const std::string& message) { fail_(position, message); }});
  }

  std::int64_t value_of(std::size_t user, const std::string& name) {
    const auto found = positions_.find(name);
    if (found == positions_.end()) fail_(user, unknown_dim(written_, name));
    return static_cast<std::int64_t>(resolve(found->second));
  }

  const WrittenGraph& written_;
  std::unordered_map<std::string_view, std::uint64_t>& values_;
  Fail fail_;
  std::unordered_map<std::string_view, std::size_t> positions_;
  std::unordered_set<std::size_t> open_;
};

}  // namespace

void GraphBuilder::resolve_dims(const std::vector<DimOverride>& overrides) {
  for (const auto& [name, extent] : written_.dims) {
    if (const auto* number = std::get_if<std::int64_t>(&extent)) {
      dims_.emplace(name, static_cast<std::uint64_t>(*number));
    }
  }
  for (const DimOverride& override : overrides) override_dim(override);
  DimResolver resolver(written_, dims_, [&](std::size_t position, const std::string& message) {
    fail({Part::kDim, position}, message);
  });
  for (std::size_t i = 0; i < written_.dims.size(); ++i) {
    graph_.dims.emplace_back(written_.dims[i].first, resolver.resolve(i));
  }
}

void GraphBuilder::override_dim(const DimOverride& override) {
  const std::vector<std::string_view> names = dim_names(written_);
  const auto found = std::ranges::find(names, override.name);
  if (found == names.end()) {
    std::string hint = did_you_mean(override.name, names);
    if (hint.empty() && names.empty()) hint = " (there are no dims)";
    if (hint.empty()) hint = " (known: " + listed(names) + ")";
    fail({Part::kGraph}, fmt::format("--dim: unknown dim {}{}", in_quotes(override.name), hint));
  }
  dims_[*found] = override.extent;
}

std::int64_t GraphBuilder::dim(const WrittenPlace& place, const std::string& name) const {
  const auto found = dims_.find(name);
  if (found != dims_.end()) return static_cast<std::int64_t>(found->second);
  if (is_dim_expression(name)) {
    return evaluate_dims(name, {.dim = [&](const std::string& part) { return dim(place, part); },
                                .fail = [&](const std::string& message) { fail(place, message); }});
  }
  fail(place, unknown_dim(written_, name));
}

void GraphBuilder::set_type(TensorId id, TensorType type, const WrittenPlace& place) {
  Tensor& tensor = graph_.tensors[id];
  const std::optional<std::uint64_t> elements = checked_elements(type.shape);
  const std::optional<std::uint64_t> bytes =
      elements ? checked_bytes_of(type.dtype, *elements) : std::nullopt;
  if (!bytes) {
    fail(place, fmt::format("{} of shape {} is more than {} bytes", in_quotes(tensor.name),
                            to_string(type.shape), kMaxCount));
  }
  tensor.elements = tensor.shown = *elements;
  tensor.bytes = *bytes;
  tensor.type = std::move(type);
}

void GraphBuilder::declare_tensors() {
  // Most ops write one tensor: growing step by step would move all of them several times.
  const std::size_t tensors = written_.tensors.size() + written_.ops.size();
  tensor_ids_.reserve(tensors);
  graph_.tensors.reserve(tensors);
  graph_.ops.reserve(written_.ops.size());
  for (const WrittenTensor& written : written_.tensors) {
    const auto id = static_cast<TensorId>(graph_.tensors.size());
    tensor_ids_.emplace(written.name, id);
    declared_.push_back(&written);
    writer_.push_back(kNone);
    Tensor& tensor = graph_.tensors.emplace_back();
    tensor.name = written.name;
    tensor.value = tensor.storage = tensor.window = id;
    TensorType type{.shape = {}, .dtype = default_dtype_};
    if (written.dtype) type.dtype = dtype_at({Part::kTensorDtype, id}, *written.dtype);
    if (!written.shape) continue;
    for (std::size_t i = 0; i < written.shape->size(); ++i) {
      const WrittenPlace place{Part::kExtent, id, i};
      const WrittenDim& extent = (*written.shape)[i];
      const auto* name = std::get_if<std::string>(&extent);
      const std::int64_t value =
          name != nullptr ? dim(place, *name) : std::get<std::int64_t>(extent);
      if (value < 0) fail(place, fmt::format("must not be negative, but is {}", value));
      type.shape.push_back(static_cast<std::uint64_t>(value));
    }
    set_type(id, std::move(type), {Part::kShape, id});
  }
}

// Records every op's name and outputs first, so that the document may list ops in any order.
void GraphBuilder::declare_ops() {
  op_positions_.reserve(written_.ops.size());
  first_output_.push_back(0);
  for (std::size_t position = 0; position < written_.ops.size(); ++position) {
    const WrittenOp& written = written_.ops[position];
    if (op_named(written.op) == nullptr) {
      fail({Part::kOpKind, position},
           fmt::format("unknown op {}{}; run fusecalc ops for a list", in_quotes(written.op),
                       did_you_mean(NameKind::kOp, written.op, op_names())));
    }
    if (written.name) {
      const auto [first, inserted] =
          op_positions_.emplace(*written.name, static_cast<std::uint32_t>(position));
      if (!inserted) {
        fail({Part::kOpName, position},
             fmt::format("{} is already the name of {}", in_quotes(*written.name),
                         named({Part::kOp, first->second})));
      }
    }
    for (std::size_t i = 0; i < written.outputs.size(); ++i) {
      const std::string& name = written.outputs[i];
      const auto next = static_cast<TensorId>(graph_.tensors.size());
      const auto [entry, inserted] = tensor_ids_.emplace(name, next);
      if (inserted) {
        Tensor& tensor = graph_.tensors.emplace_back();
        tensor.name = name;
        tensor.value = tensor.storage = tensor.window = next;
        declared_.push_back(nullptr);
        writer_.push_back(kNone);
      }
      std::uint32_t& writer = writer_[entry->second];
      if (writer != kNone) {
        fail({Part::kOutput, position, i},
             fmt::format("tensor {} is written twice, first by {}", in_quotes(name),
                         named({Part::kOp, writer})));
      }
      writer = static_cast<std::uint32_t>(position);
      output_ids_.push_back(entry->second);
    }
    first_output_.push_back(output_ids_.size());
  }
  refuse_taken_defaults();
  op_at_position_.assign(written_.ops.size(), kNone);
}

// A name must not equal the default name of an unnamed op.
void GraphBuilder::refuse_taken_defaults() const {
  for (std::size_t position = 0; position < written_.ops.size(); ++position) {
    if (written_.ops[position].name) continue;
    const auto taken = op_positions_.find(fmt::format("op#{}", position));
    if (taken == op_positions_.end()) continue;
    fail({Part::kOpName, taken->second},
         fmt::format("{} is already the default name of {}", in_quotes(taken->first),
                     named({Part::kOp, position})));
  }
}

TensorId GraphBuilder::input_at(std::size_t position, std::size_t i,
                                const std::string& name) const {
  const auto found = tensor_ids_.find(name);
  if (found == tensor_ids_.end()) {
    std::string message = unknown("tensor", name, tensor_ids_);
    if (!message.ends_with("?)")) message += "; graph inputs must be declared";
    fail({Part::kInput, position, i}, message);
  }
  return found->second;
}

void GraphBuilder::resolve_inputs() {
  first_input_.push_back(0);
  for (std::size_t position = 0; position < written_.ops.size(); ++position) {
    const auto& inputs = written_.ops[position].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto* name = std::get_if<std::string>(&inputs[i]);
      input_ids_.push_back(name == nullptr ? kNone : input_at(position, i, *name));
    }
    first_input_.push_back(input_ids_.size());
  }
}

// Positions in topological order; among ops that are ready, the earliest in the document first.
std::vector<std::uint32_t> GraphBuilder::run_order() const {
  const std::size_t count = written_.ops.size();
  std::vector<IdLists::Pair> reads;
  for (std::uint32_t position = 0; position < count; ++position) {
    for (const TensorId input : inputs_of(position)) {
      if (input != kNone && writer_[input] != kNone) reads.emplace_back(writer_[input], position);
    }
  }
  const IdLists users(count, reads);
  std::vector<std::uint32_t> missing(count, 0);
  for (std::uint32_t position = 0; position < count; ++position) {
    for (const std::uint32_t user : users[position]) ++missing[user];
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t position = 0; position < count; ++position) {
    if (missing[position] == 0) ready.push(position);
  }
  std::vector<std::uint32_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t position = ready.top();
    ready.pop();
    order.push_back(position);
    for (const std::uint32_t user : users[position]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  if (order.size() != count) fail_cycle(missing);
  return order;
}

void GraphBuilder::fail_cycle(const std::vector<std::uint32_t>& waiting) const {
  // Every op left over has an input whose writer is left over too, so walking back finds a cycle.
  auto position = static_cast<std::uint32_t>(
      std::ranges::find_if(waiting, [](std::uint32_t n) { return n > 0; }) - waiting.begin());
  std::vector<std::uint32_t> path;
  while (std::ranges::find(path, position) == path.end()) {
    path.push_back(position);
    for (const TensorId input : inputs_of(position)) {
      const std::uint32_t writer = input == kNone ? kNone : writer_[input];
      if (writer != kNone && waiting[writer] > 0) {
        position = writer;
        break;
      }
    }
  }
  path.erase(path.begin(), std::ranges::find(path, position));
  std::ranges::reverse(path);
  const auto first = std::ranges::min_element(path);
  std::rotate(path.begin(), first, path.end());
  const std::string& made = written_.ops[path[0]].outputs[0];
  if (path.size() == 1) {
    fail({Part::kOp, path[0]},
         fmt::format("reads {0}, which it writes itself; give the output a name of its own, and "
                     "\"inplace\": {{\"NAME\": {0}}} if it lives in the same memory",
                     in_quotes(made)));
  }
  std::string text;
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i == kShown && path.size() > kShown + 1) {
      text += fmt::format("{} more -> ", path.size() - i);
      break;
    }
    text += written_.ops[path[i]].outputs[0] + " -> ";
  }
  fail({Part::kOp, path[0]}, "the operations form a cycle: " + printable(text) + printable(made));
}

}  // namespace fusecalc
