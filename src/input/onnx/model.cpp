#include "input/onnx/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/error.hpp"
#include "input/onnx/onnx.hpp"
#include "input/onnx/wire.hpp"

namespace fusecalc {
namespace {

using Kind = WireField::Kind;

// Graphs are nested in the branches of conditions; models rarely nest more than two.
constexpr int kMostNesting = 16;
// Nodes, attributes, numbers and names of a whole file: bounds the memory that a hostile file of a
// few gigabytes can ask for.
constexpr std::uint64_t kMostItems = 50'000'000;

// Decodes one file. A method per message; the numbers are those of the fields in onnx.proto.
class Decoder {
 public:
  Decoder(std::string_view file, const std::string& name) : file_(file), name_(name) {}

  OnnxModel model();

 private:
  template <typename OnField>
  void each(WireReader reader, OnField on_field) {
    WireField field;
    while (reader.next(field)) {
      if (++items_ > kMostItems) reader.fail("more than 50 million fields");
      on_field(reader, field);
    }
  }

  static std::string_view text(const WireReader& reader, const WireField& field) {
    if (field.kind != Kind::kBytes) reader.fail("a number where a string belongs");
    return field.bytes;
  }
  WireReader message(const WireReader& reader, const WireField& field) {
    if (field.kind != Kind::kBytes) reader.fail("a number where a message belongs");
    return reader.inside(field);
  }
  void append_wholes(std::vector<std::int64_t>& list, const WireReader& reader,
                     const WireField& field);
  void append_reals(std::vector<double>& list, const WireReader& reader, const WireField& field,
                    std::size_t size);

  OnnxGraph graph(const WireReader& reader);
  OnnxNode node(const WireReader& reader);
  OnnxAttribute attribute(const WireReader& reader);
  OnnxTensor tensor(const WireReader& reader);
  OnnxValue value(const WireReader& reader);
  std::vector<OnnxDim> shape(const WireReader& reader);
  OnnxFunction function(const WireReader& reader);

