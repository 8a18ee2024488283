// Memory that in-place ops overwrite, and the views of it.

#include <algorithm>
#include <functional>

#include "core/checked.hpp"
#include "core/text.hpp"
#include "input/pt2/aten.hpp"
#include "input/pt2/importer.hpp"

namespace fusecalc {

// The current value of a name. A view of memory that was overwritten is applied again first.
ValueId Pt2Importer::lookup(std::size_t frame, const ProgramNode* node, const std::string& name) {
  const auto found = frames_[frame].names.find(name);
  if (found == frames_[frame].names.end()) {
    fail(node, "reads " + in_quotes(name) + ", which nothing before it writes");
  }
  const ValueId id = found->second;
  const Binding& binding = bindings_[id];
  const Storage& storage = storages_[binding.storage];
  if (storage.base == id || binding.version == storage.version) return id;
  constexpr std::uint32_t kDeepest = 1000;
  constexpr std::uint64_t kMost = 1'000'000;
  if (++rereading_ > kDeepest || ++reread_ > kMost) {
    fail(node, "too many views of memory that is overwritten");
  }
  const std::size_t made_in = binding.frame;
  const std::string_view made_as = binding.name;
  call(made_in, *binding.node);
  --rereading_;
  const ValueId fresh = frames_[made_in].names.at(made_as);
  frames_[frame].names.insert_or_assign(found->first, fresh);
  return fresh;
}

// Of the names of its graph; a node that stands for one of a list has no place among others.
bool Pt2Importer::is_last_reader(std::size_t frame, const ProgramNode& node,
                                 std::uint32_t storage) const {
  const Frame& own = frames_[frame];
  const std::vector<ProgramNode>& nodes = own.graph->nodes;
  const std::less<> before;
  if (before(&node, nodes.data()) || !before(&node, nodes.data() + nodes.size())) return false;
  const auto place = static_cast<std::size_t>(&node - nodes.data());
  return std::ranges::none_of(own.names, [&](const auto& name) {
    if (bindings_[name.second].storage != storage) return false;
    const auto last = own.last_read.find(name.first);
    return last != own.last_read.end() && last->second > place;
  });
}

// What memory holds now that a range of an axis of it was overwritten: parts that are joined where
// every part is written before it is read, or else a few elements more in place. Nothing where the
// target shows its memory in another way.
std::optional<ModelGraph::TensorId> Pt2Importer::with_range(ValueId target,
                                                            ModelGraph::TensorId result) {
  const Binding& view = bindings_[target];
  const ValueId whole = storages_[view.storage].base;
  if (target == whole || view.node == nullptr) return std::nullopt;
  const ProgramValue value = bindings_[whole].value;
  const std::string_view op = op_of(view.node->target);
  if (op != "slice" && op != "narrow" && op != "select") return std::nullopt;
  const AtenCall call(*this, view.frame, *view.node);
  const ProgramArgument* self = call.argument("self");
  const auto known = frames_[view.frame].names.find(self->tensors[0]);
  if (known == frames_[view.frame].names.end() || known->second != whole) return std::nullopt;
  const auto range = call.range(value.type);
  if (!range) return std::nullopt;
  const bool fresh = value.number || (value.tensor != ProgramValue::kNoTensor &&
                                      graph_.written_by(value.tensor, "concat"));
  if (fresh) return range->step == 1 ? overwritten(graph_, value, result, *range) : std::nullopt;
  const ModelGraph::TensorId old = tensor(whole);
  if (is_shared(old) || graph_.is_view(old)) return std::nullopt;
  return updated(graph_, old, result, *range);
}

// An in-place op has written `result` to the memory that `target` shows.
void Pt2Importer::write_back(ValueId target, ModelGraph::TensorId result) {
  Binding& written = bindings_[target];
  if (*checked_elements(written.value.type.shape()) == 0) return;
  Storage& storage = storages_[written.storage];
  ++storage.version;
  if (const auto now = with_range(target, result)) {
    Binding& base = bindings_[storage.base];
    base.value.tensor = *now;
    base.value.number.reset();
    base.version = storage.version;
  } else if (target != storage.base) {
    Binding& base = bindings_[storage.base];
    const ModelGraph::TensorId old = tensor(storage.base);
    const std::uint64_t elements = *checked_elements(written.value.type.shape());
    ModelGraph::Custom patch{.op_class = OpClass::kMovement};
    if (!is_shared(old)) {
      patch.overwrites = elements;
      patch.reads.emplace_back(old, 0);
    }
    base.value.tensor = graph_.custom({old, result}, std::span(&base.value.type, 1), patch)[0];
    base.value.base = ProgramValue::kNoTensor;
    base.value.pairs = ProgramValue::kNoTensor;
    base.value.number.reset();
    base.version = storage.version;
  }
  written.value.tensor = result;
  written.value.base = ProgramValue::kNoTensor;
  written.value.pairs = ProgramValue::kNoTensor;
  written.value.number.reset();
  written.version = storage.version;
}

}  // namespace fusecalc
