// The building blocks of contractions compile with every kind of epilogue, without a GPU.

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include "contraction_sources.hpp"
#include "cuda/compiler.hpp"

namespace fusecalc::cuda {
namespace {

const KernelCache kNoCache{std::nullopt};

// gelu(x + bias) + residual.
const std::string kPointwise = R"(
struct Tail {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  bf16* out;
  const bf16* bias;
  const bf16* residual;
  i64 line;
  template <class Valid>
  __device__ void operator()(int, i64 row, i64 column, float (&v)[8], Valid valid) const {
    float b[8], r[8];
    load_columns<8>(bias + column, valid, b);
    load_columns<8>(residual + row * line + column, valid, r);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float x = v[i] + b[i];
      v[i] = quick_gelu_tanh(x) + r[i];
    }
    store_columns<8>(out + row * line + column, valid, v);
  }
};
)";

// x + residual, which is loaded ahead; of a shape that is known, as in generated code.
const std::string kResidual = R"(
constexpr ContractShape kKnown = {4096, 4096, 1024, 1, 1, 0, 0, 0, 0, 8, 0};
struct Tail {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  typedef Pack<bf16, 8> Ahead;
  static constexpr i64 line = kKnown.n;
  bf16* out;
  const bf16* residual;
  template <class Valid>
  __device__ Ahead ahead(int, i64 row, i64 column, Valid valid) const {
    return load_ahead(residual + row * line + column, valid != 0);
  }
  template <class Valid>
  __device__ void operator()(int, i64 row, i64 column, float (&v)[8], Valid valid,
                             const Ahead& ahead) const {
    float r[8];
    unpack(ahead, r);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += r[i];
    store_columns<8>(out + row * line + column, valid, v);
  }
};
)";

const std::string kColumnMax = R"(
struct Tail {
  typedef NoReduction Rows;
  typedef Largest Columns;
  float* partials;
  i64 strips, line;
  template <class Valid>
  __device__ void operator()(int, i64, i64, float (&v)[8], Valid) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = quick_log1p(fmaxf(v[i], 0.0f));
  }
  __device__ void column_done(int batch, int strip, int column, Largest::State s) const {
    partials[(batch * strips + strip) * line + column] = s.part[0];
  }
};
)";

const std::string kRowLogSumExp = R"(
struct Tail {
  typedef ExponentialSum Rows;
  typedef NoReduction Columns;
  ExponentialSum::State* partials;
  i64 tiles;
  template <class Valid>
  __device__ void operator()(int, i64, i64, float (&)[8], Valid) const {}
  __device__ void row_done(int, int row, int tile, ExponentialSum::State s) const {
    partials[row * tiles + tile] = s;
  }
};
)";

const std::string kMergers = R"(
extern "C" __global__ void columns(const Largest::State* partials, float* out, int outer, int count,
                                   int inner) {
  merge_columns<Largest>(partials, outer, count, inner,
                     [=](int o, int i, Largest::State s) { out[(i64)o * inner + i] = s.part[0]; });
}
extern "C" __global__ void rows(const ExponentialSum::State* partials, float* out, i64 rows, int count) {
  merge_rows<ExponentialSum>(partials, rows, count,
                        [=](i64 row, ExponentialSum::State s) { out[row] = ExponentialSum::result(s); });
}
)";

const std::string kResult = R"(
struct Tail {
  static constexpr bool kSums = true;
  bf16* out;
  float* sums;
  i64 heads, queries;
  __device__ void operator()(int batch, int head, i64 query, i64 column, float (&v)[8],
                             Eight valid) const {
    store_columns<8>(out + ((batch * heads + head) * queries + query) * kHead + column, valid, v);
  }
  __device__ void row_sum(int batch, int head, i64 query, float sum) const {
    sums[(batch * heads + head) * queries + query] = sum;
  }
};
struct Mask {
  static constexpr bool kActive = true, kWeighs = false;
  static constexpr int kTogether = 2;
  static constexpr bool kEights = true;
  const bf16* mask;
  i64 keys;
  template <int kCount>
  __device__ auto operator()(int, int, i64 query, i64 key) const {
    const auto x = load_neighbours<kCount, kCount>(mask + query * keys + key);
    return [=](float (&v)[kCount]) {
      for (int j = 0; j < kCount; ++j) v[j] += x.get(j);
    };
  }
};
)";

