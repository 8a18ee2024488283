// Products of operands whose lines begin at odd places, which are copied first (pad_lines.cuh).

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "core/ceil_div.hpp"
#include "plan/mma_tiling.hpp"

namespace fusecalc {

// The operand's copy, in lines that are as long as the next multiple of 16 bytes.
MatrixOperand ContractionWriter::padded(const MatrixOperand& operand, std::uint64_t lines) {
  const std::uint64_t size = bytes_of(operand_type(), 1);
  const std::uint64_t length = operand.across ? lines : product_.k;
  std::uint64_t count = operand.across ? product_.k : lines;
  const std::uint64_t at =
      padded_.empty() ? 0 : ceil_div(padded_.back().at + padded_.back().bytes, 256) * 256;
  MatrixOperand copy{.offset = at / size, .across = operand.across};
  copy.line = ceil_div(length * size, 16) * 16 / size;
  // Room for whole eights of lines, which the copy engine fetches in an order of their own.
  if (!operand.across && operand.inner == 0 && operand.outer == 0) count = ceil_div(count, 8) * 8;
  std::uint64_t apart = copy.line * count;
  if (operand.inner > 0) {
    copy.inner = apart;
    apart *= product_.inner;
  }
  if (operand.outer > 0) {
    copy.outer = apart;
    apart *= product_.outer;
  }
  padded_.push_back({.from = operand, .lines = lines, .at = at, .bytes = apart * size});
  return copy;
}

// As if what begins at odd places were copied; whether something is. Several sources of B have the
// same distance between their lines, so that all are copied.
bool ContractionWriter::copy_lines() {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() / 2;  // elements, bytes
  const std::uint64_t whole = 16 / bytes_of(operand_type(), 1);
  const bool may = product_.a.tensor != kNone && product_.a.piece == 0 && product_.groups == 0 &&
                   !convolves() && !computes_rows() && multiplies_on_tensor_cores();
  if (!may) return false;
  const auto begins_oddly = [&](const MatrixOperand& operand) {
    return alignment_of(operand, whole) != whole;
  };
  const std::vector<MatrixOperand> sources = sources_of_b();
  const bool halves = epilogue_.halves() && epilogue_.halves()->other == kNone;
  if (begins_oddly(product_.a)) product_.a = padded(product_.a, product_.m);
  if (std::ranges::any_of(sources, begins_oddly)) {
    if (sources.size() == 1 || halves) {
      product_.b = padded(product_.b, product_.n);
    } else {
      const std::vector<std::uint64_t> columns = tiled_shape().parts;  // none: as many of each
      std::vector<MatrixOperand> copies;
      for (std::size_t i = 0; i < sources.size(); ++i) {
        copies.push_back(
            padded(sources[i], columns.empty() ? product_.n / sources.size() : columns[i]));
      }
      padded_b_ = std::move(copies);
      product_.b = padded_b_.front();
    }
  }
  const bool in_reach = std::ranges::all_of(padded_, [&](const Padded& each) {
    return each.bytes <= kMost &&
           graph_.tensors[graph_.storage_of(each.from.tensor)].elements <= kMost;
  });
  return !padded_.empty() && in_reach;
}

// Copies lines where the product then takes less time by more than that takes; those whose rows are
// held, where tensor cores hold them then.
bool ContractionWriter::pad_lines() {
  const MatrixProduct before = product_;
  const MmaOperands as_is = mma_operands();
  const bool copies = copy_lines();
  const auto repays = [&] {
    const std::uint64_t bytes = padded_.back().at + padded_.back().bytes;
    return epilogue_.holds_rows()
               ? fits_row_clusters()
               : repays_padding(tiled_shape(), as_is, bytes, multiplies_by_wgmma(),
                                reads_elsewhere(), device_);
  };
  if (copies && repays()) return true;
  product_ = before;
  padded_.clear();
  padded_b_.clear();
  return false;
}

// The entry that copies them.
void ContractionWriter::write_padding() {
  constexpr std::uint64_t kChunks = 1024;  // of a block
  const std::string_view type = stored_type(operand_type());
  std::string body;
  std::uint64_t blocks = 0;
  for (const Padded& each : padded_) {
    const MatrixOperand& from = each.from;
    const std::uint64_t size = bytes_of(operand_type(), 1);
    const std::uint64_t length = from.across ? each.lines : product_.k;
    const std::uint64_t own = ceil_div(each.bytes / 16, kChunks);
    const std::string copy = fmt::format(
        "PadLines<{}, {}>::copy(blockIdx.x - {}, {}, work + {}, PaddedLines{{{}, {}, {}, {}, {}, "
        "{}, {}, {}, {}}});",
        type, alignment_of(from, 16 / size), blocks, code_.parameters().input(from.tensor),
        result_.packed_at + each.at, length, ceil_div(length * size, 16) * 16 / size,
        from.across ? product_.k : each.lines, from.inner > 0 ? product_.inner : 1,
        from.outer > 0 ? product_.outer : 1, from.offset, from.line, from.inner, from.outer);
    blocks += own;
    const bool last = &each == &padded_.back();
    body += last ? copy : fmt::format("if (blockIdx.x < {}) return {}\n  ", blocks, copy);
  }
  result_.source.text += ContractionWriter::blocks({"pad_lines"}) +
                         static_asserts({{fmt::format("PadLines<{}, 1>::kChunks", type), kChunks}});
  write_pack(body, blocks);
  result_.gaps.more_writes =
      "operands whose lines begin at no multiples of 16 bytes are copied first";
}

}  // namespace fusecalc
