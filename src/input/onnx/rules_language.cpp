// Operators of com.microsoft of which the language models of ONNX Runtime are made.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checked.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

std::int64_t size_of(std::uint64_t extent) { return static_cast<std::int64_t>(extent); }

// Some elements of an axis, read where they are.
std::optional<OnnxKnown> range_of(OnnxImporter& in, const OnnxKnown& x, std::size_t axis,
                                  std::uint64_t start, std::uint64_t count) {
  return in.write_step("slice_view", {&x},
                       {listed("axes", {size_of(axis)}), listed("starts", {size_of(start)}),
                        listed("ends", {size_of(start + count)})});
}

// The rows of a table for places that follow each other from `start` on, as [1, count, row].
std::optional<OnnxKnown> table_rows(OnnxImporter& in, const OnnxKnown& table, std::uint64_t start,
                                    std::uint64_t count) {
  const Shape shape = table.type.shape;
  if (shape.size() != 2 || start > shape[0] || count > shape[0] - start) return std::nullopt;
  const auto rows = range_of(in, table, 0, start, count);
  return rows ? in.reshape(*rows, {1, count, shape[1]}) : std::nullopt;
}

// A product with a weight whose numbers are packed, or that is quantized on the way: a kernel of
// its own, whose results have as many columns as the weight has.
bool write_product(OnnxImporter& in, const OnnxNode& node, std::uint64_t depth,
                   std::uint64_t columns, DType dtype) {
  TensorType type{in.input(node, 0)->type.shape, dtype};
  if (type.shape.empty() || type.shape.back() != depth || columns == 0) return false;
  type.shape.back() = columns;
  const auto elements = checked_elements(type.shape);
  return elements &&
         in.write_custom(node, OpClass::kContract, product_flops(*elements, depth), {type});
}

bool packed_product(OnnxImporter& in, const OnnxNode& node) {
  return write_product(in, node, static_cast<std::uint64_t>(whole_attribute(node, "K", 0)),
                       static_cast<std::uint64_t>(whole_attribute(node, "N", 0)),
                       in.input(node, 0)->type.dtype);
}

// Of f32 numbers, or of integers and their scales.
bool quantized_product(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* weight = in.input(node, 1);
  if (weight == nullptr || weight->type.shape.size() != 2) return false;
  const Shape shape = weight->type.shape;
  return write_product(in, node, shape[0], shape[1], DType::kF32);
}

// Places are given for each token, or the first of tokens that follow each other.
bool rotary_by_place(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* places = in.input(node, 1);
  if (places == nullptr || in.input(node, 2) == nullptr || in.input(node, 3) == nullptr) {
    return false;
  }
  const Shape shape = in.input(node, 0)->type.shape;
  if (shape.size() < 3) return false;
  const bool each = places->type.shape.size() == 2;
  std::vector<OnnxKnown> tables;
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
    const OnnxKnown* given = in.input(node, i);
    const auto table = each ? in.write_step("gather", {given, places}, {listed("axes", {0})})
                            : table_rows(in, *given, 0, shape[shape.size() == 3 ? 1 : 2]);
    if (!table || table->type.shape.size() != 3) return false;
    tables.push_back(*table);
  }
  std::int64_t heads = whole_attribute(node, "num_heads", 0);
  // A table has a column for each pair of a head.
  const std::uint64_t head = 2 * tables[0].type.shape.back();
  if (heads == 0 && shape.size() == 3 && head != 0) heads = size_of(shape[2] / head);
  return write_rotary(in, node, heads, tables[0], tables[1]);
}

// Sums of rows of words, places and segments, and their norm. Its second result is how many tokens
// of a mask count.
bool embedded_norm(OnnxImporter& in, const OnnxNode& node) {
  constexpr std::size_t kMask = 7;
  const OnnxKnown* words = in.input(node, 2);
  const OnnxKnown* places = in.input(node, 3);
  if (words == nullptr || places == nullptr || in.input(node, 5) == nullptr) return false;
  const OnnxKnown* indices = in.input(node, 0);
  const Shape shape = indices->type.shape;
  if (shape.size() != 2) return false;
  auto sum = in.write_step("embedding", {words, indices});
  const auto add = [&](const std::optional<OnnxKnown>& rows) {
    sum = sum && rows ? in.write_step("add", {&*sum, &*rows}) : std::nullopt;
  };
  const OnnxKnown* stated = in.input(node, 8);
  add(stated != nullptr ? in.write_step("embedding", {places, stated})
                        : table_rows(in, *places, 0, shape[1]));
  const OnnxKnown* segments = in.input(node, 1);
  if (segments != nullptr && in.input(node, 4) != nullptr) {
    add(in.write_step("embedding", {in.input(node, 4), segments}));
  }
  if (!sum) return false;
  const auto wanted = [&node](std::size_t i) {
    return i < node.outputs.size() && !node.outputs[i].empty();
  };
  if (wanted(1)) {
    const OnnxKnown* mask = in.input(node, kMask);
    const auto count =
        mask != nullptr ? in.write_step("sum", {mask}, {listed("axes", {1})}) : std::nullopt;
    const auto whole =
        count ? in.write_step("cast", {&*count}, {{"to", std::string("i32")}}) : std::nullopt;
    if (!whole) return false;
    in.alias(node, *whole, 1);
  }
  if (wanted(2)) in.alias(node, *sum, 2);
  std::vector<Operand> inputs = {&*sum, in.input(node, 5)};
  if (in.input(node, 6) != nullptr) inputs.emplace_back(in.input(node, 6));
  return in.write(node, "layer_norm", inputs, {{"eps", real_attribute(node, "epsilon", 1e-12)}});
}

