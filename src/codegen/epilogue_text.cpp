// The text of an epilogue: its struct, and the entries that run after the kernel's.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/epilogue.hpp"
#include "codegen/kernel_facts.hpp"
#include "codegen/text.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kMergeThreads = 256;
constexpr std::uint64_t kTotalThreads = 1024;

}  // namespace

std::string Epilogue::preamble() const {
  std::string text;
  for (const char* block : {"elements", "arithmetic", "quick", "accumulators", "columns",
                            "epilogue", "tile_walk", "prologue"}) {
    text += std::string(embedded_kernel(block)) + "\n";
  }
  return text + "typedef i64 idx;\n\n";
}

std::string Epilogue::workspace_parameter() const {
  return merges() || reserved_ > 0 ? ", u8* work" : "";
}

// The reserved memory comes after partials, picked scores and losses.
std::uint64_t Epilogue::reserve(std::uint64_t bytes) {
  const std::uint64_t at = ceil_div(reserved_, 256) * 256;
  reserved_ = at + bytes;
  return at + (merges() ? ceil_div(partials_ + results_ * 8, 256) * 256 : 0);
}

std::string Epilogue::made() const {
  return fmt::format("{}{{{}{}}}", name_, code_.parameters().arguments(), merges() ? ", work" : "");
}

// Declares the variable with the accumulator's members that device expressions refer to.
std::string Epilogue::found() const {
  const Op& op = kernel_.op(reduction_);
  const std::string results = substitute(accumulator_->tile_results, [&](std::string_view word) {
    if (word == "$count") return fmt::format("{}.0f", op.rows.row_length());
    if (word == "$eps") return literal(op.attributes->eps, ComputeType::kF32);
    return std::string();
  });
  return fmt::format("    const Found {}[1] = {{{{{}}}}};\n", state_, results);
}

// Loads an operand before the elements are there.
std::string Epilogue::function_ahead() const {
  if (!block_.ahead) return "";
  return fmt::format(
      "  typedef Pack<{}, 8> Ahead;\n  template <class Valid>\n"
      "  __device__ __forceinline__ Ahead ahead(int batch, i64 row, i64 column, Valid valid) "
      "const {{\n    return load_ahead({} + ({}) * {} + column, valid != 0);\n  }}\n",
      block_.ahead->type, block_.ahead->memory, row_number_, n_);
}

// What is read beside a convolution's pixels, from the DRAM to the L2 while products are computed.
std::string Epilogue::functions_of_prefetches() const {
  if (!services_.channels_last) return "";
  std::string columns;
  for (const std::string& address : block_.columns_read) {
    columns += fmt::format("    prefetch_eight({});\n", address);
  }
  std::string own;
  for (const std::string& address : block_.own_read) {
    own += fmt::format("    prefetch_line({}, count);\n", address);
  }
  return fmt::format(
      "  static constexpr bool kReadsOwn = {};\n"
      "  __device__ __forceinline__ void prefetch_columns(i64 column) const {{\n{}  }}\n"
      "  __device__ __forceinline__ void prefetch_own(int batch, i64 row, i64 column, int count) "
      "const {{\n    const i64 i = ({}) * {} + column;\n{}  }}\n",
      !own.empty(), columns, row_number_, n_, own);
}

// What is the same in all rows, of a group of columns, which may lie beyond all in a tile; and the
// operator for kernels that keep none.
std::string Epilogue::function_of_terms() const {
  if (terms_.empty()) return "";
  const std::string size = fmt::format("[{}][{}]", terms_.size(), services_.width);
  std::string body;
  for (const std::string& name : block_.terms.names) {
    body += fmt::format("f32 {}[{}];\n", name, services_.width);
  }
  CodeBlock block = block_of(services_.width);
  block.before = body + block_.terms.before;
  block.lanes = block_.terms.lanes;
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    block.lanes += fmt::format("terms[{}][j] = {}[j];\n", i, terms_[i]);
  }
  return fmt::format(
      "  static constexpr int kTerms = {};\n"
      "  __device__ __forceinline__ void find_terms(i64 column, f32 (&terms){}) const {{\n{}{}  "
      "}}\n"
      "  template <class Valid, class... More>\n"
      "  __device__ __forceinline__ void operator()(int batch, i64 row, i64 column, f32 (&v)[{}], "
      "Valid valid, const More&... more) const {{\n"
      "    f32 terms{};\n    find_terms(column, terms);\n"
      "    (*this)(batch, row, column, v, valid, more..., terms);\n  }}\n",
      terms_.size(), size, column_clamp(), block.text("    "), services_.width, size);
}

