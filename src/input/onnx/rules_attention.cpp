// Attention of queries, keys and values, with those of earlier tokens.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/checked.hpp"
#include "input/causal_mask.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

enum Input : std::size_t { kQueries, kKeys, kValues, kMask, kPastKeys, kPastValues };
enum Output : std::size_t { kResult, kPresentKeys, kPresentValues, kScores };

bool is_wanted(const OnnxNode& node, std::size_t output) {
  return output < node.outputs.size() && !node.outputs[output].empty();
}

// Heads that were repeated for as many queries are read once.
const OnnxKnown& unrepeated(const OnnxKnown& value) {
  return value.repeated && !value.expanded_axis ? *value.repeated : value;
}

// Of [B, heads, T, size], or what has the heads side by side as [B, T, heads * size].
std::optional<OnnxKnown> heads_of(OnnxImporter& in, const OnnxKnown& x, std::int64_t count) {
  return x.type.shape.size() == 4 ? x : split_heads(in, x, count);
}

// Keys or values: those of earlier tokens, and the new ones.
std::optional<OnnxKnown> with_past(OnnxImporter& in, const OnnxNode& node, std::size_t fresh,
                                   std::int64_t count) {
  const OnnxKnown* past = in.input(node, fresh == kKeys ? kPastKeys : kPastValues);
  const std::size_t present = fresh == kKeys ? kPresentKeys : kPresentValues;
  const bool cached = past != nullptr || is_wanted(node, present);
  const OnnxKnown& given = *in.input(node, fresh);
  const auto heads = heads_of(in, cached ? given : unrepeated(given), count);
  if (!heads || !cached) return heads;
  if (past != nullptr && past->type.shape.size() != 4) return std::nullopt;
  return behind(in, past, *heads);
}

struct Heads {
  OnnxKnown queries;
  OnnxKnown keys;
  OnnxKnown values;
  std::uint64_t fresh = 0;  // keys that are not of earlier tokens

  std::uint64_t query_count() const { return queries.type.shape[2]; }
  std::uint64_t key_count() const { return keys.type.shape[2]; }
};

std::optional<Heads> heads_of(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* fresh = in.input(node, kKeys);
  if (fresh == nullptr || in.input(node, kValues) == nullptr) return std::nullopt;
  if ((in.input(node, kPastKeys) == nullptr) != (in.input(node, kPastValues) == nullptr)) {
    return std::nullopt;
  }
  const std::int64_t heads = whole_attribute(node, "q_num_heads", 0);
  const std::int64_t shared = whole_attribute(node, "kv_num_heads", heads);
  const auto queries = heads_of(in, *in.input(node, kQueries), heads);
  const auto keys = with_past(in, node, kKeys, shared);
  const auto values = with_past(in, node, kValues, shared);
  if (!queries || !keys || !values) return std::nullopt;
  const Shape& shape = fresh->type.shape;
  return Heads{*queries, *keys, *values, shape[shape.size() == 4 ? 2 : 1]};
}

bool is_causal(const OnnxNode& node) { return whole_attribute(node, "is_causal", 0) != 0; }

bool write_attention(OnnxImporter& in, const OnnxNode& node, const Heads& heads) {
  std::vector<Operand> inputs = {&heads.queries, &heads.keys, &heads.values};
  // `causal` aligns the last query and key, ONNX the first query and the first new key.
  if (is_causal(node) && heads.query_count() != heads.fresh) return false;
  const OnnxKnown* mask = in.input(node, kMask);
  auto causal = mask != nullptr ? in.causal(*mask) : std::nullopt;
  if (mask != nullptr && !causal) inputs.emplace_back(mask);
  if (is_causal(node) && !causal) causal = CausalMask{};
  OnnxImporter::Written attributes;
  if (causal) attributes = causal->attributes();
  if (const OnnxAttribute* scale = node.find("scale"); scale != nullptr && scale->real) {
    attributes.push_back({"scale", *scale->real});
  }
  if (is_wanted(node, kPresentKeys)) in.alias(node, heads.keys, kPresentKeys);
  if (is_wanted(node, kPresentValues)) in.alias(node, heads.values, kPresentValues);
  if (in.input(node, kQueries)->type.shape.size() == 4) {
    return in.write_as(node, "attention", inputs, {heads.queries.type.dtype}, attributes);
  }
  return write_joined_attention(in, node, inputs, attributes);
}

