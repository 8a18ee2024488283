#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "input/model_shapes.hpp"
#include "input/onnx/importer.hpp"

namespace fusecalc {

// Writes the ops of one node; false if the node has a form that the rule does not know, and the
// node becomes a custom op.
using OnnxRule = bool (*)(OnnxImporter&, const OnnxNode&);

struct OnnxRuleRow {
  std::string_view type;
  OnnxRule rule;
  std::string_view domain{};  // "" is ONNX's own
};

// A row for each operator of a table that one rule reads, then the rows of other rules.
template <typename Operator, std::size_t n, std::size_t m>
constexpr std::array<OnnxRuleRow, n + m> rows_of(const std::array<Operator, n>& table,
                                                 OnnxRule rule,
                                                 const std::array<OnnxRuleRow, m>& others) {
  std::array<OnnxRuleRow, n + m> rows{};
  for (std::size_t i = 0; i < n; ++i) rows[i] = {table[i].onnx, rule};
  for (std::size_t i = 0; i < m; ++i) rows[n + i] = others[i];
  return rows;
}

std::span<const OnnxRuleRow> onnx_pointwise_rules();
std::span<const OnnxRuleRow> onnx_same_type_rules();
std::span<const OnnxRuleRow> onnx_quantized_rules();
std::span<const OnnxRuleRow> onnx_row_rules();
std::span<const OnnxRuleRow> onnx_movement_rules();
std::span<const OnnxRuleRow> onnx_index_rules();
std::span<const OnnxRuleRow> onnx_product_rules();
std::span<const OnnxRuleRow> onnx_attention_rules();
std::span<const OnnxRuleRow> onnx_window_rules();
std::span<const OnnxRuleRow> onnx_onnxruntime_rules();
std::span<const OnnxRuleRow> onnx_language_rules();

// The rule of an operator, or null.
OnnxRule rule_of(std::string_view domain, std::string_view type);

// [B, T, heads * size] as [B, heads, T, size].
std::optional<OnnxKnown> split_heads(OnnxImporter& in, const OnnxKnown& x, std::int64_t heads);
// Writes attention of such heads, whose result has [B, T, heads * size].
bool write_joined_attention(OnnxImporter& in, const OnnxNode& node,
                            const std::vector<OnnxImporter::Operand>& inputs,
                            const OnnxImporter::Written& attributes);

// New keys or values, [B, heads, T, size], behind those of earlier tokens, if there are any: memory
// of their own, of which all is read.
std::optional<OnnxKnown> behind(OnnxImporter& in, const OnnxKnown* past, const OnnxKnown& fresh);
// The FLOPs of both products of attention, whose depths are added up; 0 where that is too many.
std::uint64_t attention_flops(std::uint64_t batch, std::uint64_t queries, std::uint64_t keys,
                              bool hides_later, std::uint64_t depth);

// A shape with so many of its first axes as one.
Shape with_merged_axes(const Shape& shape, std::size_t count);
// Where tuples of indices, along the last axis, point to along the first axes of a shape, merged.
std::optional<OnnxKnown> place_of_tuples(OnnxImporter& in, const OnnxKnown& tuples,
                                         const Shape& shape);

// Writes a rotary op of the node's first input, whose heads are apart or have to be split in so
// many, by tables of [B or 1, T, pairs].
bool write_rotary(OnnxImporter& in, const OnnxNode& node, std::int64_t count,
                  const OnnxKnown& cosines, const OnnxKnown& sines);

// The FLOPs of so many sums of products; 0 where that is too many.
std::uint64_t product_flops(std::uint64_t elements, std::uint64_t depth);

}  // namespace fusecalc
