#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.hpp"

namespace fusecalc {

// Activations that the vendor's library can apply to a product. Its gelu is the tanh form.
enum class MatmulEpilogue : std::uint8_t { kPlain, kBias, kRelu, kReluBias, kGelu, kGeluBias };

// Products side by side: how many, and how many elements lie between them (0: all use the same).
struct MatmulBatch {
  std::uint64_t count = 1;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t result = 0;

  bool operator==(const MatmulBatch&) const = default;
};

// result[m][n] = sum over k of a[m][k] b[k][n], as the vendor's library computes it: what any
// framework runs for a contraction in a kernel of its own. Lines are a whole number of elements
// apart.
struct LibraryMatmul {
  DType operand = DType::kF32;
  DType outcome = DType::kF32;  // i32 for products of i8
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  bool a_transposed = false;  // a lies as [k][m]
  bool b_transposed = false;  // b lies as [n][k], as a linear layer's weight does
  std::uint64_t a_line = 0;
  std::uint64_t b_line = 0;
  std::uint64_t result_line = 0;
  std::vector<MatmulBatch> batches{};  // the outermost first
  MatmulEpilogue epilogue = MatmulEpilogue::kPlain;

  // Whether a kernel of ours may be faster: where lines for tensor cores, of an operand or of the
  // result, are no whole 16 bytes, for which the library has kernels of older GPUs alone, which
  // take 2 to 8 times as long on Hopper; and with 32-bit floats, which it multiplies without tensor
  // cores.
  bool may_be_slow() const;

  bool operator==(const LibraryMatmul&) const = default;
};

}  // namespace fusecalc