// One kernel that changes the scores as no row does, or has them as a result.
bool write_custom_attention(OnnxImporter& in, const OnnxNode& node, const Heads& heads) {
  const DType dtype = heads.queries.type.dtype;
  Shape scores = heads.queries.type.shape;
  if (scores.size() != 4 || heads.keys.type.shape.size() != 4) return false;
  const std::uint64_t size = heads.values.type.shape.back();
  Shape result = scores;
  result.back() = size;
  if (in.input(node, kQueries)->type.shape.size() == 3) {
    result = {scores[0], scores[2], scores[1]};
    if (!checked_multiply(result.back(), size)) return false;
  }
  std::uint64_t depth = scores.back();
  scores.back() = heads.key_count();
  if (!checked_add(depth, size) || !checked_elements(scores)) return false;
  const bool hides_later = is_causal(node) && heads.query_count() == heads.fresh;
  const std::uint64_t flops =
      attention_flops(scores[0] * scores[1], scores[2], scores[3], hides_later, depth);
  return in.write_custom(node, OpClass::kContract, flops,
                         {{result, dtype}, heads.keys.type, heads.values.type, {scores, dtype}});
}

bool attention(OnnxImporter& in, const OnnxNode& node) {
  const auto heads = heads_of(in, node);
  if (!heads) return false;
  const bool plain = real_attribute(node, "softcap", 0) == 0 && !is_wanted(node, kScores);
  return (plain && write_attention(in, node, *heads)) || write_custom_attention(in, node, *heads);
}

constexpr std::array kAttentionRules = {OnnxRuleRow{"Attention", attention}};

}  // namespace

std::optional<OnnxKnown> split_heads(OnnxImporter& in, const OnnxKnown& x, std::int64_t heads) {
  const Shape& shape = x.type.shape;
  if (shape.size() != 3 || heads < 1) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(heads);
  if (shape[2] % count != 0) return std::nullopt;
  const auto apart = in.reshape(x, {shape[0], shape[1], count, shape[2] / count});
  return apart ? in.permute(*apart, {0, 2, 1, 3}) : std::nullopt;
}

bool write_joined_attention(OnnxImporter& in, const OnnxNode& node,
                            const std::vector<OnnxImporter::Operand>& inputs,
                            const OnnxImporter::Written& attributes) {
  const DType dtype = std::get<const OnnxKnown*>(inputs[0])->type.dtype;
  const auto result = in.write_step_as("attention", inputs, dtype, attributes);
  const auto rows = result ? in.permute(*result, {0, 2, 1, 3}) : std::nullopt;
  if (!rows) return false;
  const Shape& shape = rows->type.shape;
  // One kernel computes it, which writes the rows of all heads side by side.
  const auto whole = [](std::uint64_t extent) { return static_cast<std::int64_t>(extent); };
  return in.write(
      node, "reshape", {&*rows},
      {listed("shape", {whole(shape[0]), whole(shape[1]), whole(shape[2]) * whole(shape[3])})});
}

std::optional<OnnxKnown> behind(OnnxImporter& in, const OnnxKnown* past, const OnnxKnown& fresh) {
  if (past == nullptr || past->type.shape[2] == 0) return in.write_step("copy", {&fresh});
  return in.write_step("concat", {past, &fresh}, {listed("axes", {2})});
}

std::uint64_t attention_flops(std::uint64_t batch, std::uint64_t queries, std::uint64_t keys,
                              bool hides_later, std::uint64_t depth) {
  std::uint64_t scores = queries;
  if (!checked_multiply(scores, keys)) return 0;
  // Of the last keys, as many as there are queries, each query sees one more than the one before.
  if (hides_later && queries > 0 && queries <= keys) scores -= queries * (queries - 1) / 2;
  return checked_multiply(scores, batch) ? product_flops(scores, depth) : 0;
}

std::span<const OnnxRuleRow> onnx_attention_rules() { return kAttentionRules; }

}  // namespace fusecalc
