#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Encodes ONNX models for tests, field by field; the numbers are those of onnx.proto.
namespace fusecalc::proto {

class Message {
 public:
  Message& number(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3U);
    varint(value);
    return *this;
  }
  Message& text(std::uint32_t field, std::string_view value) {
    varint(std::uint64_t{field} << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& real(std::uint32_t field, float value) {
    varint(std::uint64_t{field} << 3U | 5U);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned i = 0; i < 4; ++i) bytes_ += static_cast<char>(bits >> 8 * i & 0xffU);
    return *this;
  }
  Message& message(std::uint32_t field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>((value & 0x7fU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

inline constexpr std::uint64_t kFloat = 1;
inline constexpr std::uint64_t kInt8 = 3;
inline constexpr std::uint64_t kInt64 = 7;
inline constexpr std::uint64_t kBool = 9;

// An extent is a number, or a symbol's name.
struct Extent {
  Extent(int number) : value(static_cast<std::uint64_t>(number)) {}
  Extent(const char* name) : symbol(name) {}
  std::uint64_t value = 0;
  std::string symbol{};
};

inline Message value(std::string_view name, const std::vector<Extent>& shape,
                     std::uint64_t type = kFloat) {
  Message dims;
  for (const Extent& extent : shape) {
    Message dim;
    if (extent.symbol.empty()) {
      dim.number(1, extent.value);
    } else {
      dim.text(2, extent.symbol);
    }
    dims.message(1, dim);
  }
  return Message().text(1, name).message(
      2, Message().message(1, Message().number(1, type).message(2, dims)));
}

inline Message integers(std::string_view name, const std::vector<std::int64_t>& elements,
                        bool scalar = false) {
  Message tensor;
  if (!scalar) tensor.number(1, elements.size());
  tensor.number(2, kInt64).text(8, name);
  for (const std::int64_t element : elements) {
    tensor.number(7, static_cast<std::uint64_t>(element));
  }
  return tensor;
}

inline Message real(std::string_view name, float value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
  return Message().number(2, kFloat).text(8, name).text(9, {bytes.data(), bytes.size()});
}

inline Message attribute(std::string_view name, std::int64_t whole) {
  return Message().text(1, name).number(3, static_cast<std::uint64_t>(whole)).number(20, 2);
}
inline Message text_attribute(std::string_view name, std::string_view text) {
  return Message().text(1, name).text(4, text).number(20, 3);
}
inline Message attribute(std::string_view name, const std::vector<std::int64_t>& wholes) {
  Message result = Message().text(1, name).number(20, 7);
  for (const std::int64_t whole : wholes) result.number(8, static_cast<std::uint64_t>(whole));
  return result;
}

inline Message node(std::string_view type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}, std::string_view domain = {}) {
  Message result;
  for (const std::string& input : inputs) result.text(1, input);
  for (const std::string& output : outputs) result.text(2, output);
  result.text(3, outputs.empty() ? "" : "node_" + outputs[0]).text(4, type);
  for (const Message& given : attributes) result.message(5, given);
  if (!domain.empty()) result.text(7, domain);
  return result;
}

struct Graph {
  std::vector<Message> nodes{};
  std::vector<Message> inputs{};
  std::vector<Message> outputs{};
  std::vector<Message> constants{};
  std::vector<Message> values{};

  Message encoded() const {
    Message graph;
    for (const Message& each : nodes) graph.message(1, each);
    graph.text(2, "test");
    for (const Message& each : constants) graph.message(5, each);
    for (const Message& each : inputs) graph.message(11, each);
    for (const Message& each : outputs) graph.message(12, each);
    for (const Message& each : values) graph.message(13, each);
    return graph;
  }
};

inline std::string model(const Graph& graph, std::uint64_t opset = 20,
                         const std::vector<Message>& functions = {}) {
  Message result = Message().number(1, 10);
  result.message(7, graph.encoded());
  result.message(8, Message().text(1, "").number(2, opset));
  for (const Message& function : functions) result.message(25, function);
  return result.bytes();
}

}  // namespace fusecalc::proto
