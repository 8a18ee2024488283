// Sums of products.

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/element.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

struct Product {
  double sum = 0;
  double magnitude = 0;  // sum over its terms
};

Product product_of(std::span<const double> a, std::span<const double> b) {
  Product product;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product.sum += a[i] * b[i];
    product.magnitude += std::abs(a[i] * b[i]);
  }
  return product;
}

StridedRange run_of(std::uint64_t first, std::uint64_t step, std::uint64_t count) {
  return {first, count == 1 ? 0 : step, count};
}

// Elements that are a product of two requests of the same length, plus a bias.
class ProductStep : public EvaluationStep {
 public:
  using EvaluationStep::EvaluationStep;

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        evaluation().charge(ask_element(range.first + k * range.step));
      }
    }
  }

  void compute() override {
    Samples& results = *wanted();
    bool all_exact = !is_float(output().type.dtype);
    const Request width = has_bias() ? 3 : 2;
    Request next = 0;
    for (const StridedRange& range : results.ranges()) {
      for (Request r = 0; r < range.count * width; ++r) all_exact = all_exact && exact(next++);
    }
    results.allocate(all_exact);
    next = 0;
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      for (std::uint64_t k = 0; k < results.ranges()[range].count; ++k, next += width) {
        compute_element(range, k, next);
      }
    }
  }

 protected:
  bool has_bias() const { return op().operands.size() == 3; }
  // Makes the two or three requests of an element; returns the number of products.
  virtual std::uint64_t ask_element(std::uint64_t element) = 0;

 private:
  void compute_element(std::uint32_t range, std::uint64_t k, Request first) {
    const bool same = exact(first) && exact(first + 1) && (!has_bias() || exact(first + 2));
    Lanes lanes{};
    double rounding = 0;
    for (std::size_t lane = 0; lane < (same ? 1 : kLanes); ++lane) {
      const std::span<const double> a = values(first, lane, scratch_[0]);
      const Product product = product_of(a, values(first + 1, lane, scratch_[1]));
      const double bias = has_bias() ? values(first + 2, lane, scratch_[2])[0] : 0;
      lanes[lane] = product.sum + bias;
      if (lane > 0) continue;
      rounding = rounding_of(0, lanes[0]) +
                 summing_error(a.size() + 1, product.magnitude + std::abs(bias));
      if (same) lanes.fill(lanes[0]);
    }
    store(0, range, k, lanes, rounding);
  }

  std::array<std::vector<double>, 3> scratch_;
};

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
    const Shape& own = operand(i).type.shape;
    const Shape& to = output().type.shape;
    if (linear_) return {{1}, std::array<std::uint64_t, 1>{0}};
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

class Conv2dStep final : public ProductStep {
 public:
  using ProductStep::ProductStep;

 private:
  std::uint64_t ask_element(std::uint64_t element) override {
    const Attributes& at = *op().attributes;
    const Shape& x = operand(0).type.shape;
    const Shape& weight = operand(1).type.shape;
    const Shape& y = output().type.shape;
    const std::uint64_t column = element % y[3];
    const std::uint64_t line = element / y[3] % y[2];
    const std::uint64_t channel = element / y[3] / y[2] % y[1];
    const std::uint64_t image = element / y[3] / y[2] / y[1];
    const std::uint64_t group = channel / (y[1] / static_cast<std::uint64_t>(at.groups));
    std::vector<std::uint64_t> inputs;
    std::vector<std::uint64_t> weights;
    for (std::uint64_t c = 0; c < weight[1]; ++c) {
      const std::uint64_t plane = image * x[1] + group * weight[1] + c;
      for (std::uint64_t i = 0; i < weight[2]; ++i) {
        const auto row = place(line, i, 0);
        if (row >= x[2]) continue;  // padding; what is before 0 wraps to a large number
        for (std::uint64_t j = 0; j < weight[3]; ++j) {
          const auto col = place(column, j, 1);
          if (col >= x[3]) continue;
          inputs.push_back((plane * x[2] + row) * x[3] + col);
          weights.push_back(((channel * weight[1] + c) * weight[2] + i) * weight[3] + j);
        }
      }
    }
    request(0, ranges_of(inputs));
    request(1, ranges_of(weights));
    if (has_bias()) request(2, std::array{StridedRange{.first = channel}});
    return inputs.size();
  }

  std::uint64_t place(std::uint64_t result, std::uint64_t tap, std::size_t axis) const {
    const Attributes& at = *op().attributes;
    return result * static_cast<std::uint64_t>(at.stride[axis]) +
           tap * static_cast<std::uint64_t>(at.dilation[axis]) -
           static_cast<std::uint64_t>(at.padding[axis]);
  }
};

// softmax(q k^T * scale + mask) v, one query at a time. A bool mask keeps where it is true, any
// other is added. With `causal`, the last query sees all keys and each before it one fewer. A query
// that sees no key yields 0.
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
    heads_ = q[q.size() - 3];
    heads_per_kv_ = heads_ / operand(1).type.shape[q.size() - 3];
    if (op.operands.size() == 4) {
      Shape scores = q;
      scores.back() = keys_;
      mask_.push_back(IndexMap::broadcast(scores, operand(3).type.shape));
    }
  }

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t element = range.first + k * range.step;
        const std::uint64_t query = element / value_size_;
        const std::uint64_t head = kv_head(query);
        const auto [entry, fresh] = rows_.try_emplace(query);
        if (fresh) {
          entry->second.q = request(0, std::array{run_of(query * size_, 1, size_)});
          request(1, std::array{run_of(head * keys_ * size_, 1, keys_ * size_)});
          if (!mask_.empty()) request_mapped(3, mask_[0], run_of(query * keys_, 1, keys_));
          evaluation().charge(keys_ * (size_ + 16));
        }
        const StridedRange column =
            run_of(head * keys_ * value_size_ + element % value_size_, value_size_, keys_);
        columns_.push_back(request(2, std::array{column}));
        evaluation().charge(keys_);
      }
    }
  }

  void compute() override {
    Samples& results = *wanted();
    results.allocate(false);
    auto column = columns_.begin();
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange elements = results.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k, ++column) {
        const std::uint64_t query = (elements.first + k * elements.step) / value_size_;
        Row& row = rows_.at(query);
        if (row.weights[0].empty()) weigh(row, query);
        store_element(range, k, row, *column);
      }
    }
  }

 private:
  struct Row {
    Request q = 0;                                    // then k, then the mask
    std::array<std::vector<double>, kLanes> weights;  // only lane 0 if all lanes are equal
    double error = 0;                                 // of the weights, relative

    const std::vector<double>& weights_of(std::size_t lane) const {
      return weights[weights[lane].empty() ? 0 : lane];
    }
  };

  std::uint64_t kv_head(std::uint64_t query) const {
    const std::uint64_t head = query / queries_ % heads_;
    const std::uint64_t batch = query / queries_ / heads_;
    return batch * (heads_ / heads_per_kv_) + head / heads_per_kv_;
  }

  bool sees(std::uint64_t query, std::uint64_t key) const {
    return !op().attributes->causal || key + queries_ <= query % queries_ + keys_;
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
    }
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

std::unique_ptr<EvaluationStep> conv2d_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<Conv2dStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> attention_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<AttentionStep>(evaluation, op);
}

}  // namespace fusecalc
