#include "graph/op_list.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/checked.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/attributes.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kElements = "a whole number of elements";

bool has(std::uint64_t seen, std::size_t field) { return (seen >> field & 1U) != 0; }

// --- the sizes form ---

void add_elements(const JsonReader& reader, std::uint64_t& total, std::uint64_t elements) {
  if (checked_add(total, elements)) return;
  reader.fail(fmt::format("the sizes up to here add up to more than {} elements", kMaxCount));
}

void read_operation(JsonReader& reader, SizeChain& chain) {
  static constexpr std::array<std::string_view, 3> kFields = {"name", "input_size", "output_size"};
  enum Field : std::size_t { kName, kInputSize, kOutputSize };

  std::string name;
  std::uint64_t input = 0;
  const std::uint64_t seen = reader.read_object(kFields, [&](std::size_t field) {
    if (field == kName) {
      if (chain.held == nullptr) {
        reader.skip_string();
      } else {
        name = reader.read_string();
      }
    } else if (field == kInputSize) {
      input = reader.read_count(kElements);
      add_elements(reader, chain.input_elements, input);
      if (chain.operations == 0) chain.first_input = input;
    } else {
      chain.last_output = reader.read_count(kElements);
      add_elements(reader, chain.output_elements, chain.last_output);
    }
  });
  for (const Field field : {kInputSize, kOutputSize}) {
    if (!has(seen, field)) reader.fail(fmt::format("missing key \"{}\"", kFields[field]));
  }
  ++chain.operations;
  if (chain.held != nullptr) chain.held->push_back({std::move(name), input, chain.last_output});
}

void read_operations(JsonReader& reader, SizeChain& chain) {
  reader.read_array([&](std::size_t) { read_operation(reader, chain); });
}

// --- the graph form ---

WrittenNumber read_number(JsonReader& reader) {
  const JsonNumber number = reader.read_number();
  WrittenNumber written;
  const char* end = number.text.data() + number.text.size();
  const auto parsed = std::from_chars(number.text.data(), end, written.real);
  if (parsed.ec != std::errc{}) {
    reader.fail(printable(number.text, 40) + " is out of the range of a double");
  }
  written.integer = number.fits;
  if (number.fits) {
    written.whole = static_cast<std::int64_t>(number.magnitude);
    if (number.negative) written.whole = -written.whole;
  }
  return written;
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
        fmt::format("{} is too large (the most is {})", printable(number.text, 40), kMaxCount));
  }
  const auto whole = static_cast<std::int64_t>(number.magnitude);
  return number.negative ? -whole : whole;
}

template <typename Item, typename ReadItem>
std::vector<Item> read_list(JsonReader& reader, ReadItem read_item) {
  std::vector<Item> items;
  reader.read_array([&](std::size_t) { items.push_back(read_item()); });
  return items;
}

std::vector<WrittenDim> read_dims(JsonReader& reader) {
  return read_list<WrittenDim>(reader, [&] { return read_dim(reader); });
}

std::vector<std::string> read_names(JsonReader& reader) {
  return read_list<std::string>(reader, [&] { return reader.read_string(); });
}

std::vector<std::pair<std::string, std::uint64_t>> read_counts(JsonReader& reader,
                                                               std::string_view what) {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  reader.read_members(
      [&](const std::string& key) { counts.emplace_back(key, reader.read_count(what)); });
  return counts;
}

WrittenTensor read_tensor(JsonReader& reader, const std::string& name) {
  static constexpr std::array<std::string_view, 2> kFields = {"shape", "dtype"};
  WrittenTensor tensor{.name = name, .shape = {}, .dtype = {}};
  reader.read_object(kFields, [&](std::size_t field) {
    if (field == 0) {
      tensor.shape = read_dims(reader);
    } else {
      tensor.dtype = reader.read_string();
    }
  });
  return tensor;
}

