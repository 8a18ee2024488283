#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/model_graph.hpp"
#include "input/pt2/exported_program.hpp"
#include "input/pt2/symbols.hpp"

namespace fusecalc {

// What a name of the program stands for at one point of it.
struct ProgramValue {
  static constexpr ModelGraph::TensorId kNoTensor = 0xffffffff;

  ModelType type;
  std::vector<std::int64_t> strides;
  // One of these: a tensor, a tensor that broadcasts to the type, or a number in every element.
  ModelGraph::TensorId tensor = kNoTensor;
  ModelGraph::TensorId base = kNoTensor;
  std::optional<double> number{};
  // Of complex numbers instead: the real and imaginary parts of each, along one more axis.
  ModelGraph::TensorId pairs = kNoTensor;
};

using ValueId = std::uint32_t;

// Elements of an axis: each step-th from start to end.
struct AxisRange {
  std::size_t axis = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

// The name of "torch.ops.aten.add.Tensor" without namespace and overload; empty for what is no op.
std::string_view op_of(std::string_view target);
// add_, but not __and__ or _softmax.
bool is_in_place(std::string_view op);

class Pt2Importer;

// A node and what its arguments stand for, for the rules of ATen ops (aten.hpp).
class AtenCall {
 public:
  AtenCall(Pt2Importer& importer, std::size_t frame, const ProgramNode& node)
      : importer_(importer), frame_(frame), node_(node) {}

  const ProgramNode& node() const { return node_; }
  ModelGraph& graph() const;

  // Arguments, by their names in the op's schema.
  const ProgramArgument* argument(std::string_view name) const;
  bool given(std::string_view name) const;  // and not None
  // What a tensor argument stands for, if it is given.
  std::optional<ValueId> value(std::string_view name) const;
  const ProgramValue& at(ValueId id) const;
  // For rules that add values, which moves those that exist.
  ProgramValue copy_of(ValueId id) const { return at(id); }
  // The tensors of a list; those that are not given are left out.
  std::vector<ValueId> values(std::string_view name) const;
  // All tensors that it takes, in order.
  std::vector<ValueId> all_values() const;
  std::optional<std::int64_t> whole(std::string_view name) const;
  std::int64_t whole(std::string_view name, std::int64_t otherwise) const;
  // A single number counts as a list of one.
  std::vector<std::int64_t> wholes(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  bool truth(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name) const;

  // The range that slice, narrow, select and the like take of a value of this type.
  std::optional<AxisRange> range(const ModelType& from) const;

  // Results: tensors in order, without those that are None.
  std::size_t results() const;
  const ModelType& type(std::size_t result = 0) const;
  std::optional<ModelType> pairs(std::size_t result = 0) const;  // of complex results
  std::vector<std::int64_t> strides(std::size_t result = 0) const;
  bool used(std::size_t result) const;

  // A tensor with all elements of a value; it is made where there is none.
  ModelGraph::TensorId tensor(ValueId value) const;
  // What a pointwise op reads of it: a number, or a tensor that broadcasts to it.
  ModelGraph::Input operand(ValueId value) const;

  // Whether an op that overwrites this argument's memory leaves nothing behind that is read later:
  // it is overwritten anyway, or this call is the last to read it and no one else's.
  bool may_overwrite(std::string_view name) const;
  // And it is memory of an input that the program says it overwrites.
  bool overwrites_input(std::string_view name) const;

  // Sets results.
  void set(std::size_t result, ModelGraph::TensorId tensor) const;
  void set_overwritten(ModelGraph::TensorId tensor) const;  // of such memory
  void set_number(std::size_t result, double number) const;
  void set_pairs(std::size_t result, ModelGraph::TensorId pairs) const;
  // The result is the value itself, or a view of it that shares its memory.
  void share(std::size_t result, ValueId source, ModelGraph::TensorId tensor) const;
  void share_base(std::size_t result, ValueId source, ModelGraph::TensorId base) const;
  void share_number(std::size_t result, ValueId source, double number) const;
  void share_pairs(std::size_t result, ValueId source, ModelGraph::TensorId pairs) const;
  // The same elements in memory of its own.
  void equal(std::size_t result, ValueId source) const;
  // The call writes `tensor` to the memory of an argument, too.
  void overwrite(ValueId argument, ModelGraph::TensorId tensor) const;

  // Adds an op of a row whose outputs are the first results. False if its rule refuses it.
  bool op(std::string_view row, std::vector<ModelGraph::Input> inputs,
          std::vector<WrittenAttribute> attributes = {}, std::size_t outputs = 1) const;

  // The ops of a rule that writes several, with the types that their rows yield; the last one has
  // the call's result. What reads a step that was refused is refused, too.
  using Step = std::optional<ModelGraph::Input>;
  Step step(std::string_view row, const std::vector<Step>& inputs,
            std::vector<WrittenAttribute> attributes = {}) const;
  bool last_step(std::string_view row, const std::vector<Step>& inputs,
                 std::vector<WrittenAttribute> attributes = {}) const;

 private:
  ValueId bind(std::size_t result, ProgramValue value) const;
  void share(std::size_t result, ValueId source, ProgramValue value) const;

  Pt2Importer& importer_;
  std::size_t frame_;
  const ProgramNode& node_;
};

// Turns the nodes of an exported program into the ops of a graph, in order. Names stand for values:
// an in-place op makes a new value, and names that share its memory get a new value
// when they are next used.
class Pt2Importer {
 public:
  Pt2Importer(const ExportedProgram& program, const std::string& document,
              const std::vector<DimOverride>& dims);