std::string contract_sm90(const std::string& arguments, const std::string& more = "") {
  return "typedef ContractSm90<" + arguments + ", Tail" + more + R"(> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, 1)
    __cluster_dims__(Contract::kBlocksPerCluster, 1, 1)
    k(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
      const __grid_constant__ ContractShape shape, const __grid_constant__ Tail tail) {
  Contract::run(a, b, shape, tail);
}
)";
}

std::string contract_sm80(const std::string& element, const std::string& arguments) {
  return "typedef ContractSm80<" + element + ", " + arguments + R"(, Tail> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)
    k(const )" +
         element + "* a, const " + element + R"(* b, ContractShape shape, ContractStrides strides,
      Tail tail) {
  Contract::run(a, b, shape, strides, tail);
}
)";
}

// A kernel that is given maps of its operands; `type` is its building block up to the scores.
std::string attention_of_maps(int head, const std::string& type, bool causal,
                              const std::string& scores) {
  return "constexpr int kHead = " + std::to_string(head) + ";\n" + kResult + "typedef " + type +
         (causal ? ", true, " : ", false, ") + scores +
         R"(, Tail> Attention;
extern "C" __global__ void __launch_bounds__(Attention::kThreads, Attention::kBlocksPerSm)
    k(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
      const __grid_constant__ TensorMap v, const __grid_constant__ AttentionShape shape,
      const __grid_constant__ )" +
         scores + R"( scores, const __grid_constant__ Tail tail) {
  Attention::run(q, k, v, shape, scores, tail);
}
)";
}

// By several warpgroups beside one that copies, or by one alone, of which there are none then.
std::string attention_sm90(int head, int warpgroups, int keys, bool causal,
                           const std::string& scores) {
  const std::string type = warpgroups == 0
                               ? "AttentionAloneSm90<bf16, "
                               : "AttentionSm90<bf16, kHead, " + std::to_string(warpgroups) + ", ";
  return attention_of_maps(head, type + std::to_string(keys), causal, scores);
}

std::string attention_words(int head, bool causal, const std::string& scores) {
  return attention_of_maps(head, "AttentionWordsSm90<kHead", causal, scores);
}

std::string attention_sm80(int head, bool causal, const std::string& scores,
                           const std::string& element = "bf16") {
  return "constexpr int kHead = " + std::to_string(head) + ";\n" + kResult +
         "typedef AttentionSm80<" + element + ", kHead, " + (causal ? "true" : "false") + ", " +
         scores +
         R"(, Tail> Attention;
extern "C" __global__ void __launch_bounds__(Attention::kThreads)
    k()" +
         "const " + element + "* q, const " + element + "* k, const " + element + R"(* v,
      AttentionShape shape, AttentionStrides strides, )" +
         scores +
         R"( scores, Tail tail) {
  Attention::run(q, k, v, shape, strides, scores, tail);
}
)";
}

// `rows`: the type of the rows of keys and values.
std::string attention_few(int head, int row_tiles, int parts, const std::string& scores,
                          const std::string& rows = "OperandRows<bf16>") {
  return "constexpr int kHead = " + std::to_string(head) + ";\n" + kResult +
         "typedef AttentionFew<bf16, kHead, " + std::to_string(row_tiles) + ", 3, " +
         std::to_string(parts) + ", true, " + scores +
         R"(, Tail> Attention;
extern "C" __global__ void __launch_bounds__(Attention::kThreads, Attention::kBlocksPerSm)
    k(OperandRows<bf16> q, )" +
         rows + " k, " + rows + " v, AttentionShape shape, " + scores +
         R"( scores, Tail tail, u8* work) {
  Attention::run(q, k, v, shape, 64, scores, tail, work);
}
)";
}

