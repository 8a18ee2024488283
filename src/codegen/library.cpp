#include "codegen/library.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "graph/inference.hpp"
#include "graph/product_parts.hpp"

namespace fusecalc {
namespace {

constexpr std::array kLibraryTypes = {DType::kF64,  DType::kF32,     DType::kTf32, DType::kF16,
                                      DType::kBf16, DType::kFp8E4m3, DType::kI8,   DType::kFp8E5m2};

struct EpilogueRow {
  LibraryStep activation;
  MatmulEpilogue plain;
  MatmulEpilogue with_bias;
};

constexpr std::array kEpilogues = {
    EpilogueRow{LibraryStep::kNone, MatmulEpilogue::kPlain, MatmulEpilogue::kBias},
    EpilogueRow{LibraryStep::kRelu, MatmulEpilogue::kRelu, MatmulEpilogue::kReluBias},
    EpilogueRow{LibraryStep::kGelu, MatmulEpilogue::kGelu, MatmulEpilogue::kGeluBias},
};

// The product by itself.
LibraryMatmul matmul_of(const MatrixProduct& product, DType operand, DType outcome) {
  LibraryMatmul matmul{.operand = operand,
                       .outcome = outcome,
                       .m = product.m,
                       .n = product.n,
                       .k = product.k,
                       .a_transposed = product.a.across,
                       .b_transposed = !product.b.across,
                       .a_line = product.a.line,
                       .b_line = product.b.line,
                       .result_line = product.n};
  const std::uint64_t matrix = product.m * product.n;
  if (product.outer > 1) {
    matmul.batches.push_back({.count = product.outer,
                              .a = product.a.outer,
                              .b = product.b.outer,
                              .result = product.inner * matrix});
  }
  if (product.batches() > 1) {
    matmul.batches.push_back(
        {.count = product.inner, .a = product.a.inner, .b = product.b.inner, .result = matrix});
  }
  return matmul;
}

// Follows what a kernel does with a product, op by op.
class LibraryMatch {
 public:
  LibraryMatch(const KernelView& kernel, const Op& contraction, const MatrixProduct& product)
      : kernel_(kernel),
        graph_(kernel.graph()),
        product_(product),
        result_(contraction.outputs[0]),
        outcome_(graph_.tensors[result_].type.dtype),
        bias_(bias_of(contraction)) {}

  bool follow(const Op& contraction);
  bool bias_fits() const;

  TensorId result() const { return result_; }
  DType outcome() const { return outcome_; }
  TensorId bias() const { return bias_; }
  MatmulEpilogue epilogue() const {
    const auto* row = std::ranges::find(kEpilogues, activation_, &EpilogueRow::activation);
    return bias_ == kNone ? row->plain : row->with_bias;
  }

 private:
  bool take(const Op& op);
  bool take_bias(const Op& op);
  bool is_result(const Operand& operand) const;

