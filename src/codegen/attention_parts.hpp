#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/code_block.hpp"
#include "codegen/matrix_product.hpp"
#include "codegen/scope.hpp"

namespace fusecalc {

// An operand as its op has it: matrices of lines.
struct Matrices {
  TensorId tensor = kNone;
  Shape batch;  // axes that count matrices
  OperandOrder order;
  std::uint64_t lines = 1;
  std::uint64_t columns = 1;
};

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
  bool apart = false;  // the values' batch axes differ from those of the scores
  double scale = 1;
  bool causal = false;
  std::uint64_t window = 0;          // causal: keys that a query sees at most
  std::optional<CodeBlock> scores;   // if there are ops between the scale and the softmax
  std::optional<CodeBlock> weights;  // if there are ops between the softmax and the values
  bool in_proportion = true;         // `weights` is proportional to the weight
};

// Of an attention op, or of two products around a softmax; `type` is what they are computed in.
AttentionParts attention_parts(KernelCode& code, OpId first, OpId last, ComputeType type);

}  // namespace fusecalc