  std::string_view file_;
  const std::string& name_;
  std::uint64_t items_ = 0;
  int nesting_ = 0;
};

double real_of(std::uint64_t bits, std::size_t size) {
  if (size == 8) return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

// A repeated number is written packed, or a field for each.
void Decoder::append_wholes(std::vector<std::int64_t>& list, const WireReader& reader,
                            const WireField& field) {
  if (field.kind == Kind::kVarint) {
    list.push_back(static_cast<std::int64_t>(field.bits));
    return;
  }
  WireReader packed = message(reader, field);
  while (!packed.at_end()) {
    if (++items_ > kMostItems) packed.fail("more than 50 million fields");
    list.push_back(static_cast<std::int64_t>(packed.read_varint()));
  }
}

void Decoder::append_reals(std::vector<double>& list, const WireReader& reader,
                           const WireField& field, std::size_t size) {
  if (field.kind == Kind::kFixed32 || field.kind == Kind::kFixed64) {
    list.push_back(real_of(field.bits, field.kind == Kind::kFixed32 ? 4 : 8));
    return;
  }
  WireReader packed = message(reader, field);
  while (!packed.at_end()) {
    if (++items_ > kMostItems) packed.fail("more than 50 million fields");
    list.push_back(real_of(packed.read_fixed(size), size));
  }
}

OnnxTensor Decoder::tensor(const WireReader& reader) {
  OnnxTensor result;
  std::vector<std::int64_t> dims;
  each(reader, [&](const WireReader& at, const WireField& field) {
    switch (field.number) {
      case 1: append_wholes(dims, at, field); break;
      case 2: result.type = field.bits; break;
      case 4: append_reals(result.real, at, field, 4); break;
      case 5:
      case 7:
      case 11: append_wholes(result.whole, at, field); break;
      case 8: result.name = text(at, field); break;
      case 9: result.raw = text(at, field); break;
      case 10: append_reals(result.real, at, field, 8); break;
      case 14: result.external = field.bits == 1; break;
      default: break;
    }
  });
  for (const std::int64_t extent : dims) {
    if (extent < 0) reader.fail("a tensor with a negative extent");
    result.dims.push_back(static_cast<std::uint64_t>(extent));
  }
  return result;
}

std::vector<OnnxDim> Decoder::shape(const WireReader& reader) {
  std::vector<OnnxDim> result;
  each(reader, [&](const WireReader& at, const WireField& field) {
    if (field.number != 1) return;
    OnnxDim dim = std::string_view{};
    each(message(at, field), [&](const WireReader& inner, const WireField& part) {
      if (part.number == 1 && static_cast<std::int64_t>(part.bits) >= 0) dim = part.bits;
      if (part.number == 2) dim = text(inner, part);
    });
    result.push_back(dim);
  });
  return result;
}

OnnxValue Decoder::value(const WireReader& reader) {
  OnnxValue result;
  each(reader, [&](const WireReader& at, const WireField& field) {
    if (field.number == 1) result.name = text(at, field);
    if (field.number != 2) return;
    each(message(at, field), [&](const WireReader& type, const WireField& kind) {
      if (kind.number != 1) return;  // a tensor; sequences and maps have no size
      each(message(type, kind), [&](const WireReader& tensor_type, const WireField& part) {
        if (part.number == 1) result.type = part.bits;
        if (part.number == 2) result.shape = shape(message(tensor_type, part));
      });
    });
  });
  return result;
}

OnnxAttribute Decoder::attribute(const WireReader& reader) {
  OnnxAttribute result;
  each(reader, [&](const WireReader& at, const WireField& field) {
    switch (field.number) {
      case 1: result.name = text(at, field); break;
      case 2: result.real = real_of(field.bits, 4); break;
      case 3: result.whole = static_cast<std::int64_t>(field.bits); break;
      case 4: result.text = text(at, field); break;
      case 5: result.tensor = std::make_shared<OnnxTensor>(tensor(message(at, field))); break;
      case 6: result.graph = std::make_shared<OnnxGraph>(graph(message(at, field))); break;
      case 7: append_reals(result.reals, at, field, 4); break;
      case 8: append_wholes(result.wholes, at, field); break;
      case 21: result.refers_to = text(at, field); break;
      default: break;
    }
  });
  return result;
}

OnnxNode Decoder::node(const WireReader& reader) {
  OnnxNode result;
  each(reader, [&](const WireReader& at, const WireField& field) {
    switch (field.number) {
      case 1: result.inputs.push_back(text(at, field)); break;
      case 2: result.outputs.push_back(text(at, field)); break;
      case 3: result.name = text(at, field); break;
      case 4: result.type = text(at, field); break;
      case 5: result.attributes.push_back(attribute(message(at, field))); break;
      case 7: result.domain = text(at, field); break;
      default: break;
    }
  });
  if (result.domain == "ai.onnx") result.domain = {};
  return result;
}

OnnxGraph Decoder::graph(const WireReader& reader) {
  if (++nesting_ > kMostNesting) reader.fail("graphs nested more than 16 deep");
  OnnxGraph result;
  each(reader, [&](const WireReader& at, const WireField& field) {
    switch (field.number) {
      case 1: result.nodes.push_back(node(message(at, field))); break;
      case 2: result.name = text(at, field); break;
      case 5: result.initializers.push_back(tensor(message(at, field))); break;
      case 11: result.inputs.push_back(value(message(at, field))); break;
      case 12: result.outputs.push_back(value(message(at, field))); break;
      case 13: result.values.push_back(value(message(at, field))); break;
      default: break;
    }
  });
  --nesting_;
  return result;
}

OnnxFunction Decoder::function(const WireReader& reader) {
  OnnxFunction result;
  each(reader, [&](const WireReader& at, const WireField& field) {
    switch (field.number) {
      case 1: result.name = text(at, field); break;
      case 4: result.inputs.push_back(text(at, field)); break;
      case 5: result.outputs.push_back(text(at, field)); break;
      case 7: result.nodes.push_back(node(message(at, field))); break;
      case 10: result.domain = text(at, field); break;
      default: break;
    }
  });
  return result;
}

OnnxModel Decoder::model() {
  OnnxModel result;
  bool found = false;
  each(WireReader(file_, file_, name_), [&](const WireReader& at, const WireField& field) {
    switch (field.number) {
      case 7:
        result.graph = graph(message(at, field));
        found = true;
        break;
      case 8: {
        std::string_view domain;
        std::uint64_t version = 0;
        each(message(at, field), [&](const WireReader& inner, const WireField& part) {
          if (part.number == 1) domain = text(inner, part);
          if (part.number == 2) version = part.bits;
        });
        result.opsets[domain == "ai.onnx" ? std::string_view{} : domain] = version;
        break;
      }
      case 25: result.functions.push_back(function(message(at, field))); break;
      default: break;
    }
  });
  if (!found) {
    throw Error(Fault::kBadInput, fmt::format("{}: not an ONNX model: it has no graph", name_));
  }
  return result;
}

using enum DType;
// By code: undefined, float, uint8, int8, uint16, int16, int32, int64, string, bool, float16,
// double, uint32, uint64, complex64, complex128, bfloat16, float8 (e4m3fn, e4m3fnuz, e5m2,
// e5m2fnuz), uint4, int4, float4e2m1.
constexpr std::array<std::optional<DType>, 24> kTypes = {
    std::nullopt, kF32,     kU8,      kI8,      kI16,     kI16, kI32,         kI64,
    std::nullopt, kBool,    kF16,     kF64,     kI32,     kI64, std::nullopt, std::nullopt,
    kBf16,        kFp8E4m3, kFp8E4m3, kFp8E5m2, kFp8E5m2, kU4,  kI4,          kFp4E2m1};

}  // namespace

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  const auto found = std::ranges::find(attributes, attribute, &OnnxAttribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::optional<DType> dtype_of_onnx(std::uint64_t code) {
  return code < kTypes.size() ? kTypes[code] : std::nullopt;
}

bool begins_onnx(std::string_view start, bool named) {
  // First bytes of the fields of a ModelProto: version, producer, its version; domain, version of
  // the model, description, graph, opset, properties, training, functions and configuration.
  constexpr std::string_view kNoText = "\x08\x12\x1a";
  constexpr std::string_view kOthers = "\x22\x28\x32\x3a\x42\x72\xa2\xca\xd2";
  constexpr std::string_view kInGraph = "\x0a\x12\x2a\x5a\x62\x6a";
  constexpr char kGraph = '\x3a';
  constexpr char kOpset = '\x42';
  if (start.empty()) return false;
  if (kNoText.find(start[0]) != std::string_view::npos) return true;
  if (kOthers.find(start[0]) == std::string_view::npos) return false;
  if (named) return true;
  // A short length or a small number is no text, either.
  constexpr std::string_view kSpaces = "\t\n\r";
  const bool is_control = start.size() > 1 && static_cast<unsigned char>(start[1]) < 0x20;
  if (is_control && kSpaces.find(start[1]) == std::string_view::npos) return true;
  // A length, and the first field of a graph or an opset.
  std::size_t place = 1;
  while (place < start.size() && (start[place] & '\x80') != 0) ++place;
  if (place + 1 >= start.size()) return false;
  const char inner = start[place + 1];
  if (start[0] == kGraph) return kInGraph.find(inner) != std::string_view::npos;
  return start[0] == kOpset && (inner == '\x0a' || inner == '\x10');
}

OnnxModel decode_onnx(std::string_view bytes, const std::string& name) {
  return Decoder(bytes, name).model();
}

}  // namespace fusecalc
