#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "graph/inference.hpp"
#include "graph/written_graph.hpp"
#include "input/model.hpp"

namespace fusecalc {

// The type of a tensor of a model: its shape in numbers, and as written, with the names of dims.
struct ModelType {
  TensorType type;
  std::vector<WrittenDim> extents;

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
};

// A type without dims.
ModelType model_type(Shape shape, DType dtype);

// The elements of a tensor as an affine function of their coordinates: a constant, and so much more
// for each step along an axis.
struct Affine {
  std::vector<double> along;
  double constant = 0;

  bool is_constant() const;
};

// What is known of elements that a file states.
struct KnownElements {
  std::optional<Affine> numbers{};
  // They are true or 0 where this function is 0 or less, else false or minus infinity.
  std::optional<Affine> condition{};
};

// Builds the graph of a model: readers of model files add its tensors and ops, whose types the file
// states; finish() leaves out what no output needs, names everything and makes a WrittenGraph.
//
// An op is added only if its row's rule yields the types that the file states, so that a
// WrittenGraph made of a readable file can be built. Readers add a custom op where it is refused.
class ModelGraph {
 public:
  using TensorId = std::uint32_t;
  using NodeId = std::uint32_t;
  using Input = std::variant<double, TensorId>;

  // A node of the file. What is added after it belongs to it.
  struct Node {
    std::string target;  // what the file calls its operation
    std::string name;    // of its op and its first output
    std::string scope;
  };

  struct Custom {
    OpClass op_class = OpClass::kOpaque;
    std::uint64_t flops = 0;
    std::vector<std::pair<TensorId, std::uint64_t>> reads{};  // of inputs that it reads in part
    // Output 0 is input 0, of which this many elements are overwritten: in place, unless input 0 is
    // a view of a part of its memory.
    std::optional<std::uint64_t> overwrites{};
  };

  ModelGraph(std::string document, PlaceNamer name_of_place);

  // A dim that shapes and attributes may name.
  void dim(const std::string& name, std::uint64_t extent);
  // The expression of dims, if an op list has it and it has this value; or else the value.
  WrittenDim extent(const std::string& expression, std::int64_t value) const;

  TensorId input(std::string name, ModelType type, KnownElements known = {});
  const KnownElements& known(TensorId tensor) const { return tensors_[tensor].known; }
  const ModelType& type(TensorId tensor) const { return tensors_[tensor].type; }
  bool is_input(TensorId tensor) const { return tensors_[tensor].producer == kNobody; }
  bool is_view(TensorId tensor) const {
    return !is_input(tensor) && ops_[tensors_[tensor].producer].row->op_class == OpClass::kView;
  }
  // The elements of a tensor as those of another one: what a view shows, or a copy repeats.
  struct Shown {
    TensorId tensor = 0;
    StridedMap map;

    bool operator==(const Shown&) const = default;
  };
  std::optional<Shown> shown(TensorId tensor) const;
  // What a view shows, below all views; or the tensor itself.
  TensorId below_views(TensorId tensor) const;

  void begin_node(Node node) { nodes_.push_back({std::move(node)}); }
  // What the file calls a result of the latest node; an op is named after its first one. What
  // earlier nodes made, or has such a name, keeps that of its op.
  void name_result(TensorId tensor, std::string name);
  // The node is a constant or arithmetic of shapes. Without ops, a node counts as a view otherwise.
  void fold_node() { nodes_.back().folded = true; }

  // The outputs, or nothing if there is no such row or its rule does not yield `types`.
  std::optional<std::vector<TensorId>> op(std::string_view row, std::vector<Input> inputs,
                                          std::vector<WrittenAttribute> attributes,
                                          std::span<const ModelType> types);
  // The same for a file that does not state types: as the rule yields them.
  std::optional<std::vector<TensorId>> op(std::string_view row, std::vector<Input> inputs,
                                          std::vector<WrittenAttribute> attributes,
                                          std::size_t outputs);
  // The same for an op with one output.
  std::optional<TensorId> op(std::string_view row, std::vector<Input> inputs,
                             std::vector<WrittenAttribute> attributes, const ModelType& type);
  // What has no row: its inputs and outputs are moved once.
  std::vector<TensorId> custom(const std::vector<TensorId>& inputs,
                               std::span<const ModelType> types, const Custom& custom);