WrittenValue read_value(JsonReader& reader) {
  switch (reader.peek()) {
    case JsonKind::kBoolean: return reader.read_boolean();
    case JsonKind::kNumber: return read_number(reader);
    case JsonKind::kString: return reader.read_string();
    case JsonKind::kArray: return read_dims(reader);
    default: reader.fail_type("a number, a string, true, false or a list");
  }
}

void read_attributes(JsonReader& reader, WrittenOp& op) {
  reader.read_members([&](const std::string& key) {
    op.attributes.push_back({.name = key, .value = read_value(reader), .grouped = true});
  });
}

void read_op_inputs(JsonReader& reader, WrittenOp& op) {
  reader.read_array([&](std::size_t) {
    switch (reader.peek()) {
      case JsonKind::kString: op.inputs.emplace_back(reader.read_string()); break;
      case JsonKind::kNumber: op.inputs.emplace_back(read_number(reader)); break;
      default: reader.fail_type("the name of a tensor or a number");
    }
  });
}

void read_op_outputs(JsonReader& reader, WrittenOp& op, bool one) {
  if (!op.outputs.empty()) reader.fail("give either \"output\" or \"outputs\"");
  op.one_output = one;
  if (one) {
    op.outputs.push_back(reader.read_string());
    return;
  }
  op.outputs = read_names(reader);
  if (op.outputs.empty()) reader.fail("must name at least one tensor");
}

using ReadOpMember = void (*)(JsonReader&, WrittenOp&);

struct OpMember {
  std::string_view key;
  ReadOpMember read;
};

// What an operation may hold beside its attributes.
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
                 op.inplace.emplace_back(key, reader.read_string());
               });
             }},
    OpMember{"reads",
             [](JsonReader& reader, WrittenOp& op) { op.reads = read_counts(reader, kElements); }},
    OpMember{"writes",
             [](JsonReader& reader, WrittenOp& op) { op.writes = read_counts(reader, kElements); }},
    OpMember{"flops",
             [](JsonReader& reader, WrittenOp& op) {
               op.flops = reader.read_count("a whole number of operations");
             }},
    OpMember{"class",
             [](JsonReader& reader, WrittenOp& op) { op.op_class = reader.read_string(); }},
    OpMember{"attrs", read_attributes},
};

constexpr auto kOpMemberKeys = [] {
  std::array<std::string_view, kOpMembers.size()> keys{};
  for (std::size_t i = 0; i < kOpMembers.size(); ++i) keys[i] = kOpMembers[i].key;
  return keys;
}();

WrittenOp read_op(JsonReader& reader) {
  WrittenOp op;
  reader.read_members([&](const std::string& key) {
    for (const OpMember& member : kOpMembers) {
      if (member.key == key) return member.read(reader, op);
    }
    // What is no attribute of any op, and near to one of the above, is that one misspelt.
    const std::string meant = attribute_named(key) ? "" : did_you_mean(key, kOpMemberKeys);
    if (!meant.empty()) reader.fail("unknown key " + in_quotes(key) + meant);
    op.attributes.push_back({.name = key, .value = read_value(reader)});
  });
  if (op.op.empty()) reader.fail("missing key \"op\"");
  if (op.outputs.empty()) reader.fail("missing key \"output\" (the tensor that it writes)");
  return op;
}

// --- what stands at the top ---

enum class Form { kEither, kSizes, kGraph };

using ReadMember = void (*)(JsonReader&, SizeChain&, WrittenGraph&);

struct Member {
  std::string_view key;
  Form form;
  ReadMember read;
};

void read_format(JsonReader& reader, SizeChain&, WrittenGraph&) {
  const std::string format = reader.read_string();
  if (format != "fusecalc.ops/1") {
    reader.fail("unknown format " + in_quotes(format) + " (this version reads \"fusecalc.ops/1\")");
  }
}

void read_name(JsonReader& reader, SizeChain& chain, WrittenGraph& graph) {
  chain.name = graph.name = reader.read_string();
}

