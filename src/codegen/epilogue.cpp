// What an epilogue computes: its operands, its one reduction, and the code of its parts.

#include "codegen/epilogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/elements.hpp"
#include "codegen/expressions.hpp"
#include "codegen/indices.hpp"
#include "codegen/memory_access.hpp"
#include "codegen/row_results.hpp"
#include "core/ceil_div.hpp"
#include "graph/product_parts.hpp"
#include "plan/channels_last.hpp"
#include "plan/epilogue.hpp"
#include "plan/tiling.hpp"
#include "plan/whole_rows.hpp"

namespace fusecalc {
namespace {

unsigned alignment_of(std::uint64_t columns) {
  const std::uint64_t bits = columns | 8U;
  return static_cast<unsigned>(bits & (~bits + 1));
}

// The first of eight neighbours in a row of `columns` elements.
Index element_index(std::uint64_t columns) {
  return {
      .name = "i", .pattern = LanePattern::kUnit, .aligned = false, .align = alignment_of(columns)};
}

Index row_index() { return {.name = "q", .path = std::nullopt}; }

}  // namespace

Epilogue::Epilogue(KernelCode& code, OpId contraction, std::string name)
    : Epilogue(code, contraction, std::move(name), false) {}

Epilogue::Epilogue(KernelCode& code, OpId contraction, std::string name, bool attends)
    : code_(code),
      kernel_(code.view()),
      graph_(kernel_.graph()),
      contraction_(contraction),
      name_(std::move(name)),
      attends_(attends) {
  const Tensor& made = graph_.tensors[kernel_.op(contraction).outputs[0]];
  made_type_ = compute_type(made.type.dtype);
  const std::vector<Operand>& operands = kernel_.op(contraction).operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i == 0 && computes_rows(graph_, contraction)) continue;
    if (i == 1 && computes_weights(graph_, contraction)) continue;
    const OpId producer = graph_.value_of(operands[i].tensor).producer;
    if (!attends && producer != kNone && kernel_.contains(producer)) {
      cannot_generate(kernel_.op(contraction),
                      "one of its operands is computed in the same kernel");
    }
  }
  halves_ = halves_of(graph_, kernel_.ops(), contraction);
  const bool one_product = halves_ && halves_->other == kNone;
  roots_ = find_roots(kernel_, one_product ? made.elements / 2 : made.elements);
  if (!attends && !kernel_.phases().rows.empty()) find_reduction();
  if (attends && kernel_.op(contraction).outputs.size() > 1) {
    const TensorId sums = kernel_.op(contraction).outputs[1];
    if (std::erase(roots_.small, sums) + std::erase(roots_.full, sums) > 0) sums_ = sums;
  }
  if (!roots_.small.empty()) {
    cannot_generate(kernel_.op(graph_.tensors[roots_.small[0]].producer),
                    "it has fewer elements than the contraction before it");
  }
}

// Finds the one reduction behind the contraction; each block reduces a part of it.
void Epilogue::find_reduction() {
  holds_rows_ = holds_rows_of(graph_, kernel_.ops(), kernel_.phases(), contraction_);
  for (const OpId id : kernel_.ops()) {
    if (!kernel_.takes_rows(id)) continue;
    const Op& op = kernel_.op(id);
    if (reduction_ != kNone) cannot_generate(op, "a second reduction of a contraction's result");
    reduction_ = id;
  }
  if (reduction_ == kNone) {
    if (roots_.rows.empty() && roots_.losses.empty() && !holds_rows_) return;
    cannot_generate(kernel_.op(contraction_),
                    "an epilogue has no code for the results of its rows");
  }
  const Op& op = kernel_.op(reduction_);
  const AccumulatorRow& accumulator = row_of(op.row->accumulator);
  if (accumulator.tile_words == 0 || made_type_ != ComputeType::kF32 ||
      accumulator_type(kernel_, op) != ComputeType::kF32) {
    cannot_generate(op, "an epilogue has no accumulator for it, or not in its type (f32 only)");
  }
  if (!holds_rows_ && !accumulator.merges_tiles) {
    cannot_generate(op, "only sums, maxima and sums of exponentials of tiles can be merged");
  }
  accumulator_ = &accumulator;
  columns_ = !kernel_.phases().rows.reduces_innermost();
  if (holds_rows_ && (columns_ || !roots_.losses.empty())) {
    cannot_generate(op, "an op after it needs its result, and its tiles are in several blocks");
  }
}

