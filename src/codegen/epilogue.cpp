#include "codegen/epilogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/ceil_div.hpp"
#include "codegen/kernel_facts.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

constexpr std::array kFolds = {
    Fold{"Sum", "Sum", 1, "sum", "state.part[0]"},
    Fold{"Largest", "Max", 1, "value", "state.part[0]"},
    Fold{"ExponentialSum", "LogSumExp", 2, "most, inverse, log",
         "state.part[0], 1.0f / state.part[1], LogSumExp::result(state)"},
    Fold{"SquareSum", "Squares", 1, "scale", "rsqrtf(state.part[0] / $count + $eps)", false},
    Fold{"Moments", "Moments", 3, "mean, variance, rstd",
         "Moments::mean(state), Moments::variance(state), rsqrtf(Moments::variance(state) + $eps)",
         false},
};

constexpr std::uint64_t kStripRows = 64;  // ContractShape::kStripRows
constexpr std::uint64_t kMergeThreads = 256;
constexpr std::uint64_t kTotalThreads = 1024;

unsigned alignment_of(std::uint64_t columns) {
  const std::uint64_t bits = columns | 8U;
  return static_cast<unsigned>(bits & (~bits + 1));
}

// The first of eight neighbours in a row of so many.
Index element(std::uint64_t columns) {
  return {
      .name = "i", .pattern = LanePattern::kUnit, .aligned = false, .align = alignment_of(columns)};
}

}  // namespace

Epilogue::Epilogue(Emitter& emitter, PhaseFinder& finder, OpId contraction)
    : Epilogue(emitter, finder, contraction, false) {}

Epilogue::Epilogue(Emitter& emitter, PhaseFinder& finder, OpId contraction, bool attends)
    : emitter_(emitter), graph_(emitter.graph()), contraction_(contraction) {
  const Tensor& made = graph_.tensors[emitter.op(contraction).outputs[0]];
  made_type_ = compute_type(made.type.dtype);
  for (const Operand& operand : emitter.op(contraction).operands) {
    const OpId producer = graph_.value_of(operand.tensor).producer;
    if (!attends && producer != kNone && emitter.contains(producer)) {
      cannot_generate(emitter.op(contraction), "an operand of it is made in the same kernel");
    }
  }
  roots_ = find_roots(emitter, finder, made.elements);
  if (!attends && !emitter.phases().rows.empty()) find_fold();
  if (!roots_.small.empty()) {
    cannot_generate(emitter.op(graph_.tensors[roots_.small[0]].producer),
                    "it has fewer elements than the contraction before it");
  }
}

// The one reduction that blocks fold, each its part.
void Epilogue::find_fold() {
  const std::uint64_t space = graph_.tensors[emitter_.op(contraction_).outputs[0]].elements;
  for (const OpId id : emitter_.kernel()) {
    const Op& op = emitter_.op(id);
    const bool full = op.op_class == OpClass::kNormalise && op.row->family != OpFamily::kLoss;
    if (full || (emitter_.runs_in(id) > 0 && op.work == space)) holds_rows_ = true;
    if (!emitter_.takes_rows(id)) continue;
    if (folding_ != kNone) cannot_generate(op, "a second reduction of a contraction's result");
    folding_ = id;
  }
  if (folding_ == kNone) {
    if (roots_.rows.empty() && roots_.losses.empty() && !holds_rows_) return;
    cannot_generate(emitter_.op(contraction_), "what its rows come to has no code in an epilogue");
  }
  const Op& op = emitter_.op(folding_);
  const auto* found = std::ranges::find(kFolds, op.row->state, &Fold::state);
  if (found == kFolds.end() || made_type_ != ComputeType::kF32 ||
      !emitter_.state_class(op).ends_with("<f32>")) {
    cannot_generate(op, "an epilogue folds sums, maxima and sums of exponentials, in 32 bits");
  }
  if (!holds_rows_ && !found->by_tiles) {
    cannot_generate(op, "it is no sum, maximum or sum of exponentials");
  }
  fold_ = found;
  columns_ = !emitter_.phases().rows.reduces_innermost();
  if (holds_rows_ && (columns_ || !roots_.losses.empty())) {
    cannot_generate(op, "what follows needs it, and its tiles are in several blocks");
  }
}