  void output(TensorId tensor) { outputs_.push_back(tensor); }

  // `same` holds what `written` does, and is read instead of it where all of `inner`, of which
  // `written` was computed, is then needed by nothing.
  struct Alternative {
    TensorId written = 0;
    TensorId same = 0;
    std::vector<TensorId> inner;
  };
  void instead(TensorId written, TensorId same, std::vector<TensorId> inner) {
    alternative_of_[written] = alternatives_.size();
    alternatives_.push_back({written, same, std::move(inner)});
  }
  // The latest that was given for a tensor; null if there is none.
  const Alternative* alternative(TensorId written) const {
    const auto found = alternative_of_.find(written);
    return found == alternative_of_.end() ? nullptr : &alternatives_[found->second];
  }

  // The op that wrote a tensor, where it is of this row: its inputs and attributes.
  struct Origin {
    std::vector<Input> inputs;
    std::vector<WrittenAttribute> attributes;
  };
  std::optional<Origin> written_by(TensorId tensor, std::string_view row) const;
  // The op that wrote a tensor that is no input, whatever its row.
  std::pair<const OpRow*, Origin> maker(TensorId tensor) const {
    const Op& op = ops_[tensors_[tensor].producer];
    return {op.row, {op.inputs, op.attributes}};
  }

  Model finish();

 private:
  static constexpr std::uint32_t kNobody = 0xffffffff;

  struct Tensor {
    ModelType type;
    std::string name;  // of an input; of others once finished
    std::uint32_t producer = kNobody;
    KnownElements known{};
    std::string given_name{};  // of a result in the file
    bool pinned_shape = false;
    bool pinned_dtype = false;
  };

  struct Op {
    const OpRow* row = nullptr;
    NodeId node = 0;
    std::vector<Input> inputs;
    std::vector<TensorId> outputs;
    std::vector<WrittenAttribute> attributes;
    Custom custom;
    std::vector<StridedMap> sources{};  // from each output to input 0, of views and movements
  };

  struct NodeState {
    Node node;
    bool folded = false;
    std::uint32_t ops = 0;
    std::uint32_t kept = 0;
    bool moves = false;  // some op that was kept is no view
    bool missing = false;
    bool joined = false;  // its op is computed by that of another node
  };

  std::int64_t dim_value(const std::string& name) const;
  TensorId new_tensor(ModelType type, std::uint32_t producer);
  struct Inferred {
    std::vector<TensorType> outputs;
    std::vector<StridedMap> sources;
  };
  std::optional<Inferred> infer(const OpRow& row, const std::vector<Input>& inputs,
                                const std::vector<WrittenAttribute>& attributes,
                                std::size_t outputs) const;
  void find_patterns(OpFamily family, TensorId last);
  bool is_whole(const Input& input) const;
  std::vector<bool> needed_ops() const;
  void choose_alternatives();
  void join_casts();
  void replace(const std::vector<TensorId>& by);
  void name_tensors(const std::vector<bool>& needed);
  std::string unused(const std::string& name);
  WrittenOp write(const Op& op, bool last);
  DType commonest_dtype() const;
  void write_tensors(const std::vector<bool>& needed);
  void write_outputs();
  void count(const std::vector<bool>& needed);

  Model model_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<NodeState> nodes_;
  std::vector<TensorId> outputs_;
  std::vector<Alternative> alternatives_;
  std::unordered_map<TensorId, std::size_t> alternative_of_;  // by what is written
  std::unordered_map<std::string, std::int64_t> dims_;
  std::unordered_map<std::string, std::uint32_t> names_;  // taken, with how often each was wanted
};

// The tensor in another shape; the shape that it had before counts, where it was reshaped.
std::optional<ModelGraph::TensorId> reshaped(ModelGraph& graph, ModelGraph::TensorId tensor,
                                             const ModelType& type);

}  // namespace fusecalc