void check_compiles(const std::string& text, const std::string& architecture, bool bound) {
  CAPTURE(architecture);
  const CompiledImage image = compile_image(
      {.text = text, .entries = {"k"}, .architecture_bound = bound}, architecture, kNoCache);
  CAPTURE(image.log);
  // Words that the copying warp parks cost nothing; accumulators would be kilobytes.
  CHECK(report_of(image.log, "k").value().spill_bytes <= 160);
  // ptxas says so where it makes wgmma wait for each other.
  CHECK(image.log.find("C7510") == std::string::npos);
}

// As generated code has it, with a shape that is known: else all of an epilogue's branches are
// there.
TEST_CASE("the widest tiles for sm_90a compile and keep their accumulators in registers") {
  const std::string known =
      "constexpr ContractShape kShape = {4000, 2240, 512, 1, 1, 0, 0, 0, 0, 1, 0};\n";
  for (const auto& [tail, arguments] :
       {std::pair{kPointwise, "bf16, 320, 2, false, LinesOfB::kInOrder"},
        std::pair{kColumnMax, "f16, 320, 2, true, LinesOfB::kInOrder"},
        std::pair{kRowLogSumExp, "bf16, 320, 2, false, LinesOfB::kAlong"}}) {
    std::string contract = contract_sm90(arguments);
    const std::string shape = "b, shape, tail)";
    contract.replace(contract.find(shape), shape.size(), "b, kShape, tail)");
    check_compiles(source_of(kContractSm90, tail + known + contract), "sm_90", true);
  }
}

TEST_CASE("contractions for sm_90a compile and keep their accumulators in registers") {
  const std::string kSideBySide = ", MatrixB, NoPrologue, 2";
  const std::vector<std::vector<std::string>> cases = {
      {kPointwise, "bf16, 160, 2, false, LinesOfB::kInOrder"},
      {kPointwise, "bf16, 256, 2, false, LinesOfB::kInOrder"},
      {kPointwise, "f16, 128, 1, true, LinesOfB::kAcross"},
      {kColumnMax, "bf16, 64, 2, false, LinesOfB::kAlong"},
      {kColumnMax, "bf16, 128, 2, false, LinesOfB::kAlong"},
      {kColumnMax, "bf16, 160, 2, false, LinesOfB::kInOrder"},
      {kRowLogSumExp, "bf16, 160, 1, false, LinesOfB::kAlong"},
      {kPointwise, "bf16, 192, 2, false, LinesOfB::kAcross"},
      {kRowLogSumExp, "bf16, 96, 2, false, LinesOfB::kInOrder"},
      {kColumnMax, "f16, 192, 2, true, LinesOfB::kInOrder"},
      {kPointwise, "fp8_e4m3, 224, 2, false, LinesOfB::kInOrder"},
      {kPointwise, "f32, 256, 2, false, LinesOfB::kInOrder"},
      {kRowLogSumExp, "f32, 128, 2, false, LinesOfB::kAlong"},
  };
  for (const auto& each : cases) {
    CAPTURE(each[1]);
    check_compiles(source_of(kContractSm90, each[0] + contract_sm90(each[1])), "sm_90", true);
  }
  for (const auto& each : cases) {
    std::string beside = each[1];  // a cluster of one above, two side by side
    const std::size_t above = beside.find(", 2, ");
    if (above == std::string::npos) continue;
    beside[above + 2] = '1';
    CAPTURE(beside);
    check_compiles(source_of(kContractSm90, each[0] + contract_sm90(beside, kSideBySide)), "sm_90",
                   true);
  }
  for (const auto& [tail, arguments] :
       {std::pair{kPointwise, "bf16, 128, 2, false, LinesOfB::kInOrder"},
        std::pair{kColumnMax, "f16, 128, 1, true, LinesOfB::kAcross"},
        std::pair{kRowLogSumExp, "bf16, 96, 2, false, LinesOfB::kAlong"},
        std::pair{kPointwise, "fp8_e4m3, 128, 2, false, LinesOfB::kInOrder"}}) {
    CAPTURE(arguments);
    const std::string high = contract_sm90(arguments, ", MatrixOf<192>");
    check_compiles(source_of(kContractSm90, tail + high), "sm_90", true);
  }
  for (const char* arguments :
       {"bf16, 160, 2, false, LinesOfB::kInOrder", "f16, 128, 2, true, LinesOfB::kAcross",
        "bf16, 96, 2, false, LinesOfB::kAlong"}) {
    CAPTURE(arguments);
    check_compiles(source_of(kContractSm90, kPointwise + contract_sm90(arguments, kSideBySide)),
                   "sm_90", true);
  }
  for (const char* arguments :
       {"bf16, 256, 2, false, LinesOfB::kInOrder", "f16, 160, 2, false, LinesOfB::kInOrder",
        "bf16, 224, 2, false, LinesOfB::kInOrder"}) {
    CAPTURE(arguments);
    std::string text = kResidual + contract_sm90(arguments);
    text.replace(text.find("shape, tail"), 5, "kKnown");
    check_compiles(source_of(kContractSm90, text), "sm_90", true);
  }
}