std::uint64_t Epilogue::rows_of_matrix() const {
  if (!reduces() || !columns_) return 0;
  for (const RowLayout::MergedAxis& axis : kernel_.phases().rows.axes) {
    if (axis.reduced) return axis.extent;
  }
  return 0;
}

Loop Epilogue::loop_over(TensorId made) const {
  const auto is_narrow = [&](TensorId id) {
    return bytes_of(graph_.tensors[id].type.dtype, 1) <= 2;
  };
  const bool quick = roots_.losses.empty() && std::ranges::all_of(roots_.full, is_narrow) &&
                     std::ranges::all_of(roots_.rows, is_narrow);
  Loop loop{.element = element_index(n_),
            .row = {.index = row_index()},
            .matrix = MatrixLoop{.made = made,
                                 .by = contraction_,
                                 .type = made_type_,
                                 .rows = rows_,
                                 .columns = n_,
                                 .quick = quick,
                                 .loads_ahead = services_.loads_ahead,
                                 .stores = services_.stores,
                                 .stores_last = services_.stores_last,
                                 .brings = services_.stores && services_.brings,
                                 .period = services_.period,
                                 .keeps_terms = services_.keeps_terms}};
  if (services_.channels_last) {
    loop.matrix->order = channels_last(graph_.tensors[made].type.shape);
    loop.matrix->place =
        std::exchange(loop.element, {.name = "own", .pattern = LanePattern::kUnit});
  }
  return loop;
}

bool Epilogue::ends_channels_last() const {
  const Op& convolution = kernel_.op(contraction_);
  const auto stores_last = [&](OpId id) {
    return stores_channels_last(graph_, kernel_.op(id), convolution);
  };
  return !roots_.full.empty() && std::ranges::all_of(roots_.full, [&](TensorId result) {
    return stores_last(graph_.tensors[result].producer);
  }) && std::ranges::all_of(kernel_.ops(), [&](OpId id) {
    return ignores_place(id) || stores_last(id);
  });
}

// Whether no op takes an element's place into account, but for what it reads.
bool Epilogue::is_same_in_columns() const {
  return std::ranges::all_of(kernel_.ops(), [&](OpId id) { return ignores_place(id); });
}

bool Epilogue::ignores_place(OpId id) const {
  const OpFamily family = kernel_.op(id).row->family;
  return id == contraction_ || family == OpFamily::kPointwise || family == OpFamily::kCast ||
         family == OpFamily::kBatchNorm;
}

// Whether a result is known before its row is reduced.
bool Epilogue::stored_first(TensorId result) const {
  return kernel_.ready_in(graph_.tensors[result].producer) == 0;
}

// The elements of a half are there: v or u, which are scaled and to which a bias is added, and what
// ops make of them that change both halves.
void Epilogue::take_half(const Scope& scope, bool second) const {
  const Index& at = scope.loop.element;
  Value value{.text = second ? "u[j]" : "v[j]", .type = made_type_};
  const bool of_other = second && halves_->other != kNone;
  const OpId product = of_other ? halves_->other : contraction_;
  MatrixPlaces places;
  places.row.append(rows_, 1);
  places.row.append(n_, 0);
  places.column.append(rows_, 0);
  places.column.append(n_, 1);
  places.column.offset = second && !of_other ? halves_->columns : 0;
  const std::string sum = finished_sum(scope, kernel_.op(product), value, at, places);
  if (sum != value.text) value = scope.define(made_type_, sum, false);
  const TensorId window = second ? halves_->second : halves_->first;
  if (!halves_->before.empty()) {
    IndexTransform in_whole;
    in_whole.append(rows_, 2 * n_);
    in_whole.append(n_, 1);
    in_whole.offset = second ? n_ : 0;
    Index place = mapped(scope, at, in_whole);
    place.path = {in_whole};
    scope.block.values.emplace(std::pair(kernel_.op(contraction_).outputs[0], place.name), value);
    value = element(scope, kernel_.op(halves_->before.back()).outputs[0], place);
  }
  scope.block.values.emplace(std::pair(window, at.name), value);
}

