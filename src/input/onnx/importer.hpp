#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/causal_mask.hpp"
#include "input/model_graph.hpp"
#include "input/onnx/constants.hpp"
#include "input/onnx/model.hpp"

namespace fusecalc {

// What is known of one value of an ONNX graph.
struct OnnxKnown {
  TensorType type;
  std::optional<ModelGraph::TensorId> tensor{};  // not yet, for a constant that no op reads
  std::shared_ptr<const Constant> constant{};
  // The input or initializer of the file that this is, or that a folded view or cast of it shows.
  std::string source{};
  // The strides of a view that reorders elements; empty if contiguous.
  std::vector<std::int64_t> strides{};
  // A permuted view: of which value, and its axes.
  std::shared_ptr<const OnnxKnown> permuted{};
  std::vector<std::size_t> perm{};
  // Heads that Unsqueeze, Expand and Reshape repeat: what they are of. Between Expand and Reshape,
  // expanded_axis is the axis that repeats them.
  std::shared_ptr<const OnnxKnown> repeated{};
  std::optional<std::size_t> expanded_axis{};
  // Where elements were copied to merge axes: the view that was copied, and how many of its axes
  // each axis of this value merges.
  std::shared_ptr<const OnnxKnown> apart{};
  std::vector<std::size_t> merged{};
};

// Turns the nodes of an ONNX model into ops, one at a time and in their order. A rule per operator
// (rules.hpp) writes ops through this interface; what has no rule becomes a custom op.
class OnnxImporter {
 public:
  // An input of an op that is written: an inline number, or a value.
  using Operand = std::variant<double, const OnnxKnown*>;
  using Written = std::vector<WrittenAttribute>;

  OnnxImporter(const OnnxModel& model, const std::string& document,
               const std::vector<DimOverride>& dims);

  Model run();

  // A node in messages: its name and operator.
  static std::string place_of(const OnnxNode& node);

  // The rest is for rules.

  [[noreturn]] void fail(const OnnxNode& node, std::string_view what) const;
  // Input i of a node; null if it is not given.
  const OnnxKnown* input(const OnnxNode& node, std::size_t i) const;
  const Constant* constant(const OnnxNode& node, std::size_t i) const;
  // A value by its name in the file; null if no node so far has written it.
  const OnnxKnown* find(std::string_view name) const;
  // How many outputs are given, up to the last one with a name.
  static std::size_t output_count(const OnnxNode& node);

  // Writes an op whose first results are the node's outputs; false, and nothing is written, if the
  // op refuses these inputs.
  bool write(const OnnxNode& node, std::string_view op, const std::vector<Operand>& inputs,
             Written attributes = {}, std::size_t outputs = 1);
  // The same with results of the types that ONNX states, which may differ from those of the row.
  bool write_as(const OnnxNode& node, std::string_view op, const std::vector<Operand>& inputs,
                const std::vector<DType>& dtypes, const Written& attributes = {});
  // Writes an op with one result, which the rule uses.
  std::optional<OnnxKnown> write_step(std::string_view op, const std::vector<Operand>& inputs,
                                      const Written& attributes = {});
  // The same with a result of that type.
  std::optional<OnnxKnown> write_step_as(std::string_view op, const std::vector<Operand>& inputs,
                                         DType dtype, const Written& attributes = {});
  // The same with several results of those types.
  std::optional<std::vector<OnnxKnown>> write_steps_as(std::string_view op,
                                                       const std::vector<Operand>& inputs,
                                                       const std::vector<DType>& dtypes,
                                                       const Written& attributes = {});
  // Output i of the node is a value that exists.
  void alias(const OnnxNode& node, const OnnxKnown& value, std::size_t i = 0);
  // Names the op that makes output i as the file names the output. All but the first are so named
  // anyway; the first one has the name of the node.
  void name_output(const OnnxNode& node, std::size_t i, const OnnxKnown& value);
  // The same elements in another shape; a copy first where the strides do not allow it.
  std::optional<OnnxKnown> reshape(const OnnxKnown& value, const Shape& shape);
  std::optional<OnnxKnown> permute(const OnnxKnown& value, const std::vector<std::size_t>& perm);
  // Products and sums along axes that letters name; nothing where they do not fit the shapes.
  std::optional<OnnxKnown> einsum(const std::string& equation,
                                  const std::vector<const OnnxKnown*>& operands);
  // A custom op with exact bytes; its outputs' types are inferred by the rule or stated by the
  // file. It reads all of its inputs, or of the first one so many elements at most.
  bool write_custom(const OnnxNode& node, OpClass op_class, std::uint64_t flops = 0,
                    const std::vector<TensorType>& outputs = {},
                    std::optional<std::uint64_t> of_first = std::nullopt);
  // The type that the file states of output i.
  std::optional<TensorType> stated(const OnnxNode& node, std::size_t i) const;
  // What a mask is that is made of places alone, where attention has attributes for it.
  std::optional<CausalMask> causal(const OnnxKnown& mask);
  // Writes a linear that computes a product and adds a bias; false if it was no product with a
  // matrix.
  bool write_biased(const OnnxNode& node, const OnnxKnown& product, const OnnxKnown& bias);

