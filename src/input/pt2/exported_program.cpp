#include "input/pt2/exported_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "core/text.hpp"
#include "json/reader.hpp"

namespace fusecalc {
namespace {

using Kind = ProgramArgument::Kind;

// Reads one key's value; keys of newer versions are skipped.
template <typename Value>
struct Member {
  std::string_view key;
  void (*read)(JsonReader&, Value&);
};

template <typename Value, std::size_t n>
void read_known(JsonReader& reader, const std::array<Member<Value>, n>& members, Value& value) {
  reader.read_members([&](const std::string& key) {
    for (const Member<Value>& member : members) {
      if (member.key == key) return member.read(reader, value);
    }
    reader.skip_value();
  });
}

template <typename Read>
void read_list(JsonReader& reader, Read read) {
  reader.read_array([&](std::size_t) { read(); });
}

bool skipped_null(JsonReader& reader) {
  if (reader.peek() != JsonKind::kNull) return false;
  reader.skip_value();
  return true;
}

// Indices beyond 64 bits mean "to the end".
std::int64_t read_int(JsonReader& reader) {
  const JsonNumber number = reader.read_number();
  if (!number.integer) reader.fail("must be a whole number, not " + printable(number.text, 40));
  const auto magnitude = number.fits ? static_cast<std::int64_t>(number.magnitude)
                                     : std::numeric_limits<std::int64_t>::max();
  return number.negative ? -magnitude : magnitude;
}

// Numbers that JSON cannot write are strings: "Infinity", "-Infinity" and "NaN".
double read_float(JsonReader& reader) {
  double value = 0;
  const auto parse = [&](std::string_view text) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec == std::errc{} && parsed.ptr == end) return;
    reader.fail("must be a number, not " + in_quotes(text));
  };
  if (reader.peek() == JsonKind::kString) {
    parse(reader.read_string());
  } else {
    parse(reader.read_number().text);
  }
  return value;
}

ProgramInt read_size(JsonReader& reader) {
  static constexpr std::array kExpression = {
      Member<ProgramInt>{
          "expr_str", [](JsonReader& in, ProgramInt& size) { size.expression = in.read_string(); }},
      Member<ProgramInt>{"hint",
                         [](JsonReader& in, ProgramInt& size) {
                           if (skipped_null(in)) return;
                           in.read_members([&](const std::string& key) {
                             if (key == "as_int") {
                               size.value = read_int(in);
                             } else {
                               in.skip_value();
                             }
                           });
                         }},
  };
  static constexpr std::array kSize = {
      Member<ProgramInt>{"as_int",
                         [](JsonReader& in, ProgramInt& size) { size.value = read_int(in); }},
      Member<ProgramInt>{
          "as_expr", [](JsonReader& in, ProgramInt& size) { read_known(in, kExpression, size); }},
  };
  ProgramInt size;
  read_known(reader, kSize, size);
  if (!size.value && size.expression.empty()) reader.fail("must be a number or an expression");
  return size;
}

std::vector<ProgramInt> read_sizes(JsonReader& reader) {
  std::vector<ProgramInt> sizes;
  read_list(reader, [&] { sizes.push_back(read_size(reader)); });
  return sizes;
}

ProgramTensor read_tensor_meta(JsonReader& reader) {
  static constexpr std::array kMembers = {
      Member<ProgramTensor>{"dtype",
                            [](JsonReader& in, ProgramTensor& meta) { meta.dtype = read_int(in); }},
      Member<ProgramTensor>{
          "sizes", [](JsonReader& in, ProgramTensor& meta) { meta.sizes = read_sizes(in); }},
      Member<ProgramTensor>{
          "strides", [](JsonReader& in, ProgramTensor& meta) { meta.strides = read_sizes(in); }},
  };
  ProgramTensor meta;
  read_known(reader, kMembers, meta);
  return meta;
}

// {"name": "x"}
std::string read_tensor_name(JsonReader& reader) {
  std::string name;
  reader.read_members([&](const std::string& key) {
    if (key == "name") {
      name = reader.read_string();
    } else {
      reader.skip_value();
    }
  });
  if (name.empty()) reader.fail("missing key \"name\"");
  return name;
}

// {"as_tensor": {"name": "x"}} or {"as_none": true}, for which the name is empty.
std::string read_optional_tensor(JsonReader& reader) {
  std::string name;
  reader.read_members([&](const std::string& key) {
    if (key == "as_tensor") {
      name = read_tensor_name(reader);
    } else {
      reader.skip_value();
    }
  });
  return name;
}

// {"as_int": 1} or {"as_name": "sym_size"}
ProgramArgument::Int read_sym_int(JsonReader& reader) {
  ProgramArgument::Int value;
  reader.read_members([&](const std::string& key) {
    if (key == "as_int") {
      value.value = read_int(reader);
    } else if (key == "as_name") {
      value.name = reader.read_string();
    } else {
      reader.skip_value();
    }
  });
  return value;
}

ProgramGraph read_graph(JsonReader& reader);

