// Products of operands that are scaled block by block along k, so that no epilogue can do it.

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "codegen/contraction_writer.hpp"
#include "graph/product_parts.hpp"
#include "plan/step_scales.hpp"

namespace fusecalc {

bool ContractionWriter::scales_blocks() const { return !scales_sums(graph_, op_); }

// The place of an operand's scale, given its line and its place along k.
std::string ContractionWriter::scale_index(std::size_t which, std::string_view line,
                                           std::string_view depth) const {
  const Scales scales = scales_of(graph_, op_, which);
  const std::uint64_t lines = which == 0 ? op_.matrix.rows : op_.matrix.columns;
  const bool rows_first = which == 0;
  std::string index = "(idx)0";
  if (scales.lines > 1) {
    index += fmt::format(" + {} / {} * {}", line, lines / scales.lines,
                         rows_first ? scales.depth : std::uint64_t{1});
  }
  if (scales.depth > 1) {
    index += fmt::format(" + {} / {} * {}", depth, op_.matrix.depth / scales.depth,
                         rows_first ? std::uint64_t{1} : scales.lines);
  }
  return index;
}

void ContractionWriter::request_scales(bool together) {
  scales_ = fmt::format(
      "  static constexpr StepSums kKind = StepSums::kScaled;\n"
      "  static constexpr bool kEachColumn = {};\n",
      !together);
  const std::string step = fmt::format("(idx)step * {}", box_elements());
  constexpr std::array kFunctions = {"of_row(int row, int step)",
                                     "of_column(int column, int step)"};
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    scales_ += element_function(code_, kFunctions[which], op_.operands[2 + which].tensor,
                                scale_index(which, which == 0 ? "(idx)row" : "(idx)column", step),
                                ComputeType::kF32);
  }
}

// Shared memory for those of columns that have one each, of two steps and each warpgroup.
std::uint64_t ContractionWriter::scale_bytes(const TileWidth& width) const {
  const bool each = !scales_.empty() && !tiled_shape().scales_together();
  return each ? 2 * width.columns * width.consumers() * sizeof(float) : 0;
}

std::string ContractionWriter::scales_text() const {
  if (scales_.empty()) return "";
  return blocks({"step_scales"}) + "struct Scales {\n" + code_.parameters().members() + scales_ +
         "};\n";
}

std::string ContractionWriter::made_scales() const {
  if (scales_.empty()) return "";
  return fmt::format(", {{}}, Scales{{{}}}", code_.parameters().arguments());
}

void ContractionWriter::write_scaled_blocks() {
  if (epilogue_.holds_rows()) {
    write_rows_any();
  } else if (scales_steps(graph_, op_) && fits_tensor_cores() && fits_copy_engine(product_) &&
             product_.batches() == 1) {
    write_sm90();
  } else {
    write_any();
  }
}

}  // namespace fusecalc
