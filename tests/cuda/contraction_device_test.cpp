// Contractions on a GPU: our kernels and the library against float64, in every layout.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "backend/device_buffer.hpp"
#include "contraction_sources.hpp"
#include "core/error.hpp"
#include "cuda/cuda_backend.hpp"
#include "skip.hpp"

namespace fusecalc::cuda {
namespace {

GpuBackend& timing_gpu() {
  static CudaBackend gpu({.device_index = 0, .counters = false});
  return gpu;
}

constexpr std::uint64_t kBatches = 3;
constexpr std::uint64_t kM = 300;
constexpr std::uint64_t kN = 1000;
constexpr std::uint64_t kK = 264;

// a[batch][m][k] and one b[k][n] for all batches, either one also the other way round. Every extent
// of a line is a multiple of 8, but no multiple of a tile.
struct Operands {
  bool along_m;  // a lies as [k][m]
  bool along_n;  // b lies as [k][n]
  std::uint64_t lead_m = 304;

  std::uint64_t a_line() const { return along_m ? lead_m : kK; }
  std::uint64_t a_batch() const { return along_m ? kK * lead_m : kM * kK; }
  std::uint64_t b_line() const { return along_n ? kN : kK; }
  std::uint64_t a_at(std::uint64_t batch, std::uint64_t m, std::uint64_t k) const {
    return batch * a_batch() + (along_m ? k * lead_m + m : m * kK + k);
  }
  std::uint64_t b_at(std::uint64_t k, std::uint64_t n) const {
    return along_n ? k * kN + n : n * kK + k;
  }
};

double value_of(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
}

std::vector<std::uint16_t> values_of(GpuBackend& gpu, const Buffer& buffer) {
  std::vector<std::uint16_t> values(buffer.bytes / 2);
  gpu.download(std::as_writable_bytes(std::span(values)), {buffer});
  return values;
}

class Bench {
 public:
  explicit Bench(const Operands& operands)
      : operands_(operands),
        gpu_(timing_gpu()),
        a_(gpu_, kBatches * operands.a_batch() * 2),
        b_(gpu_, kK * kN * 2),
        out_(gpu_, kBatches * kM * kN * 2) {
    gpu_.fill(a_, {.dtype = DType::kBf16, .low = -1, .high = 1, .seed = 1});
    gpu_.fill(b_, {.dtype = DType::kBf16, .low = -1, .high = 1, .seed = 2});
    gpu_.poison(out_);
  }

  // Two tiles of a cluster above each other, which share b's columns.
  void run_sm90() { run_sm90({.columns = 128, .stages = 6, .shares_a = false}); }
  // Two side by side, which share a's rows; where b lies as [n][k] there is an odd number of them.
  void run_sm90_side_by_side() {
    run_sm90(operands_.along_n ? Tiles{.columns = 192, .stages = 5, .shares_a = true}
                               : Tiles{.columns = 96, .stages = 6, .shares_a = true});
  }
  void run_sm80();
  void run_sm80_shifted();
  void run_library();
  // The largest error over elements that touch all tiles' edges.
  double worst_error();

 private:
  struct Tiles {
    std::uint32_t columns;
    std::uint32_t stages;
    bool shares_a;
  };
  void run_sm90(const Tiles& tiles);
  std::vector<Argument> tail() const { return {out_.at(0), std::uint64_t{kM}, std::uint64_t{kN}}; }
  CompiledKernel compile(const std::string& text, bool bound) {
    return gpu_.compile({.text = text, .entries = {"k"}, .architecture_bound = bound}).front();
  }

  // A tile of contract_sm80, and what lines are said to begin at multiples of.
  struct Mma {
    const char* tile;
    const char* alignment;
    unsigned rows;  // of the tile, and columns
    unsigned shared_bytes;
  };
  void run_mma(const Mma& mma);

