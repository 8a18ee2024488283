#include "codegen/transposition.hpp"

#include <algorithm>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kLeastSide = 16;          // of a tile, unless the other side leaves no gaps
constexpr std::uint64_t kLeastLong = 64;          // that other side
constexpr std::uint64_t kMostRun = 48;            // columns of a run whose rows begin anywhere
constexpr std::uint64_t kTile = 64;               // rows of a tile, and its columns or half of them
constexpr std::uint64_t kByteRows = 256;          // of a tile of single bytes
constexpr std::uint64_t kLoopRunElements = 3072;  // about so many are a tile that is one run
constexpr std::uint64_t kTensorRunElements = 4608;
constexpr std::uint64_t kByteRunElements = 6144;                  // of single bytes
constexpr std::uint64_t kSharedBytes = std::uint64_t{48} << 10U;  // of all tiles
constexpr unsigned kLeastSector = 8;                              // elements
constexpr std::size_t kMostTransposed = 3;  // of 4 bytes each on chip; of 8 there is but one
// Each 32 elements of a run are followed by a gap: lanes that are several elements apart find
// other banks.
std::uint64_t with_gaps(std::uint64_t elements) { return elements + elements / 32; }

// Whether tiles that have all columns are a run of the loop.
bool is_loop_run(const Transposition& found) {
  return found.across + 1 == found.along && found.rows() >= kLeastLong;
}

bool has_tiles(const Transposition& found) {
  const std::uint64_t rows = found.rows();
  const std::uint64_t columns = found.columns();
  if (rows >= kLeastSide && columns >= kLeastSide) return true;
  if (rows < kLeastSide) return found.pitch() == rows && columns >= kLeastLong;
  return is_loop_run(found);
}

bool groups_are_aligned(const Transposition& found, unsigned width) {
  const std::vector<StridedMap::Axis>& axes = found.map.axes;
  return found.map.offset % width == 0 && found.rows() % width == 0 &&
         found.columns() % width == 0 && std::ranges::all_of(axes, [&](const auto& axis) {
           return axis.stride == 1 || axis.stride % width == 0;
         });
}

// A half more than a tile's where the last of these rows would leave much of it empty.
std::uint64_t rows_of_tile(std::uint64_t rows) {
  constexpr std::uint64_t kMore = kTile / 2 * 3;
  const auto cost = [&](std::uint64_t tile) { return ceil_div(rows, tile) * tile; };
  return cost(kMore) * 20 < cost(kTile) * 19 ? kMore : kTile;
}

// `bytes`: of an element of all tensors together.
std::uint64_t most_columns(std::uint64_t rows, std::uint64_t ahead, std::uint64_t bytes) {
  // More where a tile has columns ahead, too, or many of them share a line, unless it gets large.
  const bool more = bytes == 1 || (ahead > 0 && bytes < sizeof(float));
  std::uint64_t columns = more ? 2 * kTile : kTile;
  while ((columns + ahead) * rows * bytes > kSharedBytes) columns /= 2;
  return columns;
}

// No more than `most`, and so many that tiles have about as many of all `columns` each.
std::uint64_t even_columns(std::uint64_t columns, std::uint64_t most, std::uint64_t step) {
  return std::min(most, ceil_div(ceil_div(columns, ceil_div(columns, most)), step) * step);
}

// Of an element of all tensors together, in words.
std::uint64_t bytes_on_chip(const KernelView& kernel, const Transposition& found, unsigned width) {
  std::uint64_t bytes = 0;
  for (const TensorId id : found.tensors) {
    const DType dtype = kernel.tensor(id).type.dtype;
    bytes += ceil_div(word_bytes(dtype), shared_columns(dtype, width));
  }
  return bytes;
}

// Of a tile that is a run of the tensors and has all their rows; 0: these are too many.
std::uint64_t columns_of_run(const KernelView& kernel, const Transposition& found,
                             std::uint64_t sector) {
  std::uint64_t bytes = 0, least = sizeof(double);
  for (const TensorId id : found.tensors) {
    const DType dtype = kernel.tensor(id).type.dtype;
    bytes += word_bytes(dtype);
    least = std::min(least, bytes_of(dtype, 1));
  }
  const std::uint64_t room = kSharedBytes / bytes / 33 * 32;  // without the gaps
  const std::uint64_t ahead = sector * (found.rows() + 4);
  const std::uint64_t most = least == 1 ? kByteRunElements : kTensorRunElements;
  return std::min(most, room - std::min(room, ahead)) / found.rows() / kLeastLong * kLeastLong;
}

// Whether that is faster than tiles of more rows than these. Lines of 4-byte elements that follow
// each other are nearly as fast, and have more columns of many rows.
bool repays_run(const Transposition& found, unsigned width) {
  constexpr std::uint64_t kMostRows = 48;
  constexpr std::uint64_t kMostOfLines = 32;
  if (found.rows() >= kMostRows || found.pitch() != found.rows()) return false;
  if (found.columns() < kLeastLong) return false;
  if (width == sizeof(float)) return found.rows() % 2 == 0 || found.rows() < kMostOfLines;
  return found.rows() % width != 0;
}

// Whether the elements of all tensors are computed with as they lie, 4 bytes each.
bool has_words(const KernelView& kernel, const Transposition& found) {
  return std::ranges::all_of(found.tensors, [&](TensorId id) {
    const DType dtype = kernel.tensor(id).type.dtype;
    return bytes_of(dtype, 1) == sizeof(float) &&
           stored_type(dtype) == name_of(compute_type(dtype));
  });
}