// For parameters of channels, which are loaded whether or not the channel is real.
std::string Epilogue::column_clamp() const {
  return fmt::format("    column = min(column, (i64){});\n", n_ - services_.width);
}

// The struct with the two functions that contract_rows_sm90.cuh calls.
std::string Epilogue::functions_of_rows() const {
  const auto function = [&](std::string_view name, std::string_view parameter,
                            const std::string& body) {
    return fmt::format(
        "  template <class Valid>\n  __device__ __forceinline__ void {}({}{}) const {{\n"
        "    const i64 q = {};\n    const u32 q32 = (u32)q;\n    const i64 i = q * {} + "
        "column;\n{}  }}\n",
        name, signature_, parameter, row_number_, n_, body);
  };
  return fmt::format("struct Found {{\n  float {};\n}};\n", accumulator_->members) +
         fmt::format("struct Epilogue {{\n  typedef {} Rows;\n{}", accumulator_->name,
                     code_.parameters().members()) +
         function_ahead() +
         function("first",
                  fmt::format("float (&taken)[8], Valid valid{}",
                              block_.ahead ? ", const Ahead& ahead" : ""),
                  block_.text("    ")) +
         function("second", "Valid valid, Rows::State state", found() + second_) + "};\n";
}

std::string Epilogue::text() const {
  if (holds_rows_) return functions_of_rows();
  const auto accumulator = [&](bool here) { return here ? accumulator_->name : "NoReduction"; };
  std::string text = fmt::format("struct {} {{\n  typedef {} Rows;\n  typedef {} Columns;\n{}",
                                 name_, accumulator(reduces() && !columns_),
                                 accumulator(reduces() && columns_), code_.parameters().members());
  if (reduces()) text += "  u8* work;\n";
  if (halves_) text += "  static constexpr bool kPairs = true;\n";
  text += function_ahead() + functions_of_prefetches();
  if (block_.made) {
    text += fmt::format(
        "  typedef {0} Made;\n  __device__ __forceinline__ Made* result() const {{ return {1}; "
        "}}\n",
        block_.made->type, block_.made->memory);
  }
  if (block_.beside) {
    text += fmt::format(
        "  typedef {0} Beside;\n  __device__ __forceinline__ const Beside* operand() const {{ "
        "return {1}; }}\n",
        block_.beside->type, block_.beside->memory);
  }
  text += function_of_terms();
  std::string own_terms;
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    own_terms +=
        fmt::format("    const f32 (&{})[{}] = terms[{}];\n", terms_[i], services_.width, i);
  }
  text += fmt::format(
      "  template <class Valid>\n  __device__ __forceinline__ void operator()({}{}{}{}{}) const "
      "{{\n{}{}"
      "    const i64 q = {};\n    const u32 q32 = (u32)q;\n    const i64 i = q * {} + column;\n",
      signature_, block_.ahead ? ", const Ahead& ahead" : "",
      block_.made ? ", Pack<Made, 8>& pack" : "",
      block_.beside ? ", const Pack<Beside, 8>& beside" : "",
      terms_.empty() ? ""
                     : fmt::format(", const f32 (&terms)[{}][{}]", terms_.size(), services_.width),
      services_.columns_beyond ? column_clamp() : "", own_terms, row_number_, n_);
  if (reduces()) {
    text +=
        fmt::format("    float* const picked = reinterpret_cast<float*>(work + {});\n", partials_);
  }
  text += block_.text("    ") + "  }\n";
  if (attends_) {
    text += fmt::format("  static constexpr bool kSums = {};\n{}", sums_ != kNone, sums_function_);
  }
  if (reduces() && columns_) {
    text += fmt::format(
        "  __device__ __forceinline__ void column_done(int batch, int strip, int column, "
        "Columns::State s) const {{\n    reinterpret_cast<Columns::State*>(work)[((i64)batch * {} "
        "+ strip) * {} + column] = s;\n  }}\n",
        strips_, n_);
  } else if (reduces()) {
    text += fmt::format(
        "  __device__ __forceinline__ void row_done(int batch, int row, int tile, Rows::State s) "
        "const {{\n    reinterpret_cast<Rows::State*>(work)[({}) * {} + tile] = s;\n  }}\n",
        row_number_, merged_);
  }
  return text + "};\n";
}

