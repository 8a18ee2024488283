#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "device/device.hpp"
#include "plan/kernel.hpp"
#include "plan/operand_order.hpp"
#include "plan/paged_rows.hpp"

namespace fusecalc {

// Which kernel runs an attention, of one op or of two products around a softmax: code generation
// and prediction ask here. `first` and `last` are the kernel's first and last contraction, the same
// where it is one op.

// An operand as its op has it: matrices of lines.
struct Matrices {
  TensorId tensor = kNone;
  Shape batch;  // axes that count matrices
  OperandOrder order;
  std::uint64_t lines = 1;
  std::uint64_t columns = 1;
};

// Queries, keys and values.
std::array<Matrices, 3> attention_operands(const OpGraph& graph, OpId first, OpId last);

// The softmax between two products, whole or as exp(x - max) / sum.
struct AttentionSoftmax {
  TensorId scores = kNone;  // what it is computed of
  TensorId weights = kNone;
};
std::optional<AttentionSoftmax> attention_softmax(const OpGraph& graph, const Kernel& kernel);

// Whether what the values are multiplied with is proportional to the softmax's weights.
bool in_proportion(const OpGraph& graph, const Kernel& kernel, OpId first, OpId last);

// An operand in memory: distances, in elements, between its rows, heads and batches.
struct OperandStrides {
  TensorId tensor = kNone;
  std::uint64_t heads = 1;   // that are not repeated by a view
  std::uint64_t offset = 0;  // of the first element
  std::uint64_t row = 0;
  std::uint64_t head = 0;
  std::uint64_t batch = 0;
  std::optional<PagedRows> pages = std::nullopt;  // whose table has the batches, where it has one
};

// What a building block for tensor cores is given.
struct TensorCoreAttention {
  std::array<OperandStrides, 3> operands;  // queries, keys, values
  std::uint64_t head = 0;                  // the size that it is compiled for
  std::uint64_t element_bytes = 0;
};
// Nothing if none takes these operands: their types, heads of other sizes or of more than 256, rows
// that begin at no multiple of 16 bytes, views that break rows up, or a GPU without such blocks.
// The kernel then multiplies by ordinary arithmetic.
std::optional<TensorCoreAttention> tensor_core_attention(const OpGraph& graph, const Kernel& kernel,
                                                         OpId first, OpId last,
                                                         ComputeCapability capability);

}  // namespace fusecalc