TEST_CASE("contractions for sm_80 and later compile and keep their accumulators in registers") {
  const std::vector<std::vector<std::string>> cases = {
      {kPointwise, "bf16", "bf16, MmaTile<128, 128, 64, 1, 64, 4, 2>, 8, 8, false, false"},
      {kColumnMax, "f16", "f16, MmaTile<128, 128, 32, 1, 64, 4, 1>, 1, 2, true, false"},
      {kRowLogSumExp, "f32", "f32, MmaTile<64, 64, 32, 2, 128, 3, 2>, 4, 4, false, true"},
      {kPointwise, "f32", "exact_f32, MmaTile<128, 128, 32, 1, 64, 4, 1>, 4, 1, true, true"},
  };
  for (const char* architecture : {"sm_80", "sm_100"}) {
    for (const auto& each : cases) {
      CAPTURE(each[2]);
      check_compiles(source_of(kContractSm80, each[0] + contract_sm80(each[1], each[2])),
                     architecture, false);
    }
  }
}

TEST_CASE("contractions of few rows compile and keep their accumulators in registers") {
  const auto skinny = [](const std::string& arguments) {
    return "typedef ContractSkinny<bf16, " + arguments + R"(, StoredWeights<bf16>, Tail> Contract;
extern "C" __global__ void __launch_bounds__(256)
    k(const bf16* a, const bf16* b, ContractShape shape, ContractStrides strides, Tail tail) {
  Contract::run(a, StoredWeights<bf16>{b, strides}, shape, strides, tail);
}
)";
  };
  for (const char* architecture : {"sm_80", "sm_90"}) {
    for (const std::string& tail : {kPointwise, kColumnMax, kRowLogSumExp}) {
      check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                                "tile_walk", "mma", "contract_skinny"},
                               tail + skinny("4, 4")),
                     architecture, false);
    }
  }
}