void read_subgraph(JsonReader& reader, ProgramArgument& argument) {
  reader.read_members([&](const std::string& key) {
    if (key == "graph") {
      argument.graph = std::make_unique<ProgramGraph>(read_graph(reader));
    } else {
      reader.skip_value();
    }
  });
  if (!argument.graph) reader.fail("missing key \"graph\"");
}

struct ArgumentType {
  std::string_view key;
  Kind kind;
  bool list;
  void (*read)(JsonReader&, ProgramArgument&);
};

void add_tensor(JsonReader& in, ProgramArgument& a) { a.tensors.push_back(read_tensor_name(in)); }
void add_optional(JsonReader& in, ProgramArgument& a) {
  a.tensors.push_back(read_optional_tensor(in));
}
void add_int(JsonReader& in, ProgramArgument& a) { a.ints.push_back({read_int(in), {}}); }
void add_sym_int(JsonReader& in, ProgramArgument& a) { a.ints.push_back(read_sym_int(in)); }
void add_float(JsonReader& in, ProgramArgument& a) { a.floats.push_back(read_float(in)); }

// What a list holds is read one by one.
constexpr std::array kArgumentTypes = {
    ArgumentType{"as_none", Kind::kAbsent, false,
                 [](JsonReader& in, ProgramArgument&) { in.skip_value(); }},
    ArgumentType{"as_tensor", Kind::kTensors, false, add_tensor},
    ArgumentType{"as_optional_tensor", Kind::kTensors, false, add_optional},
    ArgumentType{"as_tensors", Kind::kTensors, true, add_tensor},
    ArgumentType{"as_optional_tensors", Kind::kTensors, true, add_optional},
    ArgumentType{"as_int", Kind::kInts, false, add_int},
    ArgumentType{"as_sym_int", Kind::kInts, false, add_sym_int},
    ArgumentType{"as_ints", Kind::kInts, true, add_int},
    ArgumentType{"as_sym_ints", Kind::kInts, true, add_sym_int},
    ArgumentType{"as_float", Kind::kFloats, false, add_float},
    ArgumentType{"as_floats", Kind::kFloats, true, add_float},
    ArgumentType{"as_bool", Kind::kBool, false,
                 [](JsonReader& in, ProgramArgument& a) { a.truth = in.read_boolean(); }},
    ArgumentType{"as_string", Kind::kString, false,
                 [](JsonReader& in, ProgramArgument& a) { a.text = in.read_string(); }},
    ArgumentType{"as_scalar_type", Kind::kDtype, false, add_int},
    ArgumentType{"as_memory_format", Kind::kMemoryFormat, false, add_int},
    ArgumentType{"as_graph", Kind::kGraph, false, read_subgraph},
};

ProgramArgument read_argument(JsonReader& reader) {
  ProgramArgument argument;
  reader.read_members([&](const std::string& key) {
    const auto* type = std::ranges::find(kArgumentTypes, key, &ArgumentType::key);
    if (type == kArgumentTypes.end()) {
      argument.kind = Kind::kOther;
      return reader.skip_value();
    }
    argument.kind = type->kind;
    argument.list = type->list;
    if (type->list) {
      read_list(reader, [&] { type->read(reader, argument); });
    } else {
      type->read(reader, argument);
    }
  });
  return argument;
}

std::vector<ProgramArgument> read_arguments(JsonReader& reader) {
  std::vector<ProgramArgument> arguments;
  read_list(reader, [&] { arguments.push_back(read_argument(reader)); });
  return arguments;
}

ProgramArgument read_named_argument(JsonReader& reader) {
  ProgramArgument argument;
  std::string name;
  reader.read_members([&](const std::string& key) {
    if (key == "name") {
      name = reader.read_string();
    } else if (key == "arg") {
      argument = read_argument(reader);
    } else {
      reader.skip_value();
    }
  });
  argument.name = std::move(name);
  return argument;
}

ProgramNode read_node(JsonReader& reader) {
  static constexpr std::array kMembers = {
      Member<ProgramNode>{
          "target", [](JsonReader& in, ProgramNode& node) { node.target = in.read_string(); }},
      Member<ProgramNode>{"inputs",
                          [](JsonReader& in, ProgramNode& node) {
                            read_list(in, [&] { node.inputs.push_back(read_named_argument(in)); });
                          }},
      Member<ProgramNode>{
          "outputs", [](JsonReader& in, ProgramNode& node) { node.outputs = read_arguments(in); }},
      Member<ProgramNode>{"metadata",
                          [](JsonReader& in, ProgramNode& node) {
                            in.read_members([&](const std::string& key) {
                              if (key == "nn_module_stack") {
                                node.modules = in.read_string();
                              } else {
                                in.skip_value();
                              }
                            });
                          }},
  };
  ProgramNode node;
  read_known(reader, kMembers, node);
  if (node.target.empty()) reader.fail("missing key \"target\"");
  return node;
}