std::string Epilogue::merge_entry() const {
  const std::string_view name = accumulator_->name;
  const std::string state_size = fmt::format("sizeof({}::State)", name);
  std::string text = static_asserts({{"ContractShape::kStripRows", kStripRows},
                                     {state_size, accumulator_->tile_words * sizeof(float)}});
  text += fmt::format(
      "struct Found {{\n  float {};\n}};\n"
      "extern \"C\" __global__ void __launch_bounds__({}) merge({}, u8* work) {{\n"
      "  const float* const picked = reinterpret_cast<const float*>(work + {});\n"
      "  float* const losses = reinterpret_cast<float*>(work + {});\n"
      "  const {}::State* const partials = reinterpret_cast<const {}::State*>(work);\n",
      accumulator_->members, kMergeThreads, code_.parameters().declarations(), partials_,
      partials_ + results_ * 4, name, name);
  const std::string state = found();
  if (columns_) {
    text += fmt::format(
        "  merge_columns<{}>(partials, {}, {}, {}, [=](int o, int n, {}::State state) {{\n"
        "    const i64 q = (i64)o * {} + n;\n",
        name, results_ / n_, strips_, n_, name, n_);
  } else {
    text += fmt::format("  merge_rows<{}>(partials, {}, {}, [=](i64 q, {}::State state) {{\n", name,
                        results_, merged_, name);
  }
  return text + state + merge_body_ + "  });\n}\n";
}

// One block sums the losses of all rows.
std::string Epilogue::total_entry() const {
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({4}) total({0}, u8* work) {{\n"
      "  const float* const losses = reinterpret_cast<const float*>(work + {1});\n"
      "  __shared__ float parts[{4} / 32];\n  float sum = 0;\n"
      "  for (i64 q = threadIdx.x; q < {2}; q += {4}) sum += losses[q];\n"
      "  for (int mask = 16; mask >= 1; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, "
      "mask);\n"
      "  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;\n  __syncthreads();\n"
      "  if (threadIdx.x == 0) {{\n    sum = 0;\n    for (int w = 0; w < {4} / 32; ++w) sum += "
      "parts[w];\n"
      "{3}  }}\n}}\n",
      code_.parameters().declarations(), partials_ + results_ * 4, results_, total_body_,
      kTotalThreads);
}

void Epilogue::finish(GeneratedKernel& kernel) const {
  kernel.workspace_bytes = reserved_;
  if (!merges()) return;
  kernel.workspace_bytes += ceil_div(partials_ + results_ * 8, 256) * 256;
  kernel.source.text += merge_entry();
  kernel.source.entries.emplace_back("merge");
  const std::uint64_t threads = columns_ ? results_ : results_ * 32;
  kernel.following.push_back(
      {.blocks = std::clamp<std::uint64_t>(ceil_div(threads, kMergeThreads), 1, 4096),
       .threads = kMergeThreads});
  kernel.schedule += columns_ ? ", columns reduced in strips" : ", rows reduced in tiles";
  if (total_body_.empty()) return;
  kernel.source.text += total_entry();
  kernel.source.entries.emplace_back("total");
  kernel.following.push_back({.blocks = 1, .threads = kTotalThreads});
}

}  // namespace fusecalc