TEST_CASE("contractions of few rows and packed weights compile for every group and type") {
  const auto packed = [](const std::string& type, int group, const std::string& arguments) {
    return "struct Weights {\n  typedef " + type +
           " Packed;\n  static constexpr int kGroup = " + std::to_string(group) + R"(;
  const Packed* from;
  const bf16* scale;
  __device__ const Packed* packed() const { return from; }
  __device__ float operator()(int line, int k, float q) const {
    return q * fetch(scale, (u64)line * 64 + k / kGroup);
  }
};
typedef ContractNibbles<)" +
           arguments + R"(, Weights, Tail> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)
    k(const bf16* a, Weights weights, ContractShape shape, ContractStrides strides, Tail tail) {
  Contract::run(a, weights, shape, strides, tail);
}
)";
  };
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    for (const std::string& text : {kPointwise + packed("u4", 128, "bf16, 2, 4, 7, 16, 2"),
                                    kRowLogSumExp + packed("i4", 64, "bf16, 4, 2, 2, 9, 3"),
                                    kColumnMax + packed("u4", 32, "bf16, 2, 4, 4, 1, 2")}) {
      check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                                "tile_walk", "mma", "contract_skinny", "contract_nibbles"},
                               text),
                     architecture, false);
    }
  }
}

TEST_CASE("contractions of few rows for sm_90a compile and keep their accumulators in registers") {
  for (const auto& [tail, arguments] : {std::pair{kPointwise, "bf16, 16, 8, false"},
                                        std::pair{kRowLogSumExp, "f16, 64, 1, true"}}) {
    check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                              "tile_walk", "hopper", "stages", "contract_skinny_sm90"},
                             tail + "typedef ContractSkinnySm90<" + arguments + R"(, Tail> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads)
    k(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
      const __grid_constant__ ContractShape shape, const __grid_constant__ Tail tail) {
  Contract::run(a, b, shape, tail);
}
)"),
                   "sm_90", true);
  }
}

TEST_CASE("matrices times vectors compile, however their rows are shared out") {
  for (const char* arguments : {"bf16, 8, 8, 1", "f32, 1, 32, 1", "f16, 8, 512, 264"}) {
    const std::string element = std::string(arguments).substr(0, std::string(arguments).find(','));
    check_compiles(
        source_of({"elements", "quick", "accumulators", "columns", "epilogue", "tile_walk",
                   "contract_vector"},
                  kPointwise + "typedef ContractVector<" + arguments + R"(, Tail> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads)
    k(const )" + element +
                      "* a, const " + element +
                      R"(* b, ContractShape shape, ContractStrides strides, Tail tail, u8* work) {
  Contract::run(a, b, shape, strides, tail, work);
}
)"),
        "sm_80", false);
  }
}

// layer_norm(x + residual).
const std::string kNorm = R"(
struct Tail {
  typedef Moments Rows;
  bf16* out;
  const bf16* residual;
  i64 line;
  template <class Valid>
  __device__ void first(int, i64 row, i64 column, float (&v)[8], float (&taken)[8],
                        Valid valid) const {
    float r[8];
    load_columns<8>(residual + row * line + column, valid, r);
#pragma unroll
    for (int i = 0; i < 8; ++i) taken[i] = v[i] += r[i];
  }
  template <class Valid>
  __device__ void second(int, i64 row, i64 column, float (&v)[8], Valid valid,
                         Moments::State all) const {
    const float scale = rsqrtf(Moments::variance(all) + 1e-5f);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = (v[i] - Moments::mean(all)) * scale;
    store_columns<8>(out + row * line + column, valid, v);
  }
};
)";

TEST_CASE("contractions with whole rows compile and keep them in registers") {
  for (const auto& [arguments, cluster] : {std::pair{"192, 4, false, LinesOfB::kAcross", "4"},
                                           std::pair{"256, 1, true, LinesOfB::kAlong", "1"},
                                           std::pair{"256, 2, false, LinesOfB::kInOrder", "2"}}) {
    const std::string text = kNorm + "typedef ContractRowsSm90<bf16, " + arguments +
                             R"(, Tail> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, 1) __cluster_dims__()" +
                             cluster + R"(, 1, 1)
    k(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
      const __grid_constant__ ContractShape shape, const __grid_constant__ Tail tail) {
  Contract::run(a, b, shape, tail);
}
)";
    check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                              "tile_walk", "hopper", "stages", "contract_rows_sm90"},
                             text),
                   "sm_90", true);
  }
}