ProgramGraph read_graph(JsonReader& reader) {
  static constexpr std::array kMembers = {
      Member<ProgramGraph>{
          "inputs", [](JsonReader& in, ProgramGraph& graph) { graph.inputs = read_arguments(in); }},
      Member<ProgramGraph>{
          "outputs",
          [](JsonReader& in, ProgramGraph& graph) { graph.outputs = read_arguments(in); }},
      Member<ProgramGraph>{"nodes",
                           [](JsonReader& in, ProgramGraph& graph) {
                             read_list(in, [&] { graph.nodes.push_back(read_node(in)); });
                           }},
      Member<ProgramGraph>{"tensor_values",
                           [](JsonReader& in, ProgramGraph& graph) {
                             in.read_members([&](const std::string& key) {
                               graph.tensors.emplace(key, read_tensor_meta(in));
                             });
                           }},
      Member<ProgramGraph>{"sym_int_values",
                           [](JsonReader& in, ProgramGraph& graph) {
                             in.read_members([&](const std::string& key) {
                               graph.ints.emplace(key, read_size(in));
                             });
                           }},
  };
  ProgramGraph graph;
  read_known(reader, kMembers, graph);
  return graph;
}

// {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}, or {"user_input": {"arg": ...}}.
void read_input_spec(JsonReader& reader, ProgramInput& input) {
  reader.read_members([&](const std::string& kind) {
    reader.read_members([&](const std::string& key) {
      if (key == "arg" && kind == "user_input") {
        input.tensor = read_optional_tensor(reader);
      } else if (key == "arg") {
        input.tensor = read_tensor_name(reader);
      } else if (key == "parameter_name" || key == "buffer_name" || key == "tensor_constant_name") {
        input.name = reader.read_string();
      } else {
        reader.skip_value();
      }
    });
  });
}

// {"user_output": {"arg": {"as_tensor": ...}}}, {"buffer_mutation": {"arg": {"name": "add"},
// "buffer_name": "cache"}} and the like.
void read_output_spec(JsonReader& reader, ProgramOutput& output) {
  reader.read_members([&](const std::string& kind) {
    const bool mutation = kind.ends_with("_mutation");
    reader.read_members([&](const std::string& key) {
      if (key == "arg" && kind == "user_output") {
        output.tensor = read_optional_tensor(reader);
      } else if (key == "arg" && kind != "token") {
        output.tensor = read_tensor_name(reader);
      } else if (mutation && key.ends_with("_name")) {
        output.mutates = reader.read_string();
      } else {
        reader.skip_value();
      }
    });
  });
}

void read_signature(JsonReader& reader, ExportedProgram& program) {
  reader.read_members([&](const std::string& key) {
    if (key == "input_specs") {
      read_list(reader, [&] { read_input_spec(reader, program.inputs.emplace_back()); });
    } else if (key == "output_specs") {
      read_list(reader, [&] { read_output_spec(reader, program.outputs.emplace_back()); });
    } else {
      reader.skip_value();
    }
  });
}

void read_version(JsonReader& reader) {
  std::int64_t major = 0;
  reader.read_members([&](const std::string& key) {
    if (key == "major") {
      major = read_int(reader);
    } else {
      reader.skip_value();
    }
  });
  if (major != 7 && major != 8) {
    reader.fail(fmt::format("schema version {} is not read (7 and 8 are)", major));
  }
}

ProgramRange read_range(JsonReader& reader) {
  ProgramRange range;
  reader.read_members([&](const std::string& key) {
    const bool known = key == "min_val" || key == "max_val";
    if (!known || reader.peek() != JsonKind::kNumber) return reader.skip_value();
    (key == "min_val" ? range.min : range.max) = read_int(reader);
  });
  return range;
}

void read_graph_module(JsonReader& reader, ExportedProgram& program) {
  reader.read_members([&](const std::string& key) {
    if (key == "graph") {
      program.graph = read_graph(reader);
    } else if (key == "signature") {
      read_signature(reader, program);
    } else {
      reader.skip_value();
    }
  });
}

}  // namespace

ExportedProgram read_exported_program(std::string_view json, const std::string& name) {
  // Large enough to be fast; the reader copies a chunk at a time.
  constexpr std::size_t kChunkBytes = std::size_t{1} << 17U;
  JsonReader reader(ByteSource::from_memory(json, name, kChunkBytes));
  ExportedProgram program;
  bool versioned = false;
  bool has_graph = false;
  reader.read_members([&](const std::string& key) {
    if (key == "schema_version") {
      read_version(reader);
      versioned = true;
    } else if (key == "graph_module") {
      read_graph_module(reader, program);
      has_graph = true;
    } else if (key == "range_constraints") {
      reader.read_members([&](const std::string& symbol) {
        program.ranges.emplace_back(symbol, read_range(reader));
      });
    } else {
      reader.skip_value();
    }
  });
  reader.expect_end();
  if (!versioned) reader.fail("missing key \"schema_version\"");
  if (!has_graph) reader.fail("missing key \"graph_module\"");
  return program;
}

}  // namespace fusecalc
