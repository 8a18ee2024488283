#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/code_block.hpp"
#include "codegen/scope.hpp"
#include "plan/attention_operands.hpp"

namespace fusecalc {

// What an attention kernel computes, up to the product with the values. Both blocks change v[j], a
// group of neighbouring scores or weights, in a loop over the matrix of scores (MatrixLoop).
struct AttentionParts {
  std::array<Matrices, 3> operands;  // queries, keys, values
  std::uint64_t batches = 1;
  std::uint64_t heads = 1;
  std::uint64_t key_heads = 1;
  std::uint64_t queries = 1;
  std::uint64_t keys = 1;
  std::uint64_t size = 1;  // of queries and keys
  std::uint64_t value_size = 1;
  double scale = 1;
  bool causal = false;
  std::uint64_t window = 0;          // causal: keys that a query sees at most
  std::optional<CodeBlock> scores;   // if there are ops between the scale and the softmax
  std::optional<CodeBlock> weights;  // if there are ops between the softmax and the values
};

// Of an attention op, or of two products around a softmax; `type` is what they are computed in.
AttentionParts attention_parts(KernelCode& code, OpId first, OpId last, ComputeType type);

}  // namespace fusecalc