  Operands operands_;
  GpuBackend& gpu_;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer out_;
};

const std::string kShape =
    "constexpr ContractShape kShape = {300, 1000, 264, 1, 3, 0, 1, 0, 0, 2};\n";

std::string flag(bool value) { return value ? "true" : "false"; }

void Bench::run_sm90(const Tiles& tiles) {
  const std::string text =
      kStore + kShape + "typedef ContractSm90<bf16, " + std::to_string(tiles.columns) +
      (tiles.shares_a ? ", 1, " : ", 2, ") + flag(operands_.along_m) +
      ", LinesOfB::" + (operands_.along_n ? "kAcross" : "kAlong") +
      ", Store, MatrixB, NoPrologue, " + (tiles.shares_a ? "2" : "1") + R"(> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, 1) __cluster_dims__(2, 1, 1)
    k(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, bf16* out, i64 rows,
      i64 line) {
  Contract::run(a, b, kShape, Store{out, rows, line});
}
)";
  const std::uint32_t shared_bytes = tiles.stages * ((128 + tiles.columns) * 64 * 2 + 16);
  const auto [lines, line] = operands_.along_m ? std::pair{kK, kM} : std::pair{kM, kK};
  const TensorMap a{.at = a_.at(0),
                    .dtype = DType::kBf16,
                    .extents = {line, lines, kBatches, 1},
                    .strides = {operands_.a_line() * 2, operands_.a_batch() * 2, 16},
                    .box = {64, operands_.along_m || tiles.shares_a ? 64U : 128U, 1, 1}};
  const TensorMap b{
      .at = b_.at(0),
      .dtype = DType::kBf16,
      .extents = {operands_.along_n ? kN : kK, operands_.along_n ? kK : kN, 1, 1},
      .strides = {operands_.b_line() * 2, 16, 16},
      .box = {64, operands_.along_n ? 64U : tiles.columns / (tiles.shares_a ? 1 : 2), 1, 1}};
  std::vector<Argument> arguments = {a, b};
  for (const Argument& each : tail()) arguments.push_back(each);
  gpu_.launch({.kernel = compile(source_of(kContractSm90, text), true),
               .grid = {16},
               .block = {384},
               .shared_bytes = shared_bytes,
               .arguments = arguments});
}

void Bench::run_mma(const Mma& mma) {
  const std::string text =
      kStore + kShape + "constexpr ContractStrides kStrides = {" +
      std::to_string(operands_.a_line()) + ", " + std::to_string(operands_.a_batch()) + ", 0, " +
      std::to_string(operands_.b_line()) + ", 0, 0};\ntypedef ContractSm80<bf16, bf16, MmaTile<" +
      mma.tile + ">, " + mma.alignment + ", " + flag(operands_.along_m) + ", " +
      flag(operands_.along_n) + R"(, Store> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)
    k(const bf16* a, const bf16* b, bf16* out, i64 rows, i64 line) {
  Contract::run(a, b, kShape, kStrides, Store{out, rows, line});
}
)";
  const auto tiles = [&](std::uint64_t extent) {
    return (static_cast<unsigned>(extent) + mma.rows - 1) / mma.rows;
  };
  std::vector<Argument> arguments = {a_.at(0), b_.at(0)};
  for (const Argument& each : tail()) arguments.push_back(each);
  gpu_.launch({.kernel = compile(source_of(kContractSm80, text), false),
               .grid = {static_cast<unsigned>(kBatches) * tiles(kM) * tiles(kN)},
               .block = {128},
               .shared_bytes = mma.shared_bytes,
               .arguments = arguments});
}

void Bench::run_sm80() { run_mma({"128, 128, 64, 1, 64, 4, 2", "8, 4", 128, 65536}); }

// Three stages, for A with a chunk more for each line, and two tiles of it.
void Bench::run_sm80_shifted() {
  run_mma({"64, 64, 32, 2, 128, 3, 2", "1, 2", 64, 64 * (3 * (128 + 16) + 2 * 128 + 3 * 128)});
}

void Bench::run_library() {
  const std::vector<PreparedMatmul> algorithms = gpu_.prepare(
      {.operand = DType::kBf16,
       .outcome = DType::kBf16,
       .m = kM,
       .n = kN,
       .k = kK,
       .a_transposed = operands_.along_m,
       .b_transposed = !operands_.along_n,
       .a_line = operands_.a_line(),
       .b_line = operands_.b_line(),
       .result_line = kN,
       .batches = {{.count = kBatches, .a = operands_.a_batch(), .b = 0, .result = kM * kN}}},
      {.a = a_.at(0), .b = b_.at(0), .result = out_.at(0)});
  gpu_.multiply(algorithms.front());
}

double Bench::worst_error() {
  const std::vector<std::uint16_t> a = values_of(gpu_, a_), b = values_of(gpu_, b_),
                                   out = values_of(gpu_, out_);
  double worst = 0;
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    for (std::uint64_t m = 0; m < kM; m += m % 64 == 63 ? 1U : 21U) {
      for (std::uint64_t n = 0; n < kN; n += n % 8 == 7 ? 1U : 7U) {
        double sum = 0;
        for (std::uint64_t k = 0; k < kK; ++k) {
          sum += value_of(a[operands_.a_at(batch, m, k)]) * value_of(b[operands_.b_at(k, n)]);
        }
        const double error = std::abs(value_of(out[(batch * kM + m) * kN + n]) - sum);
        if (!(error <= worst)) worst = error;
      }
    }
  }
  return worst;
}

// Sums of 264 products of numbers below 1 stay below 64, where bf16's steps are 0.25 apart.
constexpr double kTolerance = 0.13;

void check_layouts(void (Bench::*run)()) {
  for (const bool along_m : {false, true}) {
    for (const bool along_n : {false, true}) {
      CAPTURE(along_m);
      CAPTURE(along_n);
      Bench bench({along_m, along_n});
      (bench.*run)();
      CHECK(bench.worst_error() < kTolerance);
    }
  }
}

