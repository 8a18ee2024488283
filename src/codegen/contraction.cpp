// Products of matrices and what hangs on them: one of kernels/contract_*.cuh with an epilogue that
// the emitter writes, or the vendor's library. Which one, what all of them share, and the one that
// takes any operands.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "codegen/library.hpp"
#include "codegen/product_shares.hpp"
#include "codegen/schedule.hpp"
#include "core/embedded.hpp"

namespace fusecalc {

std::uint64_t alignment_of(const MatrixOperand& operand) {
  const std::uint64_t bits = operand.line | operand.inner | operand.outer | operand.jump | 8;
  return bits & (~bits + 1);
}

bool ContractionWriter::fits_tensor_cores() const {
  const DType type = operand_type();
  const bool known =
      type == DType::kBf16 || type == DType::kF16 || type == DType::kF32 || type == DType::kTf32;
  return known && strided_ && graph_.tensors[op_.operands[1].tensor].type.dtype == type;
}

bool ContractionWriter::fits_copy_engine(const MatrixProduct& product) const {
  const DType type = operand_type();
  if (target_.capability != 90 || (type != DType::kBf16 && type != DType::kF16)) return false;
  return graph_.tensors[op_.operands[1].tensor].type.dtype == type &&
         alignment_of(product.a) == 8 && alignment_of(product.b) == 8;
}

std::string ContractionWriter::shape(std::uint64_t group) const {
  const auto steps = [](std::uint64_t distance) { return distance > 0 ? 1 : 0; };
  return fmt::format(
      "constexpr ContractShape kShape = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}};\n",
      product_.m, product_.n, product_.k, product_.outer, product_.inner, steps(product_.a.outer),
      steps(product_.a.inner), steps(product_.b.outer), steps(product_.b.inner), group,
      product_.a.piece);
}

std::string ContractionWriter::entry(std::string_view bounds, std::string_view parameters,
                                     std::string_view call) const {
  const std::string pointers = emitter_.parameters();
  return fmt::format("extern \"C\" __global__ void {} fused({}{}{}{}) {{\n  {}\n}}\n", bounds,
                     parameters, parameters.empty() || pointers.empty() ? "" : ", ", pointers,
                     epilogue_.workspace_parameter(), call);
}

MappedTensor ContractionWriter::map_of(const MatrixOperand& operand, std::uint64_t lines,
                                       std::uint32_t box_lines) const {
  const std::uint64_t size = bytes_of(operand_type(), 1);
  // Dimensions of one element are not stepped along; the engine wants some multiple of 16 there.
  const auto bytes = [&](std::uint64_t distance) { return distance > 0 ? distance * size : 16; };
  const auto extent = [](std::uint64_t distance, std::uint64_t count) {
    return distance > 0 ? count : 1;
  };
  if (operand.piece != 0) {
    return {.storage = graph_.storage_of(operand.tensor),
            .dtype = operand_type(),
            .extents = {operand.piece, lines, product_.k / operand.piece,
                        extent(operand.outer, product_.outer)},
            .strides = {bytes(operand.line), bytes(operand.jump), bytes(operand.outer)},
            .box = {64, box_lines, 1, 1}};
  }
  return {.storage = operand.tensor == kNone ? kNone : graph_.storage_of(operand.tensor),
          .dtype = operand_type(),
          .extents = {operand.across ? lines : product_.k, operand.across ? product_.k : lines,
                      extent(operand.inner, product_.inner), extent(operand.outer, product_.outer)},
          .strides = {bytes(operand.line), bytes(operand.inner), bytes(operand.outer)},
          .box = {64, operand.across ? 64U : box_lines, 1, 1}};
}

std::string ContractionWriter::strides() const {
  return fmt::format("constexpr ContractStrides kStrides = {{{}, {}, {}, {}, {}, {}}};\n",
                     product_.a.line, product_.a.inner, product_.a.outer, product_.b.line,
                     product_.b.inner, product_.b.outer);
}

// The operand's pointer, or that of its copy.
std::string ContractionWriter::pointer_of(const MatrixOperand& operand) {
  if (operand.tensor != kNone) return emitter_.pointer(operand.tensor);
  return fmt::format("reinterpret_cast<const {}*>(work + {})", stored_type(operand_type()),
                     result_.packed_at);
}

void ContractionWriter::reserve_packed() {
  if (product_.a.tensor != kNone) return;
  const TensorId tensor = op_.operands[0].tensor;
  result_.packed_at = epilogue_.reserve(graph_.tensors[tensor].bytes);
  emitter_.pointer(tensor);
}

// The entry that puts a in its own order, as frameworks do, where its views leave no strides.
void ContractionWriter::write_packing() {
  if (product_.a.tensor != kNone) return;
  const Tensor& tensor = graph_.tensors[op_.operands[0].tensor];
  const auto most = static_cast<unsigned>(16 / bytes_of(tensor.type.dtype, 1));
  const unsigned width = tensor.elements % most == 0 ? most : 1;
  Piece piece{.width = width, .width_text = std::to_string(width)};
  emitter_.enter(piece, 0);
  const Index e{.name = "i", .spread = Spread::kUnit};
  const Value value = emitter_.value(op_.operands[0].tensor, e);
  const std::string_view type = stored_type(tensor.type.dtype);
  piece.before += fmt::format("Pack<{}, {}> y;\n", type, width);
  piece.lanes += fmt::format("store_as(y.v[j], {});\n", value.text);
  piece.after += fmt::format("store_pack<{}>(reinterpret_cast<{}*>(work + {}) + i, y);\n", width,
                             type, result_.packed_at);
  constexpr std::uint64_t kThreads = 256;
  result_.source.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(256) pack({}, u8* work) {{\n"
      "  const i64 i = ((i64)blockIdx.x * 256 + threadIdx.x) * {};\n  if (i >= {}) return;\n{}}}\n",
      emitter_.parameters(), width, tensor.elements, piece.text("  "));
  result_.source.entries.emplace_back("pack");
  result_.packing = {.blocks = ceil_div(tensor.elements, width * kThreads), .threads = kThreads};
  result_.gaps.more_reads = result_.gaps.more_writes =
      "an operand's views leave no strides, so it is copied first, as frameworks do";
}

// How the elements of both operands are found, by the number of their matrix, line and depth.
std::string ContractionWriter::operands_of_any() {
  const Shape batch = batch_axes(graph_, op_);
  // Where columns are folded, the rows of one matrix may be those of several folds.
  const std::uint64_t folds = op_.matrix.rows / product_.m;
  const std::string matrix = folds > 1 ? fmt::format("(batch / {})", folds) : "batch";
  const std::string row =
      folds > 1 ? fmt::format("(batch % {} * {} + line)", folds, product_.m) : "line";
  std::string functions;
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const OperandOrder order = operand_order(graph_, op_, which);
    Step matrices;
    for (std::size_t i = 0; i < batch.size(); ++i) matrices.append(batch[i], order.batch[i]);
    const std::string index =
        fmt::format("(idx)({}) + (idx){} * {} + (idx)k * {}", matrices.text(matrix),
                    which == 0 ? row : "line", order.line, order.depth);
    functions += element_function(
        emitter_, which == 0 ? "a(int batch, int line, int k)" : "b(int batch, int k, int line)",
        op_.operands[which].tensor, index, epilogue_.made_type());
  }
  return functions;
}

// The product as the op has it, in matrices as high as the columns that are folded.
void ContractionWriter::take_whole() {
  const MatrixShape& matrix = op_.matrix;
  const std::uint64_t folded = epilogue_.rows_of_matrix();
  const std::uint64_t rows = folded > 0 ? folded : matrix.rows;
  if (matrix.rows % rows != 0) cannot_generate(op_, "the columns that are folded leave its matrix");
  product_ = {.m = rows,
              .n = matrix.columns,
              .k = matrix.depth,
              .inner = matrix.batch * (matrix.rows / rows),
              .a = {.tensor = graph_.tensors[op_.operands[0].tensor].value, .inner = 1},
              .b = {.tensor = graph_.tensors[op_.operands[1].tensor].value, .inner = 1}};
}

// Ordinary arithmetic over operands of any type and order, in tiles or in whole rows.
void ContractionWriter::write_any() {
  take_whole();
  if (strided_ && strided_->a.tensor == kNone) result_.library.reset();
  const bool rows = epilogue_.holds_rows();
  const std::string functions = operands_of_any();
  constexpr std::uint64_t kTile = 64;
  if (rows) {
    epilogue_.write_rows(product_);
  } else {
    epilogue_.write(product_, kTile);
  }
  result_.source.text +=
      std::string(embedded_kernel(rows ? "contract_rows_any" : "contract_any")) + "\n" +
      epilogue_.text() + shape(64) + "struct Operands {\n" + emitter_.members() + functions +
      "};\n" +
      (rows ? std::string("typedef ContractRowsAny<Operands, Epilogue> Contract;\n")
            : fmt::format("typedef ContractAny<{}, Operands, Epilogue> Contract;\n",
                          name_of(epilogue_.made_type()))) +
      entry("__launch_bounds__(256)", "",
            fmt::format("Contract::run(kShape, Operands{{{}}}, {});", emitter_.arguments(),
                        epilogue_.made()));
  result_.threads = 256;
  if (rows) {
    constexpr std::uint64_t kRows = 32;
    result_.shared_bytes =
        static_cast<std::uint32_t>(kRows * ceil_div(product_.n, 8) * 8 * sizeof(float));
    result_.blocks = ceil_div(product_.m, kRows) * product_.batches();
    result_.schedule = fmt::format("ordinary arithmetic, {} whole rows a block", kRows);
  } else {
    result_.blocks = ceil_div(product_.m, kTile) * ceil_div(product_.n, kTile) * product_.batches();
    result_.schedule = "ordinary arithmetic, tiles of 64 x 64";
  }
}

// Lines in pieces are the copy engine's to put together.
std::optional<MatrixProduct> ContractionWriter::in_pieces() const {
  constexpr std::uint64_t kBoxColumns = 64;
  const auto product = product_of_pieces(graph_, op_, kBoxColumns);
  constexpr std::uint64_t kMostThinRows = 64;
  const bool fits = product && epilogue_.rows_of_matrix() == 0 && product->m > kMostThinRows &&
                    product->n > 1 && !epilogue_.holds_rows() && fits_copy_engine(*product);
  return fits ? product : std::nullopt;
}

GeneratedKernel ContractionWriter::write() {
  if (graph_.tensors[op_.outputs[0]].elements == 0) cannot_generate(op_, "it writes nothing");
  strided_ = matrix_product(graph_, op_, epilogue_.rows_of_matrix());
  // Alone it is the library's, which has no use for pieces; nor have other building blocks.
  if (!strided_ && emitter_.kernel().size() > 1) strided_ = in_pieces();
  if (!strided_) strided_ = matrix_product(graph_, op_, epilogue_.rows_of_matrix(), true);
  if (strided_) {
    product_ = *strided_;
  } else {
    take_whole();
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max() - 1024;
  for (const std::uint64_t extent : {product_.m, product_.n, product_.k, product_.batches()}) {
    if (extent > kMost) cannot_generate(op_, "one of its extents is beyond 2^31");
  }
  if (strided_) result_.library = library_product(emitter_, finder_, op_, product_);
  result_.source.text = epilogue_.preamble();
  if (epilogue_.holds_rows() && fits_row_clusters()) {
    write_rows();
  } else if (epilogue_.holds_rows() || !fits_tensor_cores()) {
    write_any();
  } else if (product_.n == 1 && !product_.a.across && !product_.b.across && !epilogue_.folds()) {
    write_vector();
  } else if (is_thin()) {
    write_thin();
  } else if (fits_copy_engine(product_)) {
    write_sm90();
  } else {
    write_sm80();
  }
  result_.source.entries = {"fused"};
  epilogue_.finish(result_);
  write_packing();
  if (result_.gaps.more_reads.empty()) {
    result_.gaps.more_reads =
        "operands are fetched again for every wave of tiles, where they do not fit in the L2";
  }
  if (epilogue_.folds() && !epilogue_.holds_rows()) {
    result_.gaps.more_writes = "blocks leave partial results for each other in memory";
  }
  result_.storages = emitter_.storages();
  if (result_.source.architecture_bound && epilogue_.holds_rows()) tile_rows();
  return std::move(result_);
}

GeneratedKernel generate_contraction(Emitter& emitter, PhaseFinder& finder, OpId contraction,
                                     const Target& target) {
  return ContractionWriter(emitter, finder, contraction, target).write();
}

}  // namespace fusecalc
