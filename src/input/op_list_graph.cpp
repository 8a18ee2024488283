#include "input/op_list_graph.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <variant>

#include "core/checked.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/attributes.hpp"
#include "input/pointers.hpp"

namespace fusecalc {
namespace {

std::int64_t whole_of(const JsonNumber& number) {
  const auto magnitude = static_cast<std::int64_t>(number.magnitude);
  return number.negative ? -magnitude : magnitude;
}

double real_of(const JsonReader& reader, const JsonNumber& number) {
  double real = 0;
  const char* end = number.text.data() + number.text.size();
  if (std::from_chars(number.text.data(), end, real).ec != std::errc{}) {
    reader.fail(printable(number.text, 40) + " is out of the range of a double");
  }
  return real;
}

WrittenDim read_dim(JsonReader& reader) {
  if (reader.peek() == JsonKind::kString) return reader.read_string();
  if (reader.peek() != JsonKind::kNumber) reader.fail_type("a whole number or the name of a dim");
  const JsonNumber number = reader.read_number();
  if (!number.integer) {
    reader.fail("must be a whole number, not " + printable(number.text, 40));
  }
  if (!number.fits) {
    reader.fail(
        fmt::format("{} is too large (the maximum is {})", printable(number.text, 40), kMaxCount));
  }
  return whole_of(number);
}

std::vector<WrittenDim> read_dims(JsonReader& reader) {
  std::vector<WrittenDim> dims;
  reader.read_array([&](std::size_t) { dims.push_back(read_dim(reader)); });
  return dims;
}

WrittenValue read_value(JsonReader& reader) {
  switch (reader.peek()) {
    case JsonKind::kBoolean: return reader.read_boolean();
    case JsonKind::kNumber: {
      const JsonNumber number = reader.read_number();
      if (number.fits) return whole_of(number);
      return real_of(reader, number);
    }
    case JsonKind::kString: return reader.read_string();
    case JsonKind::kArray: return read_dims(reader);
    default: reader.fail_type("a number, a string, true, false or a list");
  }
}

void read_attributes(JsonReader& reader, WrittenOp& op) {
  reader.read_members([&](const std::string& key) {
    if (JsonReader::is_annotation(key)) return reader.skip_value();
    op.attributes.push_back({.name = key, .value = read_value(reader), .source = kInAttrs});
  });
}

void read_op_inputs(JsonReader& reader, WrittenOp& op) {
  reader.read_array([&](std::size_t) {
    switch (reader.peek()) {
      case JsonKind::kString: op.inputs.emplace_back(reader.read_string()); break;
      case JsonKind::kNumber: op.inputs.emplace_back(real_of(reader, reader.read_number())); break;
      default: reader.fail_type("the name of a tensor or a number");
    }
  });
}

void read_op_outputs(JsonReader& reader, WrittenOp& op, bool one) {
  if (!op.outputs.empty()) reader.fail("give either \"output\" or \"outputs\"");
  op.source = one ? kAsOutput : 0;
  if (one) {
    op.outputs.push_back(reader.read_string());
    return;
  }
  if (reader.peek() == JsonKind::kString) {
    reader.fail_type("an array (\"output\" names a single tensor)");
  }
  op.outputs = read_names(reader);
  if (op.outputs.empty()) reader.fail("must name at least one tensor");
}

using ReadOpMember = void (*)(JsonReader&, WrittenOp&);

struct OpMember {
  std::string_view key;
  ReadOpMember read;
};

// The keys of an operation other than its attributes.
constexpr std::array kOpMembers = {
    OpMember{"name", [](JsonReader& reader, WrittenOp& op) { op.name = reader.read_string(); }},
    OpMember{"op", [](JsonReader& reader, WrittenOp& op) { op.op = reader.read_string(); }},
    OpMember{"inputs", read_op_inputs},
    OpMember{"output",
             [](JsonReader& reader, WrittenOp& op) { read_op_outputs(reader, op, true); }},
    OpMember{"outputs",
             [](JsonReader& reader, WrittenOp& op) { read_op_outputs(reader, op, false); }},
    OpMember{"inplace",
             [](JsonReader& reader, WrittenOp& op) {
               reader.read_members([&](const std::string& key) {
                 if (JsonReader::is_annotation(key)) return reader.skip_value();
                 op.inplace.emplace_back(key, reader.read_string());
               });
             }},
    OpMember{"reads", [](JsonReader& reader,
                         WrittenOp& op) { op.reads = read_counts(reader, kElementCount); }},
    OpMember{"writes", [](JsonReader& reader,
                          WrittenOp& op) { op.writes = read_counts(reader, kElementCount); }},
    OpMember{"flops",
             [](JsonReader& reader, WrittenOp& op) {
               op.flops = reader.read_count("a whole number of operations");
             }},
    OpMember{"class",
             [](JsonReader& reader, WrittenOp& op) { op.op_class = reader.read_string(); }},
    OpMember{"scope", [](JsonReader& reader, WrittenOp& op) { op.scope = reader.read_string(); }},
    OpMember{"attrs", read_attributes},
};

constexpr auto kOpMemberKeys = [] {
  std::array<std::string_view, kOpMembers.size()> keys{};
  for (std::size_t i = 0; i < kOpMembers.size(); ++i) keys[i] = kOpMembers[i].key;
  return keys;
}();

}  // namespace

std::vector<std::string> read_names(JsonReader& reader) {
  std::vector<std::string> names;
  reader.read_array([&](std::size_t) { names.push_back(reader.read_string()); });
  return names;
}

bool skip_note(JsonReader& reader, std::string_view name, JsonKind of_values) {
  if (!JsonReader::is_annotation(name) || reader.peek() == of_values) return false;
  reader.skip_value();
  return true;
}

std::vector<std::pair<std::string, WrittenDim>> read_named_dims(JsonReader& reader) {
  std::vector<std::pair<std::string, WrittenDim>> dims;
  reader.read_members([&](const std::string& name) {
    if (skip_note(reader, name, JsonKind::kNumber)) return;
    if (reader.peek() == JsonKind::kString) {
      dims.emplace_back(name, reader.read_string());
    } else {
      const std::uint64_t extent = reader.read_count("a whole number or an expression of dims");
      dims.emplace_back(name, static_cast<std::int64_t>(extent));
    }
  });
  return dims;
}

std::vector<std::pair<std::string, std::uint64_t>> read_counts(JsonReader& reader,
                                                               std::string_view what) {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  reader.read_members([&](const std::string& key) {
    if (skip_note(reader, key, JsonKind::kNumber)) return;
    counts.emplace_back(key, reader.read_count(what));
  });
  return counts;
}

WrittenTensor read_tensor(JsonReader& reader, const std::string& name) {
  static constexpr std::array<std::string_view, 2> kFields = {"shape", "dtype"};
  WrittenTensor tensor{.name = name, .shape = {}, .dtype = {}};
  if (reader.peek() == JsonKind::kArray) {
    reader.fail_type(R"(an object, as {"shape": [128, 64]})");
  }
  reader.read_object(kFields, [&](std::size_t field) {
    if (field == 0) {
      tensor.shape = read_dims(reader);
    } else {
      tensor.dtype = reader.read_string();
    }
  });
  return tensor;
}

WrittenOp read_op(JsonReader& reader) {
  WrittenOp op;
  reader.read_members([&](const std::string& key) {
    if (JsonReader::is_annotation(key)) return reader.skip_value();
    for (const OpMember& member : kOpMembers) {
      if (member.key == key) return member.read(reader, op);
    }
    // A key that is not an attribute of any op but close to one of the above is a misspelling of
    // it.
    const std::string meant = attribute_named(key) ? "" : did_you_mean(key, kOpMemberKeys);
    if (!meant.empty()) reader.fail("unknown key " + in_quotes(key) + meant);
    op.attributes.push_back({.name = key, .value = read_value(reader)});
  });
  if (op.op.empty()) reader.fail("missing key \"op\"");
  if (op.outputs.empty()) reader.fail("missing key \"output\" (the tensor that it writes)");
  return op;
}

}  // namespace fusecalc
