#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace fusecalc {

// A whole number, a dim's name or an expression of dims.
using WrittenDim = std::variant<std::int64_t, std::string>;

// An attribute's value. Integers and reals are kept apart, so that counts can refuse 1.5.
using WrittenValue = std::variant<bool, std::int64_t, double, std::string, std::vector<WrittenDim>>;

struct WrittenTensor {
  std::string name;
  std::optional<std::vector<WrittenDim>> shape;
  std::optional<std::string> dtype;
};

struct WrittenAttribute {
  std::string name;
  WrittenValue value;
  std::uint32_t source = 0;  // as WrittenOp's
};

struct WrittenOp {
  std::optional<std::string> name;
  std::string op;
  std::vector<std::variant<double, std::string>> inputs;  // inline numbers and tensors
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, std::string>> inplace;
  std::vector<std::pair<std::string, std::uint64_t>> reads;
  std::vector<std::pair<std::string, std::uint64_t>> writes;
  std::optional<std::uint64_t> flops;
  std::optional<std::string> op_class;
  // The part of the model that it belongs to: "layers.3.mlp".
  std::optional<std::string> scope;
  std::vector<WrittenAttribute> attributes;
  // Where the reader found it, in a form that only the reader's PlaceNamer understands.
  std::uint32_t source = 0;
};

// The element of a WrittenGraph that an error is about, by its position there.
struct WrittenPlace {
  enum class Part : std::uint8_t {
    kGraph,  // all of it
    kDtype,  // the dtype of tensors that state none
    kDim,    // dims[index]
    // Of tensors[index]; an extent is shape[item].
    kTensor,
    kShape,
    kExtent,
    kTensorDtype,
    // Of ops[index]; where a list has items, item is the position in it.
    kOp,
    kOpKind,
    kOpName,
    kInputs,
    kInput,
    kOutputs,
    kOutput,
    kAttribute,
    kInplace,
    kReads,
    kWrites,
    kFlops,
    kClass,
    // The outputs of the graph; one of them is (*outputs)[index].
    kGraphOutputs,
    kGraphOutput,
    // (*fuse)[index], and its member `item`.
    kFuseGroup,
    kFuseMember,
  };
  Part part = Part::kGraph;
  std::size_t index = 0;
  std::size_t item = 0;
};

struct WrittenGraph;

// The name of a place in messages, in terms of the document's format: "/ops/3/inputs/1" in an op
// list. Empty for the document as a whole. Every reader sets one.
using PlaceNamer = std::function<std::string(const WrittenGraph&, const WrittenPlace&)>;

// A graph as a document states it: names are not resolved, and only the types of values are
// checked. Readers (src/input) fill it in the document's order; build_graph turns it into an
// OpGraph.
struct WrittenGraph {
  std::string document;  // its name in messages
  PlaceNamer name_of_place;
  std::optional<std::string> name;
  std::optional<std::string> dtype;
  std::vector<std::pair<std::string, WrittenDim>> dims;
  std::vector<WrittenTensor> tensors;
  std::vector<WrittenOp> ops;
  std::optional<std::vector<std::string>> outputs;
  std::optional<std::vector<std::vector<std::string>>> fuse;
};

}  // namespace fusecalc