  Model run();

 private:
  friend class AtenCall;

  // A graph whose nodes are being read: the program's, or one that a node calls.
  struct Frame {
    const ProgramGraph* graph = nullptr;
    std::unordered_map<std::string_view, ValueId> names{};
    // The place of the last node that reads each name; behind all nodes: the graph returns it.
    std::unordered_map<std::string_view, std::size_t> last_read{};
    std::unordered_map<std::string_view, ModelType> types{};
  };

  // What in-place ops overwrite.
  struct Storage {
    ValueId base = 0;  // the value that shows all of it
    std::uint32_t version = 0;
  };

  struct Binding {
    ProgramValue value;
    std::uint32_t storage = 0;
    std::uint32_t version = 0;  // of the storage that the value was read from
    // A view: the node to apply again after its storage was overwritten.
    std::size_t frame = 0;
    const ProgramNode* node = nullptr;
    std::string_view name{};  // there
  };

  struct GraphInput {
    std::string_view name;  // in the signature: of a buffer or parameter, or of the argument
    ModelGraph::TensorId own = ProgramValue::kNoTensor;  // what it holds at first
    ValueId value = 0;
  };

  [[noreturn]] void fail(const ProgramNode* node, const std::string& message) const;
  std::int64_t size_value(const ProgramInt& size);
  WrittenDim size_text(const ProgramInt& size);
  const ModelType& type_of(std::size_t frame, const std::string& name);
  // Of complex numbers: the type of their real and imaginary parts, along one more axis.
  std::optional<ModelType> pairs_of(std::size_t frame, const std::string& name);
  const ProgramTensor& meta_of(std::size_t frame, const std::string& name) const;
  std::vector<std::int64_t> strides_of(std::size_t frame, const std::string& name);
  std::int64_t int_value(std::size_t frame, const ProgramArgument::Int& value);

  std::size_t open_frame(const ProgramGraph& graph);
  void read_inputs();
  void read_node(std::size_t frame, const ProgramNode& node);
  bool inline_graph(std::size_t frame, const ProgramNode& node);
  // The ops of a node that takes lists of tensors; false if it is no such node.
  bool read_lists(std::size_t frame, const ProgramNode& node);
  void call(std::size_t frame, const ProgramNode& node);
  std::vector<std::pair<std::string_view, ValueId>> cast_operands(std::size_t frame,
                                                                  const ProgramNode& node);
  void make_custom(const AtenCall& call, std::string_view op);
  bool is_last_reader(std::size_t frame, const ProgramNode& node, std::uint32_t storage) const;
  void write_back(ValueId target, ModelGraph::TensorId result);
  std::optional<ModelGraph::TensorId> with_range(ValueId target, ModelGraph::TensorId result);
  // Whether several values are this tensor.
  bool is_shared(ModelGraph::TensorId tensor) const {
    return tensor < shared_.size() && shared_[tensor];
  }
  void read_outputs();
  // What an input holds at the end.
  void write_input(const GraphInput& input, ModelGraph::TensorId holds);
  void make_overwriting(const AtenCall& call);

  ValueId bind(std::size_t frame, std::string_view name, ProgramValue value);
  ValueId lookup(std::size_t frame, const ProgramNode* node, const std::string& name);
  ModelGraph::TensorId tensor(ValueId id);

  const ExportedProgram& program_;
  std::string document_;
  ModelGraph graph_;
  Symbols symbols_;
  std::deque<Frame> frames_;
  std::deque<ProgramNode> single_nodes_;  // of nodes that take lists
  std::deque<Binding> bindings_;
  std::vector<Storage> storages_;
  std::vector<GraphInput> inputs_;
  // Inputs that the program says it overwrites, and what was overwritten in place.
  std::unordered_set<ModelGraph::TensorId> mutated_;
  std::vector<bool> shared_;     // per tensor
  std::uint32_t rereading_ = 0;  // depth of views that are applied again
  std::uint64_t reread_ = 0;     // and in all
};

}  // namespace fusecalc
