#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "json/reader.hpp"

namespace fusecalc {

// One operation of the sizes form.
struct SizedOperation {
  std::string name;
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
};

// The sizes form of an op list, already added up: a chain of operations of which only the number of
// elements is known. Reading holds no operation, so a list may be of any length.
struct SizeChain {
  std::optional<std::string> name;
  std::uint64_t operations = 0;
  std::uint64_t input_elements = 0;   // over all operations
  std::uint64_t output_elements = 0;  // over all operations
  std::uint64_t first_input = 0;
  std::uint64_t last_output = 0;
  std::uint64_t dtype_bytes = 2;
  // Where each operation goes as well, if anywhere.
  std::vector<SizedOperation>* held = nullptr;
};

// A number, with what is needed to take it as an integer or as a real.
struct WrittenNumber {
  double real = 0;
  bool integer = false;
  std::int64_t whole = 0;  // where integer
};

// An integer or a dim's name.
using WrittenDim = std::variant<std::int64_t, std::string>;

// An attribute's value as written. The formats nest no deeper.
using WrittenValue = std::variant<bool, WrittenNumber, std::string, std::vector<WrittenDim>>;

// The graph form as it stands in the document: names are not resolved and nothing is checked but
// the JSON types. Everything keeps the document's order, so positions are JSON pointers.
struct WrittenTensor {
  std::string name;
  std::optional<std::vector<WrittenDim>> shape;
  std::optional<std::string> dtype;
};

struct WrittenAttribute {
  std::string name;
  WrittenValue value;
  bool grouped = false;  // written inside "attrs"
};

struct WrittenOp {
  std::optional<std::string> name;
  std::string op;
  std::vector<std::variant<WrittenNumber, std::string>> inputs;
  std::vector<std::string> outputs;
  bool one_output = false;  // written as "output", not as "outputs"
  std::vector<std::pair<std::string, std::string>> inplace;
  std::vector<std::pair<std::string, std::uint64_t>> reads;
  std::vector<std::pair<std::string, std::uint64_t>> writes;
  std::optional<std::uint64_t> flops;
  std::optional<std::string> op_class;
  std::vector<WrittenAttribute> attributes;
};

struct WrittenGraph {
  std::string document;  // how messages call it
  std::optional<std::string> name;
  std::optional<std::string> dtype;
  std::vector<std::pair<std::string, std::uint64_t>> dims;
  std::vector<WrittenTensor> tensors;
  std::vector<WrittenOp> ops;
  std::optional<std::vector<std::string>> outputs;
  std::optional<std::vector<std::vector<std::string>>> fuse;
};

using OpList = std::variant<SizeChain, WrittenGraph>;

// Reads a whole document in either form; its content tells which. The operations of the sizes form
// are held only where somebody wants them.
OpList read_op_list(JsonReader& reader, std::vector<SizedOperation>* operations = nullptr);

}  // namespace fusecalc