  const KernelView& kernel_;
  const OpGraph& graph_;
  const MatrixProduct& product_;
  TensorId result_;
  DType outcome_;
  TensorId bias_;
  LibraryStep activation_ = LibraryStep::kNone;
};

// Read in its own order.
bool LibraryMatch::is_result(const Operand& operand) const {
  return operand.tensor != kNone && graph_.tensors[operand.tensor].window == result_;
}

bool LibraryMatch::follow(const Op& contraction) {
  return std::ranges::all_of(kernel_.ops(), [&](OpId id) {
    const Op& op = kernel_.op(id);
    return &op == &contraction || take(op);
  });
}

// Whether the op is the next step of the call; its result is the call's then.
bool LibraryMatch::take(const Op& op) {
  if (activation_ != LibraryStep::kNone || kernel_.needed_outside(result_)) return false;
  if (graph_.tensors[op.outputs[0]].type.dtype != outcome_) return false;
  const bool of_tanh = op.attributes->approximate == GeluKind::kTanh;
  if (op.row->library == LibraryStep::kBias) {
    if (!take_bias(op)) return false;
  } else if (op.row->library == LibraryStep::kRelu ||
             (op.row->library == LibraryStep::kGelu && of_tanh)) {
    if (!is_result(op.operands[0])) return false;
    activation_ = op.row->library;
  } else {
    return false;
  }
  result_ = op.outputs[0];
  return true;
}

// One number for each column, of the kernel's outside.
bool LibraryMatch::take_bias(const Op& op) {
  if (bias_ != kNone) return false;
  const bool first = is_result(op.operands[0]);
  if (!first && !is_result(op.operands[1])) return false;
  const TensorId other = op.operands[first ? 1 : 0].tensor;
  if (other == kNone || is_result(op.operands[first ? 1 : 0])) return false;
  const Tensor& tensor = graph_.tensors[other];
  const OpId producer = graph_.value_of(other).producer;
  if (producer != kNone && kernel_.contains(producer)) return false;
  const Shape& shape = graph_.tensors[op.outputs[0]].type.shape;
  const bool of_columns = !shape.empty() && shape.back() == product_.n &&
                          tensor.elements == product_.n && !tensor.type.shape.empty() &&
                          tensor.type.shape.back() == product_.n;
  if (!of_columns) return false;
  bias_ = other;
  return true;
}

// As the library reads it: neighbours, of the outcome's type.
bool LibraryMatch::bias_fits() const {
  if (bias_ == kNone) return true;
  return graph_.tensors[bias_].type.dtype == outcome_ && offset_of(graph_, bias_) &&
         distance(graph_, bias_, product_.n, 1) == std::uint64_t{1};
}

}  // namespace

bool LibraryMatmul::may_be_slow() const {
  if (operand == DType::kF64 || n == 1) return false;
  if (operand == DType::kF32) return true;
  const std::uint64_t operands = bytes_of(operand, a_line) | bytes_of(operand, b_line);
  return (operands | bytes_of(outcome, result_line)) % 16 != 0;
}

std::optional<LibraryProduct> library_product(const KernelView& kernel, const Op& contraction,
                                              const MatrixProduct& product) {
  const OpGraph& graph = kernel.graph();
  const DType operand = graph.tensors[contraction.operands[0].tensor].type.dtype;
  if (graph.tensors[contraction.operands[1].tensor].type.dtype != operand) return std::nullopt;
  if (std::ranges::find(kLibraryTypes, operand) == kLibraryTypes.end()) return std::nullopt;
  // It adds what has one number for each column, and a convolution's bias has one for each row.
  const bool row_bias =
      contraction.row->family == OpFamily::kConvolution && bias_of(contraction) != kNone;
  const bool scaled = scales_of(graph, contraction, 0).tensor != kNone;
  if (product.a.piece != 0 || row_bias || product.groups > 0 || scaled) return std::nullopt;
  LibraryMatch match(kernel, contraction, product);
  if (!match.follow(contraction) || !match.bias_fits()) return std::nullopt;
  if (!kernel.needed_outside(match.result())) return std::nullopt;  // it has no memory
  LibraryProduct library{.matmul = matmul_of(product, operand, match.outcome()),
                         .a = product.a.tensor,
                         .b = product.b.tensor,
                         .result = match.result(),
                         .a_offset = product.a.offset,
                         .b_offset = product.b.offset};
  library.matmul.epilogue = match.epilogue();
  if (match.bias() != kNone) {
    library.bias = graph.tensors[match.bias()].value;
    library.bias_offset = *offset_of(graph, match.bias());
  }
  // The library writes tiles while it still reads the operands of others.
  for (const TensorId read : {library.a, library.b, library.bias}) {
    if (read != kNone && graph.storage_of(read) == graph.storage_of(library.result)) {
      return std::nullopt;
    }
  }
  return library;
}

std::optional<LibraryProduct> in_one_call(
    const std::vector<std::optional<LibraryProduct>>& products) {
  std::optional<LibraryProduct> call = products.front();
  for (const std::optional<LibraryProduct>& other : std::span(products).subspan(1)) {
    const bool equal = call && other && other->matmul == call->matmul &&
                       call->matmul.batches.empty() && other->a == call->a &&
                       other->a_offset == call->a_offset;
    if (!equal) return std::nullopt;
    call->siblings.push_back(*other);
  }
  return call;
}

}  // namespace fusecalc