void read_dtype_bytes(JsonReader& reader, SizeChain& chain, WrittenGraph&) {
  chain.dtype_bytes = reader.read_count("a whole number of bytes");
  if (chain.dtype_bytes == 0) reader.fail("must be at least 1");
}

void read_tensors(JsonReader& reader, SizeChain&, WrittenGraph& graph) {
  reader.read_members(
      [&](const std::string& name) { graph.tensors.push_back(read_tensor(reader, name)); });
}

constexpr std::array kMembers = {
    Member{"format", Form::kGraph, read_format},
    Member{"name", Form::kEither, read_name},
    Member{"dtype_bytes", Form::kSizes, read_dtype_bytes},
    Member{"operations", Form::kSizes,
           [](JsonReader& reader, SizeChain& chain, WrittenGraph&) {
             read_operations(reader, chain);
           }},
    Member{"dtype", Form::kGraph,
           [](JsonReader& reader, SizeChain&, WrittenGraph& graph) {
             graph.dtype = reader.read_string();
           }},
    Member{"dims", Form::kGraph,
           [](JsonReader& reader, SizeChain&, WrittenGraph& graph) {
             graph.dims = read_counts(reader, "a whole number");
           }},
    Member{"tensors", Form::kGraph, read_tensors},
    Member{"ops", Form::kGraph,
           [](JsonReader& reader, SizeChain&, WrittenGraph& graph) {
             graph.ops = read_list<WrittenOp>(reader, [&] { return read_op(reader); });
           }},
    Member{"outputs", Form::kGraph,
           [](JsonReader& reader, SizeChain&, WrittenGraph& graph) {
             graph.outputs = read_names(reader);
           }},
    Member{"fuse", Form::kGraph,
           [](JsonReader& reader, SizeChain&, WrittenGraph& graph) {
             graph.fuse =
                 read_list<std::vector<std::string>>(reader, [&] { return read_names(reader); });
           }},
};

constexpr auto kMemberKeys = [] {
  std::array<std::string_view, kMembers.size()> keys{};
  for (std::size_t i = 0; i < kMembers.size(); ++i) keys[i] = kMembers[i].key;
  return keys;
}();

constexpr std::uint64_t bit_of(std::string_view key) {
  for (std::size_t i = 0; i < kMembers.size(); ++i) {
    if (kMemberKeys[i] == key) return std::uint64_t{1} << i;
  }
  return 0;
}

OpList read_object(JsonReader& reader, std::vector<SizedOperation>* operations) {
  SizeChain chain{.name = {}, .held = operations};
  WrittenGraph graph;
  graph.document = reader.name();
  Form form = Form::kEither;
  const std::uint64_t seen = reader.read_object(kMemberKeys, [&](std::size_t field) {
    const Member& member = kMembers[field];
    if (form == Form::kEither) form = member.form;
    if (member.form != Form::kEither && member.form != form) {
      reader.fail(
          R"(mixes two forms: "operations" and "dtype_bytes" list sizes, the rest a graph)");
    }
    member.read(reader, chain, graph);
  });
  if (form == Form::kSizes) {
    if ((seen & bit_of("operations")) == 0) reader.fail("missing key \"operations\"");
    return chain;
  }
  if ((seen & bit_of("ops")) == 0) {
    reader.fail(form == Form::kGraph
                    ? R"(missing key "ops")"
                    : R"(missing key "ops" (or "operations" for a list of sizes))");
  }
  return graph;
}

OpList read_either(JsonReader& reader, std::vector<SizedOperation>* operations) {
  switch (reader.peek()) {
    case JsonKind::kArray: {
      SizeChain chain{.name = {}, .held = operations};
      read_operations(reader, chain);
      return chain;
    }
    case JsonKind::kObject: return read_object(reader, operations);
    default: reader.fail_type(R"(an array of operations or an object with "operations" or "ops")");
  }
}

}  // namespace

OpList read_op_list(JsonReader& reader, std::vector<SizedOperation>* operations) {
  OpList list = read_either(reader, operations);
  reader.expect_end();
  return list;
}

}  // namespace fusecalc