void Epilogue::write_elements(std::uint64_t rows, std::uint64_t columns) {
  rows_ = rows;
  n_ = columns;
  const Loop loop = loop_over(kernel_.op(contraction_).outputs[0]);
  block_ = block_of(services_.width);
  const Scope scope{code_, loop, block_};
  if (halves_) {
    take_half(scope, false);
    take_half(scope, true);
  }
  std::vector<TensorId> stored = roots_.full;
  if (holds_rows_) std::erase_if(stored, [&](TensorId id) { return !stored_first(id); });
  store_full(scope, stored);
  if (!reduces()) return;
  const Value taken = accumulator_input(scope, reduction_, loop.element);
  if (kernel_.op(reduction_).row->family == OpFamily::kLoss) write_picked(scope);
  if (!holds_rows_) {
    block_.lanes += fmt::format("v[j] = {};\n", taken.text);
    return;
  }
  const Value kept = converted(element(scope, kept_, loop.element), ComputeType::kF32);
  block_.lanes += fmt::format("v[j] = {};\ntaken[j] = {};\n", kept.text, taken.text);
}

// Stores the score of each row's target class for write_merge().
void Epilogue::write_picked(const Scope& scope) {
  const Op& op = kernel_.op(reduction_);
  const Value target = element(scope, op.operands[1].tensor, scope.loop.row.index);
  const Value score = element(scope, op.operands[0].tensor, scope.loop.element);
  block_.lanes += fmt::format("if (j < valid && (i64){} - column == j) picked[q] = {};\n",
                              target.text, score.text);
}

void Epilogue::store_row_results(const Scope& scope) const {
  for (const TensorId tensor : roots_.rows) {
    store(scope, tensor, scope.loop.row.index, row_result(scope, tensor));
  }
}

// Those terms of columns that other code than theirs reads.
void Epilogue::find_terms() {
  const std::string text = block_.text("");
  terms_ = block_.terms.names;
  std::erase_if(terms_, [&](const std::string& name) {
    return text.find(name + "[j]") == std::string::npos;
  });
}

void Epilogue::write(const MatrixProduct& product, std::uint64_t tile_columns,
                     const Services& services) {
  const bool plain = !reduces() && !halves_;
  services_ = {.loads_ahead = services.loads_ahead && plain,
               .stores = services.stores && plain && !services.channels_last &&
                         roots_.full.size() == 1 &&
                         (services.stores_last ? ends_channels_last() : is_same_in_columns()),
               .stores_last = services.stores_last,
               .brings = services.brings,
               .period = services.period,
               .channels_last = services.channels_last,
               .columns_beyond = services.columns_beyond,
               .width = services.width,
               .keeps_terms = services.keeps_terms && services.channels_last};
  row_number_ = fmt::format("(i64)batch * {} + row", product.m);
  signature_ = fmt::format("int batch, i64 row, i64 column, {0} (&v)[{2}], {1}Valid valid",
                           name_of(made_type_), halves_ ? "float (&u)[8], " : "", services_.width);
  const std::uint64_t rows = product.batches() * product.m;
  const std::uint64_t columns = halves_ ? halves_->columns : product.n;
  write_elements(rows, columns);
  if (block_.made ? block_.differs : block_.beside.has_value()) {
    services_.stores = false;
    write_elements(rows, columns);
  }
  find_terms();
  if (terms_.size() > kMostTerms) {
    services_.keeps_terms = false;
    write_elements(rows, columns);
    find_terms();
  }
  if (!reduces()) return;
  strips_ = ceil_div(product.m, kStripRows);
  merged_ = columns_ ? strips_ : ceil_div(product.n, tile_columns);
  results_ = columns_ ? product.batches() * product.n : rows_;
  partials_ = ceil_div(results_ * merged_ * 4 * accumulator_->tile_words, 256) * 256;
  write_merge();
}