 private:
  void set_dims(const std::vector<DimOverride>& dims);
  void refuse_open_dims() const;
  void declare(std::string_view name, const TensorType& type,
               std::shared_ptr<const Constant> constant);
  void declare_constants(const OnnxGraph& graph);
  void declare_inputs();
  std::optional<std::uint64_t> extent_of(const OnnxDim& dim) const;
  std::optional<TensorType> type_of(const OnnxValue& value) const;
  static std::optional<TensorType> type_of(const OnnxTensor& tensor);
  void process(const OnnxNode& node);
  const OnnxKnown& require(const OnnxNode& node, std::string_view name) const;
  std::vector<ModelGraph::TensorId> read_by(const OnnxNode& node);
  bool fold(const OnnxNode& node);
  std::string folded_source(const OnnxNode& node) const;
  std::optional<Constant> fold_shape(const OnnxNode& node) const;
  bool inline_branch(const OnnxNode& node);
  bool inline_function(const OnnxNode& node);
  void bind(std::string_view name, OnnxKnown value);
  void begin(const OnnxNode& node);
  std::string module_of(const OnnxNode& node) const;
  ModelGraph::TensorId tensor_of(const OnnxKnown& value);
  std::vector<ModelGraph::Input> written(const std::vector<Operand>& operands);
  std::optional<std::vector<ModelGraph::TensorId>> results_as(std::string_view op,
                                                              const std::vector<Operand>& inputs,
                                                              const std::vector<DType>& dtypes,
                                                              const Written& attributes);
  OnnxKnown known(ModelGraph::TensorId tensor) const;
  bool bind_results(const OnnxNode& node,
                    const std::optional<std::vector<ModelGraph::TensorId>>& results);
  void add_outputs();
  void require_stated(const OnnxValue& value, const TensorType& type) const;

  const OnnxModel& model_;
  const std::string& document_;
  std::shared_ptr<std::vector<std::string>> places_;  // of nodes, for messages
  ModelGraph graph_;
  std::unordered_map<std::string, OnnxKnown> values_;
  // Constants whose tensors were declared, by their address.
  std::unordered_map<const Constant*, ModelGraph::TensorId> constant_tensors_;
  std::unordered_map<std::string_view, TensorType> stated_;
  std::map<std::string, std::uint64_t, std::less<>> dims_;  // those that the file names
  std::string unknown_dim_;  // the first override that it does not name, which build_graph refuses
  int nesting_ = 0;
  std::uint64_t processed_ = 0;
  std::deque<OnnxNode> inlined_;   // nodes of functions, with the names of their call
  std::deque<std::string> names_;  // what they refer to
};

// Names extents of inputs that the file leaves open without a name after their input and axis
// ("x_0"), so that --dim sets them. The names have to outlive the graph.
std::deque<std::string> name_open_dims(OnnxGraph& graph);

}  // namespace fusecalc