std::uint64_t Epilogue::rows_of_matrix() const {
  if (!folds() || !columns_) return 0;
  for (const RowLayout::Run& run : emitter_.phases().rows.runs) {
    if (run.reduced) return run.extent;
  }
  return 0;
}

void Epilogue::set_matrix(TensorId made, std::uint64_t rows, std::uint64_t columns) {
  const auto is_narrow = [&](TensorId id) {
    return bytes_of(graph_.tensors[id].type.dtype, 1) <= 2;
  };
  const bool quick = roots_.losses.empty() && std::ranges::all_of(roots_.full, is_narrow) &&
                     std::ranges::all_of(roots_.rows, is_narrow);
  emitter_.set_matrix(MatrixLoop{.made = made,
                                 .by = contraction_,
                                 .type = made_type_,
                                 .rows = rows,
                                 .columns = columns,
                                 .quick = quick});
}

// Whether a result is there before the fold of its row is.
bool Epilogue::stored_first(TensorId result) const {
  return emitter_.ready_in(graph_.tensors[result].producer) == 0;
}

void Epilogue::write_elements(std::uint64_t rows, std::uint64_t columns) {
  rows_ = rows;
  n_ = columns;
  set_matrix(emitter_.op(contraction_).outputs[0], rows, columns);
  piece_ = CodeBlock{.width = 8, .width_text = "8"};
  emitter_.enter(piece_, 0);
  const Index e = element(columns);
  emitter_.set_loop(e);
  std::vector<TensorId> stored = roots_.full;
  if (holds_rows_) std::erase_if(stored, [&](TensorId id) { return !stored_first(id); });
  store_full(emitter_, stored, e, "");
  if (!folds()) return;
  const Value folded = emitter_.row_input(folding_, e);
  if (emitter_.op(folding_).row->family == OpFamily::kLoss) write_picked();
  piece_.lanes += fmt::format("v[j] = {};\n", folded.text);
}

// The target's score of each row is put aside.
void Epilogue::write_picked() {
  const Op& op = emitter_.op(folding_);
  const Index q{.name = "q", .path = std::nullopt};
  const Value target = emitter_.value(op.operands[1].tensor, q);
  const Value score = emitter_.value(op.operands[0].tensor, element(n_));
  piece_.lanes += fmt::format("if (j < valid && (i64){} - column == j) picked[q] = {};\n",
                              target.text, score.text);
}

void Epilogue::write(const MatrixProduct& product, std::uint64_t tile_columns) {
  row_number_ = fmt::format("(i64)batch * {} + row", product.m);
  signature_ =
      fmt::format("int batch, i64 row, i64 column, {} (&v)[8], Valid valid", name_of(made_type_));
  write_elements(product.batches() * product.m, product.n);
  if (!folds()) {
    emitter_.set_matrix(std::nullopt);
    return;
  }
  strips_ = ceil_div(product.m, kStripRows);
  merged_ = columns_ ? strips_ : ceil_div(product.n, tile_columns);
  results_ = columns_ ? product.batches() * product.n : rows_;
  partials_ = ceil_div(results_ * merged_ * 4 * fold_->parts, 256) * 256;
  write_merge();
}

// v holds what the fold takes in when its row is known: all else of the row is made from that.
void Epilogue::write_rows(const MatrixProduct& product) {
  row_number_ = fmt::format("(i64)batch * {} + row", product.m);
  signature_ = "int batch, i64 row, i64 column, float (&v)[8], Valid valid";
  write_elements(product.batches() * product.m, product.n);
  const Op& op = emitter_.op(folding_);
  set_matrix(kNone, rows_, n_);
  const Index q{.name = "q", .path = std::nullopt};
  emitter_.set_row(q, 1, "0");
  state_ = emitter_.state_of(folding_);
  CodeBlock of_row;
  emitter_.enter(of_row, 1);
  for (const TensorId tensor : roots_.rows) {
    emitter_.store(tensor, q, emitter_.row_value(tensor));
  }
  CodeBlock piece{.width = 8, .width_text = "8"};
  emitter_.enter(piece, 1);
  const Index e = element(n_);
  emitter_.set_loop(e);
  piece.values[{graph_.tensors[op.operands[0].tensor].value, e.name}] = {.text = "v[j]",
                                                                         .type = ComputeType::kF32};
  std::vector<TensorId> stored = roots_.full;
  std::erase_if(stored, [&](TensorId id) { return stored_first(id); });
  store_full(emitter_, stored, e, "");
  emitter_.set_matrix(std::nullopt);
  second_ = emitter_.take_row_code();
  if (!roots_.rows.empty()) {
    second_ += "    if (column == 0) {\n" + of_row.text("      ") + "    }\n";
  }
  second_ += piece.text("    ");
}