// Which keys count, as [B, 1, 1, T]: those that a mask does not hide, or the first so many.
std::optional<OnnxKnown> keys_that_count(OnnxImporter& in, const OnnxKnown& mask,
                                         std::uint64_t batch, std::uint64_t length) {
  std::optional<OnnxKnown> counts;
  if (mask.type.shape == Shape{batch, length}) {
    counts = in.write_step("ne", {&mask, 0.0});
  } else if (mask.type.shape == Shape{batch}) {
    const auto lengths = in.reshape(mask, {batch, 1});
    const auto keys = in.write_step(
        "iota", {},
        {listed("shape", {size_of(length)}), {"to", std::string(name_of(mask.type.dtype))}});
    if (lengths && keys) counts = in.write_step("lt", {&*keys, &*lengths});
  }
  return counts ? in.reshape(*counts, {batch, 1, 1, length}) : std::nullopt;
}

// The product that makes queries, keys and values side by side, and their attention.
bool projected_attention(OnnxImporter& in, const OnnxNode& node) {
  constexpr std::size_t kMask = 3;
  const OnnxKnown* weight = in.input(node, 1);
  const Shape shape = in.input(node, 0)->type.shape;
  for (std::size_t i = kMask + 1; i < node.inputs.size(); ++i) {
    if (in.input(node, i) != nullptr) return false;
  }
  if (weight == nullptr || shape.size() != 3 || OnnxImporter::output_count(node) > 1 ||
      node.find("qkv_hidden_sizes") != nullptr || whole_attribute(node, "do_rotary", 0) != 0) {
    return false;
  }
  auto all = in.write_step("matmul", {in.input(node, 0), weight});
  if (all && in.input(node, 2) != nullptr) all = in.write_step("add", {&*all, in.input(node, 2)});
  if (!all || all->type.shape.back() % 3 != 0) return false;
  const std::uint64_t width = all->type.shape.back() / 3;
  std::vector<OnnxKnown> parts;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto part = range_of(in, *all, 2, i * width, width);
    const auto heads =
        part ? split_heads(in, *part, whole_attribute(node, "num_heads", 0)) : std::nullopt;
    if (!heads) return false;
    parts.push_back(*heads);
  }
  std::vector<Operand> inputs = {&parts[0], &parts[1], &parts[2]};
  std::optional<OnnxKnown> mask;
  if (const OnnxKnown* given = in.input(node, kMask)) {
    mask = keys_that_count(in, *given, shape[0], shape[1]);
    if (!mask) return false;
    inputs.emplace_back(&*mask);
  }
  OnnxImporter::Written attributes;
  if (whole_attribute(node, "unidirectional", 0) != 0) attributes.push_back({"causal", true});
  const double scale = real_attribute(node, "scale", 0);
  if (scale != 0) attributes.push_back({"scale", scale});
  return write_joined_attention(in, node, inputs, attributes);
}

// Of a token for each of the batch's sequences, or several: what GroupQueryAttention is given.
struct Grouped {
  std::uint64_t batch = 0;
  std::uint64_t length = 0;  // of the new tokens
  std::uint64_t past = 0;
  std::uint64_t heads = 0;
  std::uint64_t shared = 0;  // of keys and values
  std::uint64_t size = 0;    // of a head
  bool packed = false;       // queries, keys and values are one input
};

std::optional<Grouped> grouped(const OnnxImporter& in, const OnnxNode& node) {
  const Shape shape = in.input(node, 0)->type.shape;
  const std::int64_t heads = whole_attribute(node, "num_heads", 0);
  const std::int64_t shared = whole_attribute(node, "kv_num_heads", 0);
  if (shape.size() != 3 || heads < 1 || shared < 1 || heads % shared != 0) return std::nullopt;
  Grouped result{.batch = shape[0], .length = shape[1]};
  result.heads = static_cast<std::uint64_t>(heads);
  result.shared = static_cast<std::uint64_t>(shared);
  result.packed = in.input(node, 1) == nullptr;
  const std::uint64_t rows = result.heads + (result.packed ? 2 * result.shared : 0);
  if (shape[2] % rows != 0) return std::nullopt;
  result.size = shape[2] / rows;
  if (const OnnxKnown* past = in.input(node, 3)) {
    if (past->type.shape.size() != 4) return std::nullopt;
    result.past = past->type.shape[2];
  }
  return result;
}

