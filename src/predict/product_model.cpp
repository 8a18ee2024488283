#include "predict/product_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/ceil_div.hpp"
#include "plan/mma_tiling.hpp"
#include "plan/shallow.hpp"
#include "plan/whole_rows.hpp"
#include "predict/l2_model.hpp"

namespace fusecalc {
namespace {

// Cycles of a tile and its count decide how long a product takes.
struct Tile {
  double n = 0;
  double m = 0;
};

constexpr double kLanesShare = 0.85;  // of the peak, of products without tensor cores
constexpr double kMove = 3;  // instructions, to load a row's element and to store what is made

MmaOperands mma_operands(const ProductKernel& product) {
  return {.kind = product.type == DType::kF32    ? MmaKind::kExact
                  : product.type == DType::kTf32 ? MmaKind::kTf32
                                                 : MmaKind::kNarrow,
          .bytes = bytes_of(product.type, 1),
          .piece = std::gcd(std::uint64_t{16}, product.line_bytes()),
          .made = product.makes_rows};
}

// Whether the epilogue reads a tensor as large as the result.
bool reads_beside(const ProductKernel& product) {
  return product.beside >= static_cast<double>(product.results) * (product.shape.halves ? 1 : 2);
}

// Whether contract_sm90 or one of its kind takes the operands.
bool takes_wgmma(const ProductKernel& product) {
  const bool halves = product.type == DType::kBf16 || product.type == DType::kF16;
  const bool along = !product.shape.a_across && !product.shape.b_across;
  const bool words = product.type == DType::kF32 || (product.type == DType::kTf32 && along);
  return (halves || (along && is_fp8(product.type)) || (words && !product.makes_rows)) &&
         product.line_bytes() % 16 == 0 && (!product.shape.halves || product.shape.n % 16 == 0);
}

// Whether a kernel for few rows does.
bool is_skinny(const ProductKernel& product, bool wgmma) {
  constexpr std::uint64_t kManyColumns = 16384;
  const ProductShape& shape = product.shape;
  const std::uint64_t most = wgmma ? 64 : shape.n < kManyColumns ? 32 : 16;
  return (product.type == DType::kBf16 || product.type == DType::kF16) && shape.m <= most &&
         product.line_bytes() % 16 == 0 && !product.shape.a_across && (wgmma || !shape.b_across) &&
         !shape.halves && !product.makes_rows;
}

// Whether our kernel for a short k does; in batches, first operands differ.
bool is_shallow(const ProductKernel& product, const Device& device) {
  const bool halves = product.type == DType::kBf16 || product.type == DType::kF16;
  const std::uint64_t line =
      is_shallow_across(product.shape) ? product.b_line_bytes() : product.a_line_bytes();
  return halves && product.shape.batches == 1 && !product.makes_rows && product.prologue == 0 &&
         shallow_tiling(product.shape, std::gcd(line / 2, std::uint64_t{8}), reads_beside(product),
                        device);
}

}  // namespace

// Fitted to what products of 16 to 144 of k take, of 3 to 270 MB.
KernelWork shallow_work(const ProductShape& shape, const Bytes& bytes, bool reading,
                        double instructions, const Device& device) {
  constexpr double kStartUs = 1;
  constexpr double kReadingShare = 0.86;  // of the streaming rate
  constexpr double kAcrossShare = 0.92;
  constexpr double kOddShare = 0.55;  // where lines are no whole eights
  const DeviceConstants& constants = device.constants;
  KernelWork work{.dram_read = static_cast<double>(bytes.read),
                  .dram_write = static_cast<double>(bytes.write),
                  .fixed_us = constants.launch_us.value + kStartUs,
                  .read_doubt = 0.05,
                  .write_doubt = 0.3,
                  .time_doubt = 0.2};
  const double moved = work.dram_read / bytes_per_us(constants.dram_read_gbps) +
                       work.dram_write / bytes_per_us(constants.dram_write_gbps);
  const bool across = is_shallow_across(shape);
  const double share = across && shape.n % 8 != 0 ? kOddShare
                       : reading                  ? kReadingShare
                       : across                   ? kAcrossShare
                                                  : 1;
  work.fixed_us += moved * (1 / share - 1);
  work.compute_us = lane_us(device, instructions) + tensor_us(device, shape.flops());
  return work;
}

double ProductModel::tiled_reads(const ProductKernel& product, std::uint64_t tile_m,
                                 std::uint64_t tile_n, bool rows_first, std::uint64_t group,
                                 std::uint64_t at_once) {
  const ProductShape& shape = product.shape;
  const double streamed = (static_cast<double>(product.traffic.bytes.write) + product.beside) /
                          static_cast<double>(std::max<std::uint64_t>(1, product.results));
  const std::tuple key{
      shape.m,  shape.n,   shape.k, tile_m, tile_n, group * 4096 + at_once, product.operand_bytes,
      streamed, rows_first};
  const auto found = walks_.find(key);
  double one = 0;
  if (found != walks_.end()) {
    one = found->second;
  } else {
    const TileWalk walk{.m = shape.m,
                        .n = shape.n,
                        .k = shape.k,
                        .operand_bytes = product.operand_bytes,
                        .streamed_per_result = streamed,
                        .tile_m = tile_m,
                        .tile_n = tile_n,
                        .rows_first = rows_first,
                        .group = group,
                        .at_once = at_once};
    one = operand_reads(walk, tiles_l2(device_.l2_bytes)) -
          (static_cast<double>(shape.m) + static_cast<double>(shape.n)) *
              static_cast<double>(shape.k) * product.operand_bytes;
    walks_.emplace(key, one);
  }
  // What is fetched again, on top of each operand once.
  return product.operands + std::max(0.0, one) * static_cast<double>(shape.batches);
}

// The tiles that take the fewest cycles, at so many FLOPs a cycle.
ProductModel::Tiling ProductModel::library_tiling(const ProductKernel& product, double rate) {
  constexpr std::array kTiles = {
      Tile{256, 160}, Tile{160, 256}, Tile{256, 144}, Tile{144, 256}, Tile{256, 128},
      Tile{128, 256}, Tile{192, 192}, Tile{192, 176}, Tile{176, 192}, Tile{192, 160},
      Tile{160, 192}, Tile{320, 128}, Tile{128, 208}, Tile{208, 128}, Tile{128, 192},
      Tile{192, 128}, Tile{160, 128}, Tile{128, 160}, Tile{128, 128}, Tile{64, 128},
      Tile{128, 64},  Tile{64, 64},   Tile{64, 32},   Tile{64, 16},   Tile{64, 8}};
  constexpr double kStart = 1043;          // cycles of a tile beside its products
  constexpr double kResult = 0.053;        // cycles for each element of a tile's result
  constexpr double kL2BytesPerCycle = 96;  // of a multiprocessor
  constexpr double kMerge = 2574;          // cycles, where several blocks share a tile's k
  constexpr std::uint64_t kStep = 64;      // of k
  const ProductShape& shape = product.shape;
  const auto [known, added] = tilings_.try_emplace(
      std::tuple(shape.m, shape.n, shape.k, shape.batches, product.operand_bytes, rate));
  Tiling& best = known->second;
  if (!added) return best;
  const double streams = static_cast<double>(device_.multiprocessors);
  best = {.cycles = std::numeric_limits<double>::max(), .splits = 1};
  for (const Tile& tile : kTiles) {
    const double count = std::ceil(static_cast<double>(shape.m) / tile.m) *
                         std::ceil(static_cast<double>(shape.n) / tile.n) *
                         static_cast<double>(shape.batches);
    for (const double split : {1.0, 2.0, 4.0, 8.0}) {
      if (split > 1 && (count >= streams / 2 || shape.k < 1024)) break;
      const double steps = std::ceil(static_cast<double>(shape.k) / kStep / split);
      const double multiply = tile.m * tile.n * 2 * kStep / rate;
      const double fetch = (tile.m + tile.n) * kStep * product.operand_bytes / kL2BytesPerCycle;
      const double needed =
          std::ceil(count * split / streams) *
              (steps * std::max(multiply, fetch) + kStart + kResult * tile.m * tile.n) +
          (split > 1 ? kMerge : 0);
      if (needed < best.cycles) {
        best = {.cycles = needed, .splits = split};
      }
    }
  }
  return best;
}

// A long product of tensor cores runs at the power limit, and its clock falls.
KernelWork ProductModel::library_work(const ProductKernel& product) {
  const bool tensor_cores = tensor_share(product.type, device_) > 0;
  const double share = tensor_cores ? 1 : kLanesShare;
  return library_work(product, share * product_flops(product.type, device_), tensor_cores);
}

// Without tensor cores even where the device has some.
KernelWork ProductModel::lanes_work(const ProductKernel& product) {
  return library_work(product, 2 * kLanesShare * arithmetic_lanes(product.type, device_), false);
}

// `rate`: FLOPs per multiprocessor and cycle.
KernelWork ProductModel::library_work(const ProductKernel& product, double rate,
                                      bool tensor_cores) {
  constexpr double kOverhead = 1.4;  // us, on top of a launch
  const ProductShape& shape = product.shape;
  KernelWork work{.dram_write = static_cast<double>(product.traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value + kOverhead};
  const double streams = static_cast<double>(device_.multiprocessors);
  auto [cycles, splits] = library_tiling(product, rate);
  // Lines that do not start at multiples of 16 bytes rule out the copy engine, and those of an odd
  // number of elements all that moves several.
  constexpr double kUnaligned = 2.8;
  constexpr double kOdd = 7.2;
  const bool odd = shape.n % 2 == 1 || shape.k % 2 == 1;
  if (!product.has_whole_lines() && tensor_cores && shape.n > 1) cycles *= odd ? kOdd : kUnaligned;
  const double clock = constants_.tensor_clock_ghz.value * kGiga;
  double cool = cycles / clock;
  if (shape.m == 1 || shape.n == 1) {
    // It has kernels for vectors, which stream the matrix.
    constexpr double kVectorShare = 0.8;  // of the streaming rate
    cool =
        std::min(cool, product.operands / (bytes_per_us(constants_.dram_read_gbps) * kVectorShare));
  }
  constexpr double kWarmUs = 1186;  // after which the clock has fallen
  const double load =
      tensor_cores ? product.shape.flops() / std::max(1.0, cycles * rate * streams) : 0;
  work.compute_us =
      cool * (1 + constants_.tensor_slowdown.value * load * std::min(1.0, cool / kWarmUs));
  constexpr std::uint64_t kGroup = 11;
  // It chooses the order of tiles that fetches less.
  const std::uint64_t clusters = std::max(1U, device_.multiprocessors / 2);
  work.dram_read =
      product.beside + std::min(tiled_reads(product, 256, 128, false, kGroup, clusters),
                                tiled_reads(product, 128, 256, true, kGroup, clusters));
  const double fetched_again =
      work.dram_read / std::max(1.0, static_cast<double>(product.traffic.bytes.read)) - 1;
  work.read_doubt = fetched_again > 0.01 ? 0.45 : 0.08;
  // Where several blocks share a tile, they may write partial sums in f32.
  work.write_doubt =
      splits > 1 ? 4 * splits * static_cast<double>(product.results) / work.dram_write : 0.02;
  constexpr double kDoublesDoubt = 0.4;  // not measured
  work.time_doubt = product.type == DType::kF64 ? kDoublesDoubt : 0.16;
  return work;
}

// Instructions of the epilogue, and what it reads; lanes that hold no neighbours exchange their
// elements first, which narrow tiles do while others multiply.
TileWork ProductModel::work_of_tile(const ProductKernel& product, const ProductTiling& tiling) {
  const ProductShape& shape = product.shape;
  constexpr double kRows = static_cast<double>(kTileRows);
  constexpr double kPerInstruction = 0.0058;  // cycles for each element of a tile
  constexpr double kQuick = 26;               // instructions that four warps overlap
  constexpr double kSlower = 6.35;            // times as long: those beyond
  constexpr double kExchange = 0.13;          // cycles for each element
  // Where lines of the result are no whole eights.
  constexpr double kScatteredHalves = 0.4;
  constexpr double kScatteredWide = 0.95;  // of 32 bits
  constexpr double kExact = 2.4;           // times as many instructions as for 16 bits
  constexpr double kAlternating = 0.3;     // of it, that other warps do not hide
  const bool wide = product.type == DType::kTf32 || product.type == DType::kF32;
  const double instructions = product.epilogue * (product.type == DType::kTf32 ? kExact : 1);
  const bool eights = shape.n % 8 == 0 && std::ranges::all_of(shape.parts, [](std::uint64_t count) {
                        return count % 8 == 0;
                      });
  const bool stores = product.traffic.bytes.write >= product.results;
  const double scattered = wide ? kScatteredWide : kScatteredHalves;
  const double moved = shape.in_order() ? 0 : eights || !stores ? kExchange : scattered;
  const double results = static_cast<double>(product.results) * 2;
  return {.reads = product.beside / std::max(1.0, results),
          .epilogue = kRows * (kPerInstruction * (std::min(kQuick, instructions) +
                                                  kSlower * std::max(0.0, instructions - kQuick)) +
                               moved * (tiling.width.shared() ? 1 : kAlternating)),
          .made = product.makes_rows ? made_cycles(product) : 0};
}

// Cycles in which 128 rows of the first operand are made for 64 of k: blocks beside each other load
// and compute a share each, and all of them wait, longer where the L2 does not have it yet. Fitted
// to casts, a silu with a factor, a normalisation's scales and rows of a table, over 32 such steps
// and one to sixteen rounds of tiles.
double ProductModel::made_cycles(const ProductKernel& product) {
  constexpr double kStep = 1150;
  constexpr double kFromMemory = 300;
  constexpr double kBytesPerCycle = 68;
  constexpr double kPerInstruction = 44;
  constexpr double kElements = static_cast<double>(kTileRows) * 64;
  const ProductTiling tiles = made_tiling(product.shape);
  const auto beside = static_cast<double>(tiles.beside);
  const auto columns = static_cast<double>(product.shape.column_tiles(tiles.width.columns));
  return kStep + kFromMemory * beside / columns +
         (kElements * product.row_bytes / kBytesPerCycle + kPerInstruction * product.row_prologue) /
             beside;
}

// Few rows: moving the larger operand takes the time.
KernelWork ProductModel::skinny_work(const ProductKernel& product) const {
  KernelWork work{.dram_write = static_cast<double>(product.traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value};
  constexpr double kSkinnyUs = 2.3;
  constexpr double kShare = 0.98;  // of the streaming rate
  work.fixed_us += kSkinnyUs;
  work.dram_read = product.operands + product.beside;
  work.compute_us = std::max(
      (work.dram_read + work.dram_write) / (bytes_per_us(constants_.dram_read_gbps) * kShare),
      lane_us(device_, product.prologue));
  work.read_doubt = 0.05;
  work.write_doubt = 0.3;
  work.time_doubt = 0.2;
  return work;
}

// Tiles whose threads copy the operands, as on sm_80.
KernelWork ProductModel::mma_work(const ProductKernel& product) {
  const ProductShape& shape = product.shape;
  const MmaTiling tiling = mma_tiling(shape, mma_operands(product), device_);
  KernelWork work = library_work(product);
  work.write_doubt = 0.05;
  work.time_doubt = 0.3;
  const double clock = constants_.tensor_clock_ghz.value * kGiga;
  double instructions = product.epilogue * static_cast<double>(product.results);
  if (product.makes_rows) {
    instructions += (product.row_prologue + kMove) *
                    static_cast<double>(shape.column_tiles(tiling.tile.columns) * shape.m *
                                        shape.k * shape.batches);
  }
  double multiplied = tiling.cycles / (clock * kCool);
  // Where mma.sync is all that there is, a library multiplies whole lines no slower.
  const bool fair = device_.capability != kHopper && product.type != DType::kF32 &&
                    product.line_bytes() % 16 == 0;
  if (fair) multiplied = std::max(multiplied, work.compute_us);
  work.compute_us = multiplied + lane_us(device_, instructions);
  return work;
}

KernelWork ProductModel::tile_work(const ProductKernel& product) {
  const ProductShape& shape = product.shape;
  KernelWork work{.dram_write = static_cast<double>(product.traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value};
  const bool wgmma = device_.capability == kHopper && takes_wgmma(product);
  const bool scaled = shape.scaled_columns > 0;
  if (scaled && product.scales_steps && wgmma) return wgmma_work(product);
  if (shape.n == 1 && !shape.grouped && is_float(product.type) && product.type != DType::kF64) {
    // A matrix times a vector streams the matrix. Other types have no kernel for that.
    work.dram_read = product.operands + product.beside;
    work.read_doubt = work.write_doubt = 0.03;
    work.time_doubt = 0.15;
    return work;
  }
  if (product.type == DType::kF64 || !is_float(product.type) ||
      device_.capability < kFirstWithCopies || scaled) {
    constexpr double kSlower = 1.1;
    KernelWork other = lanes_work(product);
    const double slower = constants_.lanes.value / arithmetic_lanes(product.type, device_);
    other.compute_us =
        other.compute_us * kSlower +
        slower * lane_us(device_, product.epilogue * static_cast<double>(product.results));
    other.time_doubt = 0.4;
    return other;
  }
  if (!shape.grouped && is_shallow(product, device_)) {
    return shallow_work(product.shape, product.traffic.bytes, reads_beside(product),
                        product.epilogue * static_cast<double>(product.results), device_);
  }
  if (!shape.grouped && is_skinny(product, wgmma)) return skinny_work(product);
  if (!shape.grouped && pads(product)) return padded_work(product);
  const bool chosen = wgmma && (product.makes_rows || !beaten(product));
  return chosen ? wgmma_work(product) : mma_work(product);
}

// Whether mma.sync is faster than wgmma.
bool ProductModel::beaten(const ProductKernel& product) {
  const MmaOperands operands = mma_operands(product);
  const bool reading = reads_beside(product);
  const auto [found, added] = beaten_.try_emplace({product.shape, operands, reading});
  if (added) found->second = beats_wgmma(product.shape, operands, device_, reading);
  return found->second;
}

const std::vector<ProductTiling>& ProductModel::wgmma_tilings(const ProductKernel& product) {
  const ProductShape size = in_halves(product.shape, product.type);
  const bool reading = reads_beside(product);
  const auto [found, added] = wgmma_tilings_.try_emplace({size, reading});
  if (added) found->second = product_tilings(size, std::max(1U, device_.multiprocessors), reading);
  return found->second;
}

bool ProductModel::contests(const ProductKernel& product) const {
  return ours_on_tensor_cores(product.type, device_) && product.shape.n > 1 &&
         (product.type == DType::kF32 || !product.has_whole_lines());
}

bool ProductModel::pads(const ProductKernel& product) const {
  const MmaOperands operands = mma_operands(product);
  if (operands.piece == 16 || product.makes_rows || product.shape.n == 1 ||
      !ours_on_tensor_cores(product.type, device_)) {
    return false;
  }
  ProductKernel whole = product;
  whole.padded = true;
  const bool wgmma = device_.capability == kHopper && takes_wgmma(whole);
  return repays_padding(product.shape, operands, product.odd_bytes(), wgmma, reads_beside(product),
                        device_);
}

KernelWork ProductModel::padded_work(const ProductKernel& product) {
  ProductKernel whole = product;
  whole.padded = true;
  KernelWork work = tile_work(whole);
  add_padding(product, work);
  return work;
}

// The operands were read beside their copies.
void ProductModel::add_padding(const ProductKernel& product, KernelWork& work) const {
  const std::uint64_t copied = product.odd_bytes();
  const auto bytes = static_cast<double>(copied);
  work.dram_write += bytes;
  work.dram_read += bytes * streaming_l2(device_.l2_bytes).miss(2 * bytes);
  work.write_doubt = 0.3;
  work.fixed_us += padding_us(copied, device_);
}

// Measuring takes the fastest of the tilings that take about the least time. Blocks that make rows
// together fetch as if each made them all.
KernelWork ProductModel::wgmma_work(const ProductKernel& product) {
  if (product.makes_rows) {
    return wgmma_work(product, {.width = made_tiling(product.shape).width,
                                .above = product.shape.m > kTileRows ? 2U : 1U});
  }
  KernelWork least{.compute_us = std::numeric_limits<double>::max()};
  for (const ProductTiling& tiling : wgmma_tilings(product)) {
    const KernelWork work = wgmma_work(product, tiling);
    if (work.compute_us < least.compute_us) least = work;
  }
  return least;
}

KernelWork ProductModel::wgmma_work(const ProductKernel& product, const ProductTiling& tiling) {
  constexpr double kOverhead = 1.4;  // us, on top of a launch
  constexpr double kSlower = 1.7;    // times as much as a library's
  const std::uint64_t multiprocessors = std::max(1U, device_.multiprocessors);
  const ProductShape size = in_halves(product.shape, product.type);
  TileWork tile = work_of_tile(product, tiling);
  tile.slowdown = kSlower * constants_.tensor_slowdown.value;
  KernelWork work{.dram_write = static_cast<double>(product.traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value + kOverhead};
  work.compute_us = tiling_cycles(size, tiling, multiprocessors, tile) /
                    (constants_.tensor_clock_ghz.value * kGiga * kCool);
  work.dram_read =
      product.beside + tiled_reads(product, tiling.rows(), tiling.columns(), true,
                                   tiling.group(size), tiling.at_once(multiprocessors));
  work.read_doubt = 0.2;
  work.write_doubt = 0.05;
  work.time_doubt = 0.22;
  return work;
}

KernelWork ProductModel::whole_rows_work(const ProductKernel& product) {
  const ProductShape& shape = product.shape;
  const ProductShape size = in_halves(shape, product.type);
  const unsigned multiprocessors = std::max(1U, device_.multiprocessors);
  const std::vector<RowTiling> tilings = row_tilings(size, multiprocessors);
  ProductKernel whole = product;
  whole.padded = whole.padded || !takes_wgmma(product);
  if (device_.capability != kHopper || tilings.empty() || is_fp8(product.type) ||
      product.type == DType::kF32 || !takes_wgmma(whole)) {
    // A block computes whole rows by ordinary arithmetic, or with the tensor cores of sm_80.
    const bool tensor_cores = on_tensor_cores(product.type, device_);
    KernelWork work = tensor_cores ? library_work(product) : lanes_work(product);
    work.compute_us *= tensor_cores ? 6 : 2.5;
    work.time_doubt = 0.6;
    return work;
  }
  KernelWork work{.dram_read = product.operands + product.beside,
                  .dram_write = static_cast<double>(product.traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value + 1.4};
  const double cycles = tilings.front().cycles(size, multiprocessors);
  work.compute_us = cycles / (constants_.tensor_clock_ghz.value * 1.1 * kGiga);
  work.read_doubt = 0.05;
  work.write_doubt = 0.03;
  work.time_doubt = 0.25;
  if (whole.padded) add_padding(product, work);
  return work;
}

}  // namespace fusecalc
