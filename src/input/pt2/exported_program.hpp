#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fusecalc {

// What torch.export.save writes (torch/_export/serde/schema.py), as far as it is used, and as it is
// written: names are not resolved and nothing is checked but the types of values.

// A size: a number, or an expression of symbols with its value in the exporting run.
struct ProgramInt {
  std::optional<std::int64_t> value;  // none: it depends on data
  std::string expression;             // empty: a plain number
};

struct ProgramTensor {
  std::int64_t dtype = 0;  // ScalarType
  std::vector<ProgramInt> sizes;
  std::vector<ProgramInt> strides;
};

struct ProgramGraph;

// An argument of a node, or one of its results.
struct ProgramArgument {
  enum class Kind : std::uint8_t {
    kAbsent,
    kTensors,  // one of them, or a list; an empty name is a tensor that is not given
    kInts,     // the same; a name instead of a number stands for a symbolic result
    kFloats,
    kBool,
    kString,
    kDtype,
    kMemoryFormat,
    kGraph,
    kOther,  // devices, layouts, tokens
  };

  // A number, or the name of a symbolic one.
  struct Int {
    std::int64_t value = 0;
    std::string name;
  };

  std::string name;  // in the op's schema
  Kind kind = Kind::kAbsent;
  bool list = false;
  std::vector<std::string> tensors;
  std::vector<Int> ints;  // also the code of a dtype or a memory format
  std::vector<double> floats;
  bool truth = false;
  std::string text;
  std::unique_ptr<ProgramGraph> graph;
};

struct ProgramNode {
  std::string target;  // "torch.ops.aten.add.Tensor"
  std::vector<ProgramArgument> inputs;
  std::vector<ProgramArgument> outputs;
  std::string modules;  // nn_module_stack: "key,path,class;..." from the outside in
};

struct ProgramGraph {
  std::vector<ProgramArgument> inputs;
  std::vector<ProgramArgument> outputs;
  std::vector<ProgramNode> nodes;
  std::unordered_map<std::string, ProgramTensor> tensors;
  std::unordered_map<std::string, ProgramInt> ints;  // symbolic results of nodes
};

struct ProgramInput {
  std::string tensor;  // in the graph
  std::string name;    // of the parameter or buffer in the model; empty for an input of the user
};

struct ProgramOutput {
  std::string tensor;   // empty: not a tensor
  std::string mutates;  // the name of the buffer, parameter or input that it overwrites
};

struct ProgramRange {
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
};

struct ExportedProgram {
  ProgramGraph graph;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::vector<std::pair<std::string, ProgramRange>> ranges;  // of symbols
};

// Reads the JSON of a program. `name` is the document's in messages; faults tell their place in the
// JSON. Schema 7 and 8 are read, of any minor version.
ExportedProgram read_exported_program(std::string_view json, const std::string& name);

}  // namespace fusecalc
