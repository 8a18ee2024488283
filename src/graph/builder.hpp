#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/attribute_reader.hpp"
#include "graph/canonical_order.hpp"
#include "graph/links.hpp"
#include "graph/op_graph.hpp"
#include "graph/written_graph.hpp"

namespace fusecalc {

using NameIndex = std::unordered_map<std::string_view, std::uint32_t>;

// Builds a valid OpGraph from a WrittenGraph, in the order of build(). build_names.cpp resolves the
// names, build_ops.cpp builds each op, build_memory.cpp decides which tensors share memory, and
// build.cpp handles the graph as a whole.
class GraphBuilder {
 public:
  GraphBuilder(const WrittenGraph& written, const std::vector<DimOverride>& overrides)
      : written_(written) {
    graph_.document = written.document;
    graph_.name = written.name;
    assert(written.name_of_place);
    resolve_dims(overrides);
  }

  OpGraph build() {
    if (written_.dtype) default_dtype_ = dtype_at({Part::kDtype}, *written_.dtype);
    declare_tensors();
    declare_ops();
    resolve_inputs();
    for (const std::uint32_t position : run_order()) build_op(position);
    refuse_stray_pins();
    link_ops(graph_);
    sort_ops();
    mark_outputs();
    resolve_fuse();
    graph_.outline = Outline(graph_);
    graph_.rank = canonical_ranks(graph_);
    return std::move(graph_);
  }

 private:
  using Part = WrittenPlace::Part;

  std::string named(const WrittenPlace& place) const {
    return written_.name_of_place(written_, place);
  }
  [[noreturn]] void fail(const WrittenPlace& place, const std::string& message) const {
    const std::string name = printable(named(place));
    throw Error(Fault::kBadInput, fmt::format("{}: {}{}{}", written_.document, name,
                                              name.empty() ? "" : ": ", message));
  }
  // The place of an attribute that the op does not state is the op itself.
  WrittenPlace place_of(const RefusedPart& part, std::size_t position) const;

  // "unknown WHAT "x" (did you mean "y"?)".
  static std::string unknown(std::string_view what, std::string_view name, const NameIndex& known) {
    std::vector<std::string_view> names;
    for (const auto& [key, id] : known) names.push_back(key);
    std::ranges::sort(names);
    return fmt::format("unknown {} {}{}", what, in_quotes(name), did_you_mean(name, names));
  }

  DType dtype_at(const WrittenPlace& place, const std::string& name) const {
    const std::optional<DType> dtype = dtype_named(name);
    if (!dtype) fail(place, unknown_dtype(name));
    return *dtype;
  }

  void resolve_dims(const std::vector<DimOverride>& overrides);
  void override_dim(const DimOverride& override);
  std::int64_t dim(const WrittenPlace& place, const std::string& name) const;
  void declare_tensors();
  void declare_ops();
  void refuse_taken_defaults() const;
  void resolve_inputs();
  std::span<const TensorId> inputs_of(std::size_t position) const {
    return {input_ids_.data() + first_input_[position],
            first_input_[position + 1] - first_input_[position]};
  }
  std::span<const TensorId> outputs_of(std::size_t position) const {
    return {output_ids_.data() + first_output_[position],
            first_output_[position + 1] - first_output_[position]};
  }
  std::vector<std::uint32_t> run_order() const;
  [[noreturn]] void fail_cycle(const std::vector<std::uint32_t>& waiting) const;
  TensorId input_at(std::size_t position, std::size_t i, const std::string& name) const;
  void check_arity(const WrittenOp& written, const Op& op) const;
  void build_op(std::uint32_t position);
  void build_custom(const WrittenOp& written, Op& op);
  void infer(const WrittenOp& written, Op& op, Inference& inference);
  Attributes read_attributes(const WrittenOp& written, const Op& op) const;
  void add_output(Op& op, std::size_t i, TensorType type);
  void bound_by_type(Op& op) const;
  void add_views(const WrittenOp& written, const Op& op, const Inference& inference);
  void find_window(TensorId id);
  static std::string not_of_op(const std::string& name, std::string_view what,
                               const std::vector<std::string_view>& own);
  std::vector<std::string_view> input_names(const Op& op) const;
  void apply_partial(const WrittenOp& written, Op& op) const;
  void drop_empty_parts(Op& op) const;
  void place_results(const WrittenOp& written, OpId id, std::optional<std::size_t> input);
  void apply_inplace(const WrittenOp& written, const Op& op);
  void store_in(const WrittenPlace& place, TensorId output, TensorId storage, OpId writer);
  void store_in_input(const WrittenOp& written, OpId id, std::size_t input);
  void check_home(const WrittenPlace& place, const Tensor& tensor, TensorId home) const;
  void check_patch(const WrittenPlace& place, const Tensor& tensor, TensorId home) const;
  void count_flops(const Op& op, std::uint64_t& flops) const;
  void refuse_stray_pins() const;
  std::vector<OpId> sorted_ids() const;
  void sort_ops();
  // Fails at `place`, or at the op that overwrites the tensor if the document names no outputs.
  void mark_output(TensorId id, const std::optional<WrittenPlace>& place);
  void mark_outputs();
  void resolve_fuse();
  void set_type(TensorId id, TensorType type, const WrittenPlace& place);

  const WrittenGraph& written_;
  OpGraph graph_;
  DType default_dtype_ = DType::kF32;
  std::unordered_map<std::string_view, std::uint64_t> dims_;
  NameIndex tensor_ids_;
  NameIndex op_positions_;
  // Per tensor: the position of the op that writes it, and what the document declares of it.
  std::vector<std::uint32_t> writer_;
  std::vector<const WrittenTensor*> declared_;
  // The input tensors of all ops (kNone for an inline number), and where each op's inputs begin.
  std::vector<TensorId> input_ids_;
  std::vector<std::size_t> first_input_;
  // The same of outputs.
  std::vector<TensorId> output_ids_;
  std::vector<std::size_t> first_output_;
  // Of all ops that state none.
  std::shared_ptr<const Attributes> no_attributes_ = std::make_shared<const Attributes>();
  // The first tensor of each window: its value, its size and its maps.
  std::map<std::vector<std::uint64_t>, TensorId> windows_;
  std::vector<OpId> op_at_position_;
  std::uint64_t flops_ = 0;  // of the ops built so far
};

}  // namespace fusecalc
