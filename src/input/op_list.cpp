#include "input/op_list.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "input/op_list_graph.hpp"
#include "input/pointers.hpp"
#include "input/sizes.hpp"

namespace fusecalc {
namespace {

enum class Form { kEither, kSizes, kGraph };

// The contents of either form.
struct Contents {
  SizeChain chain{};
  std::vector<SizedOperation>* operations = nullptr;
  WrittenGraph graph{};
};

using ReadMember = void (*)(JsonReader&, Contents&);

struct Member {
  std::string_view key;
  Form form;
  ReadMember read;
};

void read_format(JsonReader& reader, Contents&) {
  const std::string format = reader.read_string();
  if (format != "fusecalc.ops/1") {
    reader.fail("unknown format " + in_quotes(format) + " (this version reads \"fusecalc.ops/1\")");
  }
}

void read_name(JsonReader& reader, Contents& list) {
  list.chain.name = list.graph.name = reader.read_string();
}

void read_dtype_bytes(JsonReader& reader, Contents& list) {
  list.chain.dtype_bytes = reader.read_count("a whole number of bytes");
  if (list.chain.dtype_bytes == 0) reader.fail("must be at least 1");
}

void read_operations(JsonReader& reader, Contents& list) {
  list.chain.place = "/operations";
  read_sizes(reader, list.chain, list.operations);
}

void read_dtype(JsonReader& reader, Contents& list) { list.graph.dtype = reader.read_string(); }

void read_dims(JsonReader& reader, Contents& list) { list.graph.dims = read_named_dims(reader); }

void read_tensors(JsonReader& reader, Contents& list) {
  reader.read_members([&](const std::string& name) {
    if (skip_note(reader, name, JsonKind::kObject)) return;
    list.graph.tensors.push_back(read_tensor(reader, name));
  });
}

void read_ops(JsonReader& reader, Contents& list) {
  reader.read_array([&](std::size_t) { list.graph.ops.push_back(read_op(reader)); });
}

void read_outputs(JsonReader& reader, Contents& list) { list.graph.outputs = read_names(reader); }

void read_fuse(JsonReader& reader, Contents& list) {
  auto& groups = list.graph.fuse.emplace();
  reader.read_array([&](std::size_t) { groups.push_back(read_names(reader)); });
}

constexpr std::array kMembers = {
    Member{"format", Form::kGraph, read_format},
    Member{"name", Form::kEither, read_name},
    Member{"dtype_bytes", Form::kSizes, read_dtype_bytes},
    Member{"operations", Form::kSizes, read_operations},
    Member{"dtype", Form::kGraph, read_dtype},
    Member{"dims", Form::kGraph, read_dims},
    Member{"tensors", Form::kGraph, read_tensors},
    Member{"ops", Form::kGraph, read_ops},
    Member{"outputs", Form::kGraph, read_outputs},
    Member{"fuse", Form::kGraph, read_fuse},
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
  Contents list{.operations = operations};
  list.graph.document = reader.name();
  list.graph.name_of_place = pointer_to;
  Form form = Form::kEither;
  const std::uint64_t seen = reader.read_object(kMemberKeys, [&](std::size_t field) {
    const Member& member = kMembers[field];
    if (form == Form::kEither) form = member.form;
    if (member.form != Form::kEither && member.form != form) {
      reader.fail(
          R"(mixes two forms: "operations" and "dtype_bytes" describe sizes, the rest a graph)");
    }
    member.read(reader, list);
  });
  if (form == Form::kSizes) {
    if ((seen & bit_of("operations")) == 0) reader.fail("missing key \"operations\"");
    return std::move(list.chain);
  }
  if ((seen & bit_of("ops")) == 0) {
    reader.fail(form == Form::kGraph
                    ? R"(missing key "ops")"
                    : R"(missing key "ops" (or "operations" for a list of sizes))");
  }
  return std::move(list.graph);
}

OpList read_either(JsonReader& reader, std::vector<SizedOperation>* operations) {
  switch (reader.peek()) {
    case JsonKind::kArray: {
      SizeChain chain;
      read_sizes(reader, chain, operations);
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
