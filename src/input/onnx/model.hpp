#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/dtype.hpp"

namespace fusecalc {

// An ONNX model as its file states it. Strings and tensor data are parts of the file's bytes, which
// outlive the model; data of weights is not read.

// An extent: a number, a symbol's name, or unknown (an empty name).
using OnnxDim = std::variant<std::uint64_t, std::string_view>;

// The numeric codes of element types, as in the format's TensorProto.DataType. Types that fusecalc
// does not have map to one of the same width; empty for strings, complex numbers and unknown codes.
std::optional<DType> dtype_of_onnx(std::uint64_t code);

struct OnnxTensor {
  std::string_view name;
  std::vector<std::uint64_t> dims;
  std::uint64_t type = 0;
  // The elements in one of three encodings; all empty for weights kept in another file.
  std::string_view raw;
  std::vector<std::int64_t> whole;
  std::vector<double> real;
  bool external = false;
};

struct OnnxValue {
  std::string_view name;
  std::uint64_t type = 0;  // 0 if not stated, or no tensor
  std::optional<std::vector<OnnxDim>> shape;
};

struct OnnxGraph;

struct OnnxAttribute {
  std::string_view name;
  std::optional<std::int64_t> whole;
  std::optional<double> real;
  std::optional<std::string_view> text;
  std::vector<std::int64_t> wholes;
  std::vector<double> reals;
  std::shared_ptr<const OnnxTensor> tensor;
  std::shared_ptr<const OnnxGraph> graph;
  std::string_view refers_to;  // inside a function: an attribute of the call
};

struct OnnxNode {
  std::string_view name;
  std::string_view type;
  std::string_view domain;
  std::vector<std::string_view> inputs;  // empty: not given
  std::vector<std::string_view> outputs;
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute* find(std::string_view attribute) const;
};

struct OnnxGraph {
  std::string_view name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::vector<OnnxValue> values;
};

struct OnnxFunction {
  std::string_view name;
  std::string_view domain;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<OnnxNode> nodes;
};

struct OnnxModel {
  std::map<std::string_view, std::uint64_t> opsets;  // by domain; "" is ONNX's own
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
};

// Decodes a file. Refuses what is damaged, nested deeper than models are, or has no graph.
OnnxModel decode_onnx(std::string_view bytes, const std::string& name);

}  // namespace fusecalc
