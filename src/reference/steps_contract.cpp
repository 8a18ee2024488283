// Sums of products.

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/element.hpp"
#include "reference/product_step.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class MatmulStep final : public ProductStep {
 public:
  MatmulStep(Evaluation& evaluation, const Op& op)
      : ProductStep(evaluation, op),
        linear_(op.row->family == OpFamily::kLinear),
        matrix_(op.matrix),
        batch_a_(batch_map(0)),
        batch_b_(batch_map(1)) {}

 private:
  bool transposed(std::size_t i) const {
    if (linear_) return i == 1;
    const bool flag = i == 0 ? op().attributes->transpose_a : op().attributes->transpose_b;
    return flag && operand(i).type.shape.size() > 1;
  }

  // From the number of a matrix among the results to the first element of an operand's.
  IndexMap batch_map(std::size_t i) const {
    if (matrix_.batch == 1) return {{1}, std::array<std::uint64_t, 1>{0}};
    const Shape& own = operand(i).type.shape;
    const Shape& to = output().type.shape;
    // Vectors leave no axis in the result.
    std::size_t batch_rank = to.size();
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      if (operand(side).type.shape.size() > 1) --batch_rank;
    }
    const Shape batch(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(batch_rank));
    std::vector<std::uint64_t> strides(batch.size(), 0);
    std::uint64_t stride = own.size() < 2 ? 0 : own[own.size() - 1] * own[own.size() - 2];
    for (std::size_t back = 0; back + 2 < own.size(); ++back) {
      const std::uint64_t extent = own[own.size() - 3 - back];
      if (extent != 1) strides[batch.size() - 1 - back] = stride;
      stride *= extent;
    }
    return {batch, strides};
  }

  std::uint64_t ask_element(std::uint64_t element) override {
    const std::uint64_t column = element % matrix_.columns;
    const std::uint64_t row = element / matrix_.columns % matrix_.rows;
    const std::uint64_t batch = element / matrix_.columns / matrix_.rows;
    const std::uint64_t a = batch_a_(batch);
    const std::uint64_t b = batch_b_(batch);
    const std::uint64_t depth = matrix_.depth;
    request(0, std::array{transposed(0) ? run_of(a + row, matrix_.rows, depth)
                                        : run_of(a + row * depth, 1, depth)});
    request(1, std::array{transposed(1) ? run_of(b + column * depth, 1, depth)
                                        : run_of(b + column, matrix_.columns, depth)});
    if (has_bias()) request(2, std::array{StridedRange{.first = column}});
    return depth;
  }

  bool linear_;
  MatrixShape matrix_;
  IndexMap batch_a_;
  IndexMap batch_b_;
};

// softmax(q k^T * scale + mask) v, one query at a time. A bool mask keeps where it is true, any
// other is added. With `causal`, the last query sees all keys and each before it one fewer, with
// `window` only the last of them. A query that sees no key yields 0.
class AttentionStep final : public EvaluationStep {
 public:
  AttentionStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        keys_(op.matrix.columns),
        queries_(op.matrix.rows),
        size_(operand(0).type.shape.back()),
        value_size_(output().type.shape.back()),
        scale_(op.attributes->scale.value_or(1 / std::sqrt(static_cast<double>(size_)))) {
    const Shape& q = operand(0).type.shape;
    if (op.attributes->window) window_ = static_cast<std::uint64_t>(*op.attributes->window);
    heads_ = q[q.size() - 3];
    heads_per_kv_ = heads_ / operand(1).type.shape[q.size() - 3];
    if (op.operands.size() == 4) {
      Shape scores = q;
      scores.back() = keys_;
      mask_.push_back(IndexMap(broadcast_map(operand(3).type.shape, scores)));
    }
  }