void Epilogue::write_attention(std::uint64_t heads, std::uint64_t queries, std::uint64_t rows,
                               std::uint64_t columns) {
  row_number_ = fmt::format("((i64)batch * {} + head) * {} + row", heads, queries);
  signature_ = fmt::format("int batch, int head, i64 row, i64 column, {} (&v)[8], Valid valid",
                           name_of(made_type_));
  write_elements(rows, columns);
  emitter_.set_matrix(std::nullopt);
}

// What is done with each result of the fold, once all its parts are there.
void Epilogue::write_merge() {
  emitter_.set_matrix(std::nullopt);
  const Index q{.name = "q", .path = std::nullopt};
  emitter_.set_row(q, 1, "0");
  emitter_.set_picked(folding_, {.text = "picked[q]"});
  state_ = emitter_.state_of(folding_);
  CodeBlock piece;
  emitter_.enter(piece, 1);
  for (const TensorId tensor : roots_.rows) {
    emitter_.store(tensor, q, emitter_.row_value(tensor));
  }
  for (const OpId id : roots_.losses) {
    const Value loss = emitter_.row_loss(id);
    piece.lanes += fmt::format("losses[q] = {};\n", loss.text);
  }
  merge_body_ = emitter_.take_row_code() + piece.text("    ");
  if (roots_.losses.empty()) return;
  if (roots_.losses.size() > 1) cannot_generate(emitter_.op(roots_.losses[1]), "a second loss");
  const Op& op = emitter_.op(roots_.losses[0]);
  CodeBlock total;
  emitter_.enter(total, 1);
  const bool mean = op.attributes->reduction == LossReduction::kMean;
  emitter_.store(
      op.outputs[0], {.name = "0"},
      {.text = mean ? fmt::format("sum / {}.0f", results_) : "sum", .type = ComputeType::kF32});
  total_body_ = total.text("    ");
}

std::string Epilogue::preamble() const {
  std::string text;
  for (const char* block : {"elements", "arithmetic", "quick", "epilogue", "tile_walk"}) {
    text += std::string(embedded_kernel(block)) + "\n";
  }
  return text + "typedef i64 idx;\n\n";
}

std::string Epilogue::workspace_parameter() const {
  return merges() || reserved_ > 0 ? ", u8* work" : "";
}

// Behind partials, picked scores and losses.
std::uint64_t Epilogue::reserve(std::uint64_t bytes) {
  reserved_ = bytes;
  return merges() ? ceil_div(partials_ + results_ * 8, 256) * 256 : 0;
}

std::string Epilogue::made() const {
  return fmt::format("Epilogue{{{}{}}}", emitter_.arguments(), merges() ? ", work" : "");
}

// What device expressions name of the fold's state, as a variable of the code.
std::string Epilogue::found() const {
  const Op& op = emitter_.op(folding_);
  const std::string results = substitute(fold_->results, [&](std::string_view word) {
    if (word == "$count") return fmt::format("{}.0f", op.rows.row_length());
    if (word == "$eps") return literal(op.attributes->eps, ComputeType::kF32);
    return std::string();
  });
  return fmt::format("    const Found {}[1] = {{{{{}}}}};\n", state_, results);
}