// Heads of what is rotated: by the rows of the tables that follow those of earlier tokens.
std::optional<OnnxKnown> rotated(OnnxImporter& in, const OnnxNode& node, const Grouped& of,
                                 const OnnxKnown& heads) {
  if (whole_attribute(node, "do_rotary", 0) == 0) return heads;
  const OnnxKnown* given[2] = {in.input(node, 7), in.input(node, 8)};
  if (given[0] == nullptr || given[1] == nullptr) return std::nullopt;
  const auto cosines = table_rows(in, *given[0], of.past, of.length);
  const auto sines = table_rows(in, *given[1], of.past, of.length);
  if (!cosines || !sines) return std::nullopt;
  OnnxImporter::Written attributes;
  if (whole_attribute(node, "rotary_interleaved", 0) != 0) {
    attributes.push_back({"interleaved", true});
  }
  const std::uint64_t turned = 2 * given[0]->type.shape[1];
  if (turned != of.size) attributes.push_back({"rotated", size_of(turned)});
  return in.write_step("rotary", {&heads, &*cosines, &*sines}, attributes);
}

bool write_grouped(OnnxImporter& in, const OnnxNode& node, const Grouped& of) {
  constexpr std::size_t kPlaces = 9;
  for (std::size_t i = kPlaces; i < node.inputs.size(); ++i) {
    if (in.input(node, i) != nullptr) return false;
  }
  if (real_attribute(node, "softcap", 0) != 0 || whole_attribute(node, "smooth_softmax", 0) > 0 ||
      whole_attribute(node, "local_window_size", -1) > 0 || OnnxImporter::output_count(node) > 3) {
    return false;
  }
  const Shape cache = {of.batch, of.shared, of.past + of.length, of.size};
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto stated = in.stated(node, i);
    if (stated && stated->shape != cache) return false;  // the caches are overwritten in place
  }
  std::vector<OnnxKnown> heads;
  const std::uint64_t counts[3] = {of.heads, of.shared, of.shared};
  std::uint64_t start = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const OnnxKnown* given = in.input(node, of.packed ? 0 : i);
    if (given == nullptr) return false;
    const std::uint64_t width = counts[i] * of.size;
    const auto part =
        of.packed ? range_of(in, *given, 2, start, width) : std::optional<OnnxKnown>(*given);
    start += width;
    auto apart = part ? split_heads(in, *part, size_of(counts[i])) : std::nullopt;
    if (apart && i < 2) apart = rotated(in, node, of, *apart);
    if (apart && i > 0) apart = behind(in, in.input(node, i + 2), *apart);
    if (!apart) return false;
    heads.push_back(*apart);
  }
  OnnxImporter::Written attributes = {{"causal", true}};
  const double scale = real_attribute(node, "scale", 0);
  if (scale != 0) attributes.push_back({"scale", scale});
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (i < node.outputs.size() && !node.outputs[i].empty()) in.alias(node, heads[i], i);
  }
  return write_joined_attention(in, node, {&heads[0], &heads[1], &heads[2]}, attributes);
}

// Rotary embeddings of queries and keys, keys and values behind those of earlier tokens, and their
// attention; a custom op where it has more than that.
bool grouped_attention(OnnxImporter& in, const OnnxNode& node) {
  const auto of = grouped(in, node);
  if (!of) return false;
  if (write_grouped(in, node, *of)) return true;
  const DType dtype = in.input(node, 0)->type.dtype;
  const TensorType result{{of->batch, of->length, of->heads * of->size}, dtype};
  TensorType cache{{of->batch, of->shared, of->past + of->length, of->size}, dtype};
  if (const auto stated = in.stated(node, 1)) cache = *stated;
  if (!checked_elements(cache.shape)) return false;
  const std::uint64_t flops =
      attention_flops(of->batch * of->heads, of->length, of->past + of->length, true, 2 * of->size);
  return in.write_custom(node, OpClass::kContract, flops, {result, cache, cache});
}

constexpr std::string_view kMicrosoft = "com.microsoft";

constexpr std::array kLanguageRules = {
    OnnxRuleRow{"MatMulNBits", packed_product, kMicrosoft},
    OnnxRuleRow{"DynamicQuantizeMatMul", quantized_product, kMicrosoft},
    OnnxRuleRow{"MatMulIntegerToFloat", quantized_product, kMicrosoft},
    OnnxRuleRow{"RotaryEmbedding", rotary_by_place, kMicrosoft},
    OnnxRuleRow{"EmbedLayerNormalization", embedded_norm, kMicrosoft},
    OnnxRuleRow{"Attention", projected_attention, kMicrosoft},
    OnnxRuleRow{"GroupQueryAttention", grouped_attention, kMicrosoft},
};

}  // namespace

std::span<const OnnxRuleRow> onnx_language_rules() { return kLanguageRules; }

}  // namespace fusecalc