  void request_inputs() override {
    if (const Samples* sums = wanted(1)) {
      for (const StridedRange& range : sums->ranges()) {
        for (std::uint64_t k = 0; k < range.count; ++k) ask_row(range.first + k * range.step);
      }
    }
    if (wanted(0) == nullptr) return;
    for (const StridedRange& range : wanted(0)->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t element = range.first + k * range.step;
        const std::uint64_t query = element / value_size_;
        const std::uint64_t head = kv_head(query);
        ask_row(query);
        const StridedRange column =
            run_of(head * keys_ * value_size_ + element % value_size_, value_size_, keys_);
        columns_.push_back(request(2, std::array{column}));
        evaluation().charge(keys_);
      }
    }
  }

  void compute() override {
    for (auto& [query, row] : rows_) weigh(row, query);
    if (Samples* sums = wanted(1)) store_sums(*sums);
    if (wanted(0) == nullptr) return;
    Samples& results = *wanted(0);
    results.allocate(false);
    auto column = columns_.begin();
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange elements = results.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k, ++column) {
        const std::uint64_t query = (elements.first + k * elements.step) / value_size_;
        store_element(range, k, rows_.at(query), *column);
      }
    }
  }

 private:
  struct Row {
    Request q = 0;                                    // then k, then the mask
    std::array<std::vector<double>, kLanes> weights;  // only lane 0 if all lanes are equal
    double error = 0;                                 // of the weights, relative
    Lanes sum{};                                      // log of the sum of exponentials

    const std::vector<double>& weights_of(std::size_t lane) const {
      return weights[weights[lane].empty() ? 0 : lane];
    }
  };

  void ask_row(std::uint64_t query) {
    const auto [entry, fresh] = rows_.try_emplace(query);
    if (!fresh) return;
    entry->second.q = request(0, std::array{run_of(query * size_, 1, size_)});
    request(1, std::array{run_of(kv_head(query) * keys_ * size_, 1, keys_ * size_)});
    if (!mask_.empty()) request_mapped(3, mask_[0], run_of(query * keys_, 1, keys_));
    evaluation().charge(keys_ * (size_ + 16));
  }

  void store_sums(Samples& sums) {
    sums.allocate(false);
    for (std::uint32_t range = 0; range < sums.ranges().size(); ++range) {
      const StridedRange elements = sums.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k) {
        const Row& row = rows_.at(elements.first + k * elements.step);
        store(1, range, k, row.sum, rounding_of(1, row.sum[0]) + row.error);
      }
    }
  }

  std::uint64_t kv_head(std::uint64_t query) const {
    const std::uint64_t head = query / queries_ % heads_;
    const std::uint64_t batch = query / queries_ / heads_;
    return batch * (heads_ / heads_per_kv_) + head / heads_per_kv_;
  }

  bool sees(std::uint64_t query, std::uint64_t key) const {
    if (!op().attributes->causal) return true;
    const std::uint64_t end = query % queries_ + keys_ + 1;  // queries_ beyond the last key
    return key + queries_ < end && (!window_ || key + queries_ + *window_ >= end);
  }

  void weigh(Row& row, std::uint64_t query) {
    const bool same = exact(row.q) && exact(row.q + 1) && (mask_.empty() || exact(row.q + 2));
    for (std::size_t lane = 0; lane < (same ? 1 : kLanes); ++lane) {
      const std::span<const double> q = values(row.q, lane, scratch_[0]);
      const std::span<const double> k = values(row.q + 1, lane, scratch_[1]);
      std::span<const double> mask;
      if (!mask_.empty()) mask = values(row.q + 2, lane, scratch_[2]);
      std::vector<double>& weights = row.weights[lane];
      weights.assign(keys_, -std::numeric_limits<double>::infinity());
      double most = -std::numeric_limits<double>::infinity();
      for (std::uint64_t j = 0; j < keys_; ++j) {
        if (!sees(query, j)) continue;
        const Product product = product_of(q, k.subspan(j * size_, size_));
        weights[j] = masked(product.sum * scale_, mask, j);
        most = std::max(most, weights[j]);
        if (lane == 0) {
          row.error = std::max(row.error, summing_error(size_, product.magnitude * scale_));
        }
      }
      double total = 0;
      for (double& weight : weights) {
        weight = std::isinf(most) ? 0 : std::exp(weight - most);
        total += weight;
      }
      for (double& weight : weights) weight /= total == 0 ? 1 : total;
      row.sum[lane] = most + std::log(total);
    }
    if (same) row.sum.fill(row.sum[0]);
    row.error += summing_error(keys_, 1);
  }

  double masked(double score, std::span<const double> mask, std::uint64_t key) const {
    if (mask.empty()) return score;
    if (operand(3).type.dtype != DType::kBool) return score + mask[key];
    return mask[key] != 0 ? score : -std::numeric_limits<double>::infinity();
  }

  void store_element(std::uint32_t range, std::uint64_t k, const Row& row, Request column) {
    Lanes lanes{};
    double rounding = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::span<const double> v = values(column, lane, scratch_[0]);
      const Product product = product_of(row.weights_of(lane), v);
      lanes[lane] = product.sum;
      if (lane > 0) continue;
      double squares = 0;
      for (std::size_t j = 0; j < v.size(); ++j) {
        squares += row.weights[0][j] * row.weights[0][j] * v[j] * v[j];
      }
      // Fused kernels round the weights to the type of the values.
      const double weight_rounding = 2 * precision_of(operand(2).type.dtype).unit;
      rounding = rounding_of(0, product.sum) + row.error * product.magnitude +
                 weight_rounding * std::sqrt(squares);
    }
    store(0, range, k, lanes, rounding);
  }

  std::uint64_t keys_;
  std::uint64_t queries_;
  std::uint64_t size_;
  std::uint64_t value_size_;
  double scale_;
  std::optional<std::uint64_t> window_;
  std::uint64_t heads_ = 1;
  std::uint64_t heads_per_kv_ = 1;
  std::vector<IndexMap> mask_;  // none or one
  std::unordered_map<std::uint64_t, Row> rows_;
  std::vector<Request> columns_;
  std::array<std::vector<double>, 3> scratch_;
};

}  // namespace

std::unique_ptr<EvaluationStep> matmul_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<MatmulStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> attention_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<AttentionStep>(evaluation, op);
}

}  // namespace fusecalc
