// Products without tensor cores, over operands of any type and order: in tiles, or in whole rows.

#include <fmt/format.h>

#include <array>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "core/ceil_div.hpp"
#include "graph/product_parts.hpp"

namespace fusecalc {

// Functions that load an element of each operand, given its matrix, line and depth.
std::string ContractionWriter::operands_of_any() {
  const Shape batch = batch_axes(graph_, op_);
  // If columns are reduced, one matrix of the op may hold the rows of several reductions.
  const std::uint64_t reductions = op_.matrix.rows / product_.m;
  const std::string matrix =
      reductions > 1 ? fmt::format("((idx)batch / {})", reductions) : "((idx)batch)";
  const std::string row = reductions > 1
                              ? fmt::format("((idx)batch % {} * {} + line)", reductions, product_.m)
                              : "line";
  std::string functions;
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const OperandOrder order = operand_order(graph_, op_, which);
    IndexTransform matrices;
    for (std::size_t i = 0; i < batch.size(); ++i) matrices.append(batch[i], order.batch[i]);
    std::string index = fmt::format("{} + (idx){} * {} + (idx)k * {}", matrices.text(matrix),
                                    which == 0 ? row : "line", order.line, order.depth);
    if (which == 1 && product_.groups > 0) {
      index += fmt::format(" + (idx)batch * {}", product_.n * product_.k);
    }
    constexpr std::array kFunctions = {"a(int batch, int line, int k)",
                                       "b(int batch, int k, int line)"};
    const ComputeType type = epilogue_.made_type();
    const std::string function = kFunctions[which];
    const TensorId operand = op_.operands[which].tensor;
    if (!scales_blocks()) {
      functions += element_function(code_, function, operand, index, type);
      continue;
    }
    const std::string scale = scale_index(which, which == 0 ? row : "line", "(idx)k");
    functions += element_function(code_, "stored_" + function, operand, index, type) +
                 element_function(code_, "scale_of_" + function, op_.operands[2 + which].tensor,
                                  scale, type) +
                 fmt::format(
                     "  __device__ __forceinline__ {1} {2} const {{\n"
                     "    return stored_{0}({3}) * scale_of_{0}({3});\n  }}\n",
                     which == 0 ? "a" : "b", name_of(type), function,
                     which == 0 ? "batch, line, k" : "batch, k, line");
  }
  return functions;
}

// The product in the op's own order, in matrices as high as the columns that are reduced.
void ContractionWriter::take_whole() {
  const MatrixShape& matrix = op_.matrix;
  const std::uint64_t reduced = epilogue_.rows_of_matrix();
  const std::uint64_t rows = reduced > 0 ? reduced : matrix.rows;
  if (matrix.rows % rows != 0) {
    cannot_generate(op_, "the columns that are reduced extend over several of its matrices");
  }
  product_ = {.m = rows,
              .n = matrix.columns,
              .k = matrix.depth,
              .inner = matrix.batch * (matrix.rows / rows),
              .a = {.tensor = graph_.tensors[op_.operands[0].tensor].value, .inner = 1},
              .b = {.tensor = graph_.tensors[op_.operands[1].tensor].value, .inner = 1},
              .groups = groups_of(graph_, op_)};
}

std::string ContractionWriter::operands_struct(const std::string& functions) const {
  return "struct Operands {\n" + code_.parameters().members() + functions + "};\n";
}

// The text of a kernel around a building block, once the epilogue is written.
void ContractionWriter::add_any(std::string_view block, const std::string& functions,
                                const std::string& contract, const std::string& asserts) {
  result_.source.text +=
      groups_text() + blocks({block}) + epilogue_.text() + shape(64) + operands_struct(functions) +
      fmt::format("typedef {} Contract;\n", contract) + asserts +
      entry("__launch_bounds__(Contract::kThreads)", "",
            fmt::format("Contract::run(kShape, Operands{{{}}}, {}{});",
                        code_.parameters().arguments(), epilogue_.made(), made_groups()));
}

void ContractionWriter::write_any() {
  take_whole();
  if (strided_ && strided_->a.tensor == kNone) result_.library.reset();
  const std::string functions = operands_of_any();
  constexpr std::uint64_t kTile = 64;
  request_ends();
  epilogue_.write(product_, kTile);
  const KernelFacts facts{.threads = 256, .tile_rows = kTile, .tile_columns = kTile};
  add_any("contract_any", functions,
          fmt::format("ContractAny<{}, Operands, Epilogue{}>", name_of(epilogue_.made_type()),
                      groups_type("")),
          facts.asserted_of("Contract"));
  facts.launch(result_);
  result_.blocks = product_.row_tiles(kTile) * ceil_div(product_.n, kTile) * product_.batches();
  result_.schedule = fmt::format("without tensor cores, tiles of {0} x {0}", kTile);
}

void ContractionWriter::write_rows_any() {
  take_whole();
  constexpr std::uint64_t kThreads = 256;
  constexpr std::uint64_t kRows = 32;
  constexpr std::uint64_t kOperandBytes = std::uint64_t{20} * 1024;
  const std::uint64_t held = kRows * ceil_div(product_.n, 8) * 8 * sizeof(float);
  if (held + kOperandBytes > device_.on_chip_bytes) {
    cannot_generate(op_, fmt::format("what follows needs whole rows of it, and those of {} columns "
                                     "do not fit on chip",
                                     product_.n));
  }
  const std::string functions = operands_of_any();
  epilogue_.write_rows(product_, {});
  // The shared memory that it needs depends on the product, so that no constant has it.
  const std::string shared = fmt::format("Contract::shared_bytes({})", product_.n);
  add_any("contract_rows_any", functions, "ContractRowsAny<Operands, Epilogue>",
          static_asserts({{"Contract::kThreads", kThreads},
                          {"Contract::kTileRows", kRows},
                          {"Contract::kMostOperandBytes", kOperandBytes},
                          {shared, held}}));
  result_.threads = kThreads;
  result_.shared_bytes = static_cast<std::uint32_t>(held);
  result_.blocks = ceil_div(product_.m, kRows) * product_.batches();
  result_.schedule = fmt::format("without tensor cores, {} whole rows per block", kRows);
}

}  // namespace fusecalc