// The first function may take an operand that was loaded ahead. In the second v holds what the
// first left in it: all other values of the row are computed from those elements.
void Epilogue::write_rows(const MatrixProduct& product, const Services& services) {
  services_.loads_ahead = services.loads_ahead;
  row_number_ = fmt::format("(i64)batch * {} + row", product.m);
  signature_ = "int batch, i64 row, i64 column, float (&v)[8], ";
  kept_ = kept_value_of(graph_, kernel_.ops(), kernel_.phases(), contraction_);
  write_elements(product.batches() * product.m, product.n);
  services_.loads_ahead = false;
  const Loop loop = loop_over(kNone);
  state_ = code_.accumulator(reduction_);
  CodeBlock of_row;
  store_row_results({code_, loop, of_row});
  CodeBlock block = block_of(8);
  block.values[{kept_, loop.element.name}] = {.text = "v[j]", .type = ComputeType::kF32};
  std::vector<TensorId> stored = roots_.full;
  std::erase_if(stored, [&](TensorId id) { return stored_first(id); });
  store_full({code_, loop, block}, stored);
  second_ = of_row.row_results + block.row_results;
  if (!roots_.rows.empty()) {
    second_ += "    if (column == 0) {\n" + of_row.text("      ") + "    }\n";
  }
  second_ += block.text("    ");
}

void Epilogue::write_attention(std::uint64_t heads, std::uint64_t queries, std::uint64_t rows,
                               std::uint64_t columns) {
  row_number_ = fmt::format("((i64)batch * {} + head) * {} + row", heads, queries);
  signature_ = fmt::format("int batch, int head, i64 row, i64 column, {} (&v)[8], Valid valid",
                           name_of(made_type_));
  write_elements(rows, columns);
  if (sums_ != kNone) sums_function_ = function_of_sums();
}

std::string Epilogue::function_of_sums() {
  const Loop loop{.row = {.index = row_index()}};
  CodeBlock block;
  store({code_, loop, block}, sums_, loop.row.index, {.text = "sum", .type = made_type_});
  return fmt::format(
      "  template <class T>\n  __device__ __forceinline__ void row_sum(int batch, int head, i64 "
      "row, T sum) const {{\n    const i64 q = {};\n{}  }}\n",
      row_number_, block.text("    "));
}

// Writes what the merging entry computes from each merged state.
void Epilogue::write_merge() {
  const Loop loop{.row = {.index = row_index()},
                  .picked = {{reduction_, Value{.text = "picked[q]"}}}};
  state_ = code_.accumulator(reduction_);
  CodeBlock block;
  const Scope scope{code_, loop, block};
  store_row_results(scope);
  for (const OpId id : roots_.losses) {
    const Value loss = row_loss(scope, id);
    block.lanes += fmt::format("losses[q] = {};\n", loss.text);
  }
  merge_body_ = block.row_results + block.text("    ");
  if (roots_.losses.empty()) return;
  if (roots_.losses.size() > 1) cannot_generate(kernel_.op(roots_.losses[1]), "a second loss");
  const Op& op = kernel_.op(roots_.losses[0]);
  CodeBlock total;
  const bool mean = op.attributes->reduction == LossReduction::kMean;
  store({code_, loop, total}, op.outputs[0], {.name = "0"},
        {.text = mean ? fmt::format("sum / {}.0f", results_) : "sum", .type = ComputeType::kF32});
  total_body_ = total.text("    ");
}

}  // namespace fusecalc