TEST_CASE("the mergers of partials compile") {
  const std::string text =
      source_of({"elements", "quick", "accumulators", "columns", "epilogue"}, kMergers);
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    const CompiledImage image =
        compile_image({.text = text, .entries = {"columns", "rows"}}, architecture, kNoCache);
    CHECK(report_of(image.log, "columns").value().spill_bytes == 0);
    CHECK(report_of(image.log, "rows").value().spill_bytes == 0);
  }
}

TEST_CASE("attention for sm_90a compiles and keeps its accumulators in registers") {
  for (const int head : {64, 96, 128, 192, 256}) {
    CAPTURE(head);
    const auto check = [&](int warpgroups, int keys, const char* scores) {
      CAPTURE(warpgroups);
      check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                                "attention", "hopper", "attention_sm90", "attention_alone_sm90"},
                               attention_sm90(head, warpgroups, keys, head != 96, scores)),
                     "sm_90", true);
    };
    const int most = head <= 128 ? 128 : head <= 192 ? 96 : 80;
    check(1, most, "PlainScores");
    check(head == 64 ? 3 : 2, most, "PlainScores");
    check(1, most, "Mask");
    check(2, most, "Mask");
    // Narrower ones, where fewer keys fill as many tiles.
    check(head == 64 ? 3 : 2, most - 16, "PlainScores");
    check(1, 48, "PlainScores");
    check(2, 64, "Mask");
    for (int keys = 16; head == 64 && keys <= 128; keys += 16) check(0, keys, "PlainScores");
  }
}

TEST_CASE("attention of 32-bit floats for sm_90a compiles") {
  for (const int head : {32, 64, 96, 128}) {
    CAPTURE(head);
    for (const char* scores : {"PlainScores", "Mask"}) {
      check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                                "attention", "mma", "tf32_parts", "hopper", "attention_words_sm90"},
                               attention_words(head, head != 96, scores)),
                     "sm_90", true);
    }
  }
}

TEST_CASE("attention for sm_80 and later compiles") {
  for (const char* architecture : {"sm_80", "sm_100"}) {
    for (const int head : {64, 128, 192}) {
      CAPTURE(head);
      check_compiles(
          source_of({"elements", "quick", "accumulators", "columns", "epilogue", "attention", "mma",
                     "attention_sm80"},
                    attention_sm80(head, head != 64, head == 64 ? "Mask" : "PlainScores")),
          architecture, false);
    }
    check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                              "attention", "mma", "attention_sm80"},
                             attention_sm80(96, true, "Mask", "f32")),
                   architecture, false);
  }
}

TEST_CASE("attention of few queries compiles") {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100", "sm_120"}) {
    for (const auto& [head, row_tiles, rows] : {std::tuple{32, 1, "OperandRows<bf16>"},
                                                {32, 2, "PagedRows<bf16, i64, 1>"},
                                                {96, 1, "PagedRows<bf16, i32, 24>"},
                                                {96, 2, "OperandRows<bf16>"},
                                                {128, 1, "PagedRows<bf16, i32, 16>"},
                                                {128, 2, "PagedRows<bf16, i32, 64>"},
                                                {128, 1, "OperandRows<bf16>"},
                                                {128, 2, "OperandRows<bf16>"},
                                                {256, 1, "OperandRows<bf16>"},
                                                {256, 2, "PagedRows<bf16, i32, 128>"}}) {
      CAPTURE(head);
      CAPTURE(row_tiles);
      CAPTURE(rows);
      check_compiles(source_of({"elements", "quick", "accumulators", "columns", "epilogue",
                                "attention", "mma", "attention_sm80", "attention_few"},
                               attention_few(head, row_tiles, head == 96 ? 1 : 8,
                                             head == 128 ? "Mask" : "PlainScores", rows)),
                     architecture, false);
    }
  }
}

}  // namespace
}  // namespace fusecalc::cuda