// Lines lie on chip as groups of four do in the tensors. Where each has all rows, an odd number,
// they follow each other; if not, so far apart that lanes reach different banks.
void set_lines(const Transposition& found, TransposedTiling& tiling) {
  constexpr std::uint64_t kGroup = 4;
  constexpr std::uint64_t kSlack = 2 * kGroup;  // of the first and the last line
  constexpr std::uint64_t kFewest = 32;         // columns of a tile
  constexpr std::uint64_t kMost = kSharedBytes / sizeof(float);
  const std::uint64_t each = kMost / found.tensors.size() - kSlack;
  const bool whole = found.rows() % 2 != 0 && found.pitch() == found.rows() &&
                     (kFewest + tiling.sector) * found.rows() <= each;
  tiling.runs = TileRuns::kLines;
  tiling.along = 8;
  tiling.ahead = tiling.sector;
  tiling.rows = tiling.pitch = found.rows();
  if (!whole) {
    const auto pitch_of = [&](std::uint64_t rows) {
      return rows + kGroup + found.pitch() % kGroup;
    };
    const std::uint64_t rows = rows_of_tile(found.rows());
    tiling.rows = (kFewest + tiling.ahead) * pitch_of(rows) <= each ? rows : kTile;
    tiling.pitch = pitch_of(tiling.rows);
  }
  std::uint64_t most = whole ? 2 * kTile : kTile;
  while ((most + tiling.ahead) * tiling.pitch > each) most /= 2;
  tiling.columns = even_columns(found.columns() + tiling.sector - 1, most,
                                std::uint64_t{tiling.along} * tiling.width);
  tiling.words = (tiling.columns + tiling.ahead) * tiling.pitch + kSlack;
}

}  // namespace

std::uint64_t shared_columns(DType dtype, std::uint64_t width) {
  const std::uint64_t bytes = bytes_of(dtype, 1);
  return bytes < sizeof(float) ? std::min(sizeof(float) / bytes, width) : 1;
}

std::uint64_t word_bytes(DType dtype) { return bytes_of(dtype, 1) > sizeof(float) ? 8 : 4; }

std::optional<Transposition> find_transposition(const KernelView& kernel, const CodeBlock& block,
                                                std::uint64_t space) {
  for (const auto& [tensor, map] : block.scattered_reads) {
    if (map.axes.size() < 2) continue;
    if (kernel.graph().tensors[tensor].elements < space / 2) continue;
    if (is_packed(kernel.graph().tensors[tensor].type.dtype)) continue;
    Transposition found{.map = map, .across = map.axes.size(), .along = map.axes.size() - 1};
    for (std::size_t axis = 0; axis < map.axes.size(); ++axis) {
      if (map.axes[axis].stride == 1) found.across = axis;
    }
    if (found.across >= found.along || !has_tiles(found)) continue;
    const auto bytes = [&](TensorId id) {
      return bytes_of(kernel.graph().tensors[id].type.dtype, 1);
    };
    found.tensors = {tensor};
    if (bytes(tensor) > sizeof(float)) return found;
    for (const auto& [other, other_map] : block.scattered_reads) {
      const bool known = std::ranges::find(found.tensors, other) != found.tensors.end();
      const bool fits = bytes(other) <= sizeof(float) && found.tensors.size() < kMostTransposed;
      if (other_map == map && !known && fits) found.tensors.push_back(other);
    }
    return found;
  }
  return std::nullopt;
}

TransposedTiling tiling_of(const KernelView& kernel, const Transposition& found, unsigned width) {
  const std::uint64_t bytes = bytes_on_chip(kernel, found, width);
  const bool aligned = groups_are_aligned(found, width);
  TransposedTiling tiling{.width = width, .sector = std::max(2 * width, kLeastSector)};
  const std::uint64_t run = columns_of_run(kernel, found, tiling.sector);
  if (found.rows() < kLeastSide || (!aligned && run > 0 && repays_run(found, width))) {
    tiling.runs = TileRuns::kTensorRun;
    tiling.rows = found.rows();
    tiling.columns = run;
    tiling.ahead = tiling.sector;
    tiling.words = with_gaps((tiling.ahead + run) * tiling.rows + std::uint64_t{2} * width);
  } else if (found.columns() < kLeastSide ||
             (!aligned && found.columns() <= kMostRun && is_loop_run(found))) {
    tiling.runs = TileRuns::kLoopRun;
    const std::uint64_t many = kLoopRunElements / found.columns() / kLeastLong * kLeastLong;
    tiling.rows = many;
    tiling.columns = found.columns();
    tiling.ahead = tiling.sector;
    tiling.words = with_gaps((many + tiling.ahead + std::uint64_t{4} * width) * tiling.columns +
                             tiling.sector);
  } else if (!aligned && width == sizeof(float) && has_words(kernel, found)) {
    set_lines(found, tiling);
  } else {
    tiling.runs = aligned ? TileRuns::kAligned : TileRuns::kAnywhere;
    tiling.rows = found.columns() < kTile ? kTile : rows_of_tile(found.rows());
    tiling.ahead = aligned ? 0 : tiling.sector;
    tiling.columns = even_columns(found.columns() + (aligned ? 0 : tiling.sector - 1),
                                  most_columns(tiling.rows, tiling.ahead, bytes),
                                  std::uint64_t{tiling.along} * width);
    // Single bytes: so that a tile's rows are whole lines, and threads have enough to load.
    if (aligned && bytes == 1 && found.rows() >= kByteRows) {
      tiling.rows = kByteRows;
      tiling.columns = kTile;
    }
  }
  return tiling;
}

}  // namespace fusecalc
