// Products of few rows, or of one: moving the larger operand bounds them.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/contraction_writer.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

// How contract_vector shares rows out: threads of a block, those of them to a row, blocks to a row.
struct VectorShares {
  std::uint64_t threads = 512;
  std::uint64_t lanes = 512;
  std::uint64_t split = 1;
};

// Enough threads have to be at work that memory is kept busy, and each should have a few packs.
VectorShares vector_shares(std::uint64_t rows, std::uint64_t packs, std::uint64_t multiprocessors) {
  if (packs <= 64) return {.threads = 256, .lanes = 8};
  if (rows * 32 >= multiprocessors * 512) return {.threads = 256, .lanes = 32};
  constexpr std::uint64_t kLeastPacks = 2048;  // of a block that shares a row
  const std::uint64_t parts = std::max<std::uint64_t>(1, packs / kLeastPacks);
  return {.split = std::clamp<std::uint64_t>(2 * multiprocessors / rows, 1, parts)};
}

}  // namespace

// A matrix times a vector.
void ContractionWriter::write_vector() {
  const std::string b = pointer_of(product_.b);
  epilogue_.write(product_, 1);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  const std::uint64_t align =
      std::min(alignment_of(product_.a),
               alignment_of({.inner = product_.b.inner, .outer = product_.b.outer}));
  const std::uint64_t pack = std::min(align, 16 / bytes_of(operand_type(), 1));
  const std::uint64_t rows = product_.m * product_.batches();
  VectorShares shares =
      vector_shares(rows, product_.k / pack, std::max(1U, target_.multiprocessors));
  if (product_.a.tensor == kNone) shares.split = 1;  // the workspace is its copy's
  if (shares.split > 1) epilogue_.reserve(rows * (shares.split + 1) * 4);
  result_.source.text += std::string(embedded_kernel("contract_vector")) + "\n";
  result_.source.text +=
      epilogue_.text() + shape(8) + strides() +
      fmt::format("typedef ContractVector<{}, {}, {}, {}, Epilogue> Contract;\n",
                  stored_type(operand_type()), align, shares.lanes, shares.split) +
      entry(fmt::format("__launch_bounds__({})", shares.threads), "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {}{});", a, b, epilogue_.made(),
                        shares.split > 1 ? ", work" : ""));
  result_.threads = static_cast<unsigned>(shares.threads);
  result_.blocks = ceil_div(rows, shares.threads / shares.lanes) * shares.split;
  if (shares.split > 1) {
    result_.gaps.more_writes = "blocks leave parts of sums for each other in memory";
  }
  result_.schedule = shares.split > 1      ? fmt::format("{} blocks a row", shares.split)
                     : shares.lanes == 512 ? "a row a block"
                                           : fmt::format("{} threads a row", shares.lanes);
}

constexpr std::uint64_t kManyColumns = 16384;

// So few rows that B is all there is to move.
bool ContractionWriter::is_thin() const {
  const DType type = operand_type();
  const std::uint64_t most_rows = fits_copy_engine(product_)  ? 64
                                  : product_.n < kManyColumns ? 32
                                                              : 16;
  return (type == DType::kBf16 || type == DType::kF16) && product_.m <= most_rows &&
         !product_.a.across && (!product_.b.across || fits_copy_engine(product_)) &&
         product_.k % 8 == 0 && alignment_of(product_.a) == 8 && alignment_of(product_.b) == 8 &&
         epilogue_.column_parts() == 0 && product_.batches() <= 65535;
}

void ContractionWriter::write_thin() {
  if (fits_copy_engine(product_)) {
    write_thin_sm90();
  } else {
    write_thin_sm80();
  }
}

// About as many blocks as multiprocessors, all at work at once: of 128 columns where these are
// enough, else of 64, with k in as many parts as there is room for.
void ContractionWriter::write_thin_sm90() {
  const std::uint64_t multiprocessors = std::max(1U, target_.multiprocessors);
  const std::uint64_t rows = product_.m <= 16 ? 16 : product_.m <= 32 ? 32 : 64;
  const bool wide = ceil_div(product_.n, 128) * product_.batches() * 2 >= multiprocessors;
  const std::uint64_t tile_n = wide ? 128 : 64;
  const std::uint64_t tiles = ceil_div(product_.n, tile_n);
  constexpr std::uint64_t kMostSplit = 8;  // blocks of a cluster
  constexpr std::uint64_t kLeastDepth = 256;
  std::uint64_t split = 1;
  while (split < kMostSplit && tiles * product_.batches() * split * 2 <= multiprocessors &&
         product_.k / (2 * split) >= kLeastDepth) {
    split *= 2;
  }
  pointer_of(product_.a);
  pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  reserve_packed();
  result_.maps = {map_of(product_.a, product_.m, static_cast<std::uint32_t>(rows)),
                  map_of(product_.b, product_.n, static_cast<std::uint32_t>(tile_n))};
  result_.source.architecture_bound = true;
  for (const char* block : {"hopper", "contract_thin_sm90"}) {
    result_.source.text += std::string(embedded_kernel(block)) + "\n";
  }
  result_.source.text +=
      epilogue_.text() + shape(8) +
      fmt::format("typedef ContractThinSm90<{}, {}, {}, {}, {}, Epilogue> Contract;\n",
                  name_of(operand_type()), rows, tile_n, split, product_.b.across) +
      entry(fmt::format("__launch_bounds__(Contract::kThreads) __cluster_dims__({}, 1, 1)", split),
            "const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b",
            fmt::format("Contract::run(a, b, kShape, {});", epilogue_.made()));
  constexpr std::uint64_t kStagedBytes = std::uint64_t{104} << 10U;
  const std::uint64_t stage = (rows + tile_n) * 128;
  result_.shared_bytes = static_cast<std::uint32_t>(kStagedBytes / stage * (stage + 16));
  result_.threads = static_cast<unsigned>(2 * tile_n + 32);
  result_.blocks = tiles * split;
  result_.blocks_y = static_cast<unsigned>(product_.batches());
  result_.schedule = fmt::format("wgmma, tiles of {} x {}", rows, tile_n);
  if (split > 1) result_.schedule += fmt::format(", k in {} parts", split);
}

void ContractionWriter::write_thin_sm80() {
  const std::uint64_t row_tiles = product_.m <= 16 ? 1 : 2;
  const std::uint64_t column_tiles = product_.n < kManyColumns ? 1 : 4;
  const std::uint64_t tile_n = 8 * column_tiles;
  const std::string b = pointer_of(product_.b);
  epilogue_.write(product_, tile_n);
  reserve_packed();
  const std::string a = pointer_of(product_.a);
  for (const char* block : {"mma", "contract_thin"}) {
    result_.source.text += std::string(embedded_kernel(block)) + "\n";
  }
  result_.source.text +=
      epilogue_.text() + shape(8) + strides() +
      fmt::format("typedef ContractThin<{}, {}, {}, Epilogue> Contract;\n", name_of(operand_type()),
                  row_tiles, column_tiles) +
      entry("__launch_bounds__(256)", "",
            fmt::format("Contract::run({}, {}, kShape, kStrides, {});", a, b, epilogue_.made()));
  result_.shared_bytes = static_cast<std::uint32_t>(row_tiles * tile_n * 8 * 16 * 4);
  result_.threads = 256;
  result_.blocks = ceil_div(product_.n, tile_n);
  result_.blocks_y = static_cast<unsigned>(product_.batches());
  result_.schedule = fmt::format("mma from registers, tiles of {} x {}", 16 * row_tiles, tile_n);
}

}  // namespace fusecalc