// The members that contract_rows_sm90.cuh asks for.
std::string Epilogue::functions_of_rows() const {
  const auto function = [&](std::string_view name, std::string_view parameter,
                            const std::string& body) {
    return fmt::format(
        "  template <class Valid>\n  __device__ __forceinline__ void {}({}{}) const {{\n"
        "    const i64 q = {};\n    const u32 q32 = (u32)q;\n    const i64 i = q * {} + "
        "column;\n{}  }}\n",
        name, signature_, parameter, row_number_, n_, body);
  };
  return fmt::format("struct Found {{\n  float {};\n}};\n", fold_->found) +
         fmt::format("struct Epilogue {{\n  typedef {} Rows;\n{}", fold_->fold,
                     emitter_.members()) +
         function("first", "", piece_.text("    ")) +
         function("second", ", Rows::State state", found() + second_) + "};\n";
}

std::string Epilogue::text() const {
  if (holds_rows_) return functions_of_rows();
  const auto fold = [&](bool here) { return here ? fold_->fold : "NoReduction"; };
  std::string text =
      fmt::format("struct Epilogue {{\n  typedef {} Rows;\n  typedef {} Columns;\n{}",
                  fold(folds() && !columns_), fold(folds() && columns_), emitter_.members());
  if (folds()) text += "  u8* work;\n";
  text += fmt::format(
      "  template <class Valid>\n  __device__ __forceinline__ void operator()({}) const {{\n"
      "    const i64 q = {};\n    const u32 q32 = (u32)q;\n    const i64 i = q * {} + column;\n",
      signature_, row_number_, n_);
  if (folds()) {
    text +=
        fmt::format("    float* const picked = reinterpret_cast<float*>(work + {});\n", partials_);
  }
  text += piece_.text("    ") + "  }\n";
  if (folds() && columns_) {
    text += fmt::format(
        "  __device__ __forceinline__ void column_done(int batch, int strip, int column, "
        "Columns::State s) const {{\n    reinterpret_cast<Columns::State*>(work)[((i64)batch * {} "
        "+ strip) * {} + column] = s;\n  }}\n",
        strips_, n_);
  } else if (folds()) {
    text += fmt::format(
        "  __device__ __forceinline__ void row_done(int batch, int row, int tile, Rows::State s) "
        "const {{\n    reinterpret_cast<Rows::State*>(work)[({}) * {} + tile] = s;\n  }}\n",
        row_number_, merged_);
  }
  return text + "};\n";
}

std::string Epilogue::merge_entry() const {
  const std::string_view fold = fold_->fold;
  const std::string state_size = fmt::format("sizeof({}::State)", fold);
  std::string text = static_asserts(
      {{"ContractShape::kStripRows", kStripRows}, {state_size, fold_->parts * sizeof(float)}});
  text += fmt::format(
      "struct Found {{\n  float {};\n}};\n"
      "extern \"C\" __global__ void __launch_bounds__({}) merge({}, u8* work) {{\n"
      "  const float* const picked = reinterpret_cast<const float*>(work + {});\n"
      "  float* const losses = reinterpret_cast<float*>(work + {});\n"
      "  const {}::State* const partials = reinterpret_cast<const {}::State*>(work);\n",
      fold_->found, kMergeThreads, emitter_.parameters(), partials_, partials_ + results_ * 4, fold,
      fold);
  const std::string state = found();
  if (columns_) {
    text += fmt::format(
        "  merge_columns<{}>(partials, {}, {}, {}, [=](int o, int n, {}::State state) {{\n"
        "    const i64 q = (i64)o * {} + n;\n",
        fold, results_ / n_, strips_, n_, fold, n_);
  } else {
    text += fmt::format("  merge_rows<{}>(partials, {}, {}, [=](i64 q, {}::State state) {{\n", fold,
                        results_, merged_, fold);
  }
  return text + state + merge_body_ + "  });\n}\n";
}

// One block adds up what the rows came to.
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
      emitter_.parameters(), partials_ + results_ * 4, results_, total_body_, kTotalThreads);
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
  kernel.schedule += columns_ ? ", columns folded by strips" : ", rows folded by tiles";
  if (total_body_.empty()) return;
  kernel.source.text += total_entry();
  kernel.source.entries.emplace_back("total");
  kernel.following.push_back({.blocks = 1, .threads = kTotalThreads});
}

}  // namespace fusecalc