TEST_CASE("contraction with TMA and wgmma, batched, b shared, in every layout") {
  if (timing_gpu().device().capability != kHopper) {
    return skip("wgmma needs compute capability 9.0");
  }
  check_layouts(&Bench::run_sm90);
  check_layouts(&Bench::run_sm90_side_by_side);
}

TEST_CASE("contraction with mma, batched, b shared, in every layout") {
  check_layouts(&Bench::run_sm80);
}

TEST_CASE("contraction with mma of lines that are shifted on chip, in every layout") {
  check_layouts(&Bench::run_sm80_shifted);
}

TEST_CASE("contraction by the library, batched, b shared, in every layout") {
  check_layouts(&Bench::run_library);
}

TEST_CASE("the library adds a bias along n, and refuses types that it has no product for") {
  GpuBackend& gpu = timing_gpu();
  // 8 x 8 times 8 x 8, all ones but for one row of a, which is zero: 8, and 0 in that row.
  std::vector<float> ones(64, 1.0F), bias(8), out(64);
  std::vector<float> a = ones;
  for (std::size_t i = 0; i < 8; ++i) a[3 * 8 + i] = 0;
  for (std::size_t i = 0; i < 8; ++i) bias[i] = static_cast<float>(i) * 10;
  const DeviceBuffer da(gpu, 256), db(gpu, 256), dbias(gpu, 32), dout(gpu, 256);
  gpu.upload(da.at(0), std::as_bytes(std::span(a)));
  gpu.upload(db.at(0), std::as_bytes(std::span(ones)));
  gpu.upload(dbias.at(0), std::as_bytes(std::span(bias)));
  LibraryMatmul product{.operand = DType::kF32,
                        .outcome = DType::kF32,
                        .m = 8,
                        .n = 8,
                        .k = 8,
                        .a_line = 8,
                        .b_line = 8,
                        .result_line = 8,
                        .epilogue = MatmulEpilogue::kBias};
  const MatmulOperands operands{
      .a = da.at(0), .b = db.at(0), .result = dout.at(0), .bias = dbias.at(0)};
  gpu.multiply(gpu.prepare(product, operands).front());
  gpu.download(std::as_writable_bytes(std::span(out)), dout.at(0));
  CHECK(out[0] == 8);
  CHECK(out[7] == 78);
  CHECK(out[3 * 8 + 2] == 20);
  product.operand = DType::kU4;
  CHECK_THROWS_AS(gpu.prepare(product, operands), Error);
}

TEST_CASE("the library multiplies siblings in one call where they lie evenly apart") {
  GpuBackend& gpu = timing_gpu();
  // 16 x 16 of ones by three of 1, 2 and 3, and a bias of 0, 100 and 200 for each.
  constexpr std::size_t kMatrix = 256, kColumns = 16;
  std::vector<float> a(kMatrix, 1), b(3 * kMatrix), bias(3 * kColumns), out(3 * kMatrix);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i / kMatrix + 1);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i / kColumns * 100);
  const DeviceBuffer da(gpu, 4 * a.size()), db(gpu, 4 * b.size()), dbias(gpu, 4 * bias.size()),
      dout(gpu, 4 * out.size());
  gpu.upload(da.at(0), std::as_bytes(std::span(a)));
  gpu.upload(db.at(0), std::as_bytes(std::span(b)));
  gpu.upload(dbias.at(0), std::as_bytes(std::span(bias)));
  const auto part = [&](std::size_t i, std::size_t to) {
    return MatmulOperands{.a = da.at(0),
                          .b = db.at(4 * kMatrix * i),
                          .result = dout.at(4 * kMatrix * to),
                          .bias = dbias.at(4 * kColumns * i)};
  };
  const LibraryMatmul product{.operand = DType::kF32,
                              .outcome = DType::kF32,
                              .m = 16,
                              .n = kColumns,
                              .k = 16,
                              .a_line = 16,
                              .b_line = 16,
                              .result_line = 16,
                              .epilogue = MatmulEpilogue::kBias};
  MatmulOperands call = part(2, 2);  // in any order
  call.siblings = {part(0, 0), part(1, 1)};
  gpu.multiply(gpu.prepare(product, call).front());
  gpu.download(std::as_writable_bytes(std::span(out)), dout.at(0));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(out[i * kMatrix] == static_cast<float>(16 * (i + 1) + 100 * i));
    CHECK(out[(i + 1) * kMatrix - 1] == out[i * kMatrix]);
  }
  call.siblings = {part(0, 1), part(1, 0)};
  CHECK_THROWS_AS(gpu.prepare(product, call), Error);
  call.siblings = {part(0, 0)};
  CHECK_NOTHROW(gpu.prepare(product, call));
}

}  // namespace
}  // namespace fusecalc::cuda
