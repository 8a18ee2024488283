// Products of rows by groups, and of scaled factors.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "reference/product_step.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

// Group i has the rows before offsets[i] that no group before it has. Rows behind the last offset
// belong to no group and yield 0.
class GroupedMatmulStep final : public ProductStep {
 public:
  using ProductStep::ProductStep;

  void request_inputs() override {
    std::vector<std::uint64_t> groups(operand(2).elements);
    std::iota(groups.begin(), groups.end(), 0);
    ends_ = evaluation().indices(op().operands[2].tensor, groups, op().matrix.rows + 1);
    ProductStep::request_inputs();
  }

 private:
  bool has_bias() const override { return false; }

  std::uint64_t ask_element(std::uint64_t element) override {
    const auto& [batch, rows, columns, depth] = op().matrix;
    const std::uint64_t row = element / columns;
    const std::uint64_t column = element % columns;
    const auto end = std::ranges::find_if(ends_, [&](std::uint64_t each) { return row < each; });
    if (end == ends_.end()) {
      request(0, {});
      request(1, {});
      return 0;
    }
    const std::uint64_t b = static_cast<std::uint64_t>(end - ends_.begin()) * columns * depth;
    request(0, std::array{run_of(row * depth, 1, depth)});
    request(1, std::array{op().attributes->transpose_b ? run_of(b + column * depth, 1, depth)
                                                       : run_of(b + column, columns, depth)});
    return depth;
  }

  std::vector<std::uint64_t> ends_;
};

// Each factor is multiplied by the scale of its block.
class ScaledMatmulStep final : public EvaluationStep {
 public:
  ScaledMatmulStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        matrix_(op.matrix),
        biased_(op.operands.size() == 5),
        blocks_a_(blocks_of(2)),
        blocks_b_(blocks_of(3)) {}

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) ask_element(range.first + k * range.step);
    }
  }

  void compute() override {
    Samples& results = *wanted();
    results.allocate(false);
    Request next = 0;
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      for (std::uint64_t k = 0; k < results.ranges()[range].count; ++k) {
        compute_element(range, k, next);
        next += biased_ ? 5 : 4;
      }
    }
  }

 private:
  // Of an operand of scales: how many blocks the matrix is cut into along either axis.
  struct Blocks {
    std::uint64_t rows = 1;
    std::uint64_t columns = 1;
  };
  Blocks blocks_of(std::size_t i) const {
    const Tensor& scales = operand(i);
    if (scales.elements == 1) return {};
    return {.rows = scales.type.shape[0], .columns = scales.type.shape[1]};
  }

  void ask_element(std::uint64_t element) {
    const std::uint64_t row = element / matrix_.columns;
    const std::uint64_t column = element % matrix_.columns;
    const std::uint64_t depth = matrix_.depth;
    request(0, std::array{run_of(row * depth, 1, depth)});
    request(1, std::array{op().attributes->transpose_b ? run_of(column * depth, 1, depth)
                                                       : run_of(column, matrix_.columns, depth)});
    const std::uint64_t row_block = row / (matrix_.rows / blocks_a_.rows);
    const std::uint64_t column_block = column / (matrix_.columns / blocks_b_.columns);
    request(2, std::array{run_of(row_block * blocks_a_.columns, 1, blocks_a_.columns)});
    request(3, std::array{run_of(column_block, blocks_b_.columns, blocks_b_.rows)});
    if (biased_) request(4, std::array{StridedRange{.first = column}});
    evaluation().charge(depth);
  }

  void compute_element(std::uint32_t range, std::uint64_t k, Request first) {
    Lanes lanes{};
    double rounding = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::vector<double> a = scaled(first, first + 2, lane);
      const std::vector<double> b = scaled(first + 1, first + 3, lane);
      const Product product = product_of(a, b);
      const double bias = biased_ ? values(first + 4, lane, scratch_[0])[0] : 0;
      lanes[lane] = product.sum + bias;
      if (lane > 0) continue;
      // A block's sum, or each of its factors, is multiplied by the scales.
      constexpr std::uint64_t kMultiplications = 2;
      rounding =
          rounding_of(0, lanes[0]) +
          summing_error(a.size() + 1 + kMultiplications, product.magnitude + std::abs(bias)) +
          narrow_sum_error(a.size(), product.magnitude);
    }
    store(0, range, k, lanes, rounding);
  }

  std::vector<double> scaled(Request factors, Request scales, std::size_t lane) {
    const std::span<const double> own = values(factors, lane, scratch_[0]);
    const std::span<const double> by = values(scales, lane, scratch_[1]);
    std::vector<double> result(own.begin(), own.end());
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] *= by[i / (result.size() / by.size())];
    }
    return result;
  }

  MatrixShape matrix_;
  bool biased_;
  Blocks blocks_a_;
  Blocks blocks_b_;
  std::array<std::vector<double>, 2> scratch_;
};

}  // namespace

std::unique_ptr<EvaluationStep> grouped_matmul_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<GroupedMatmulStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> scaled_matmul_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<ScaledMatmulStep>(evaluation, op);
}

}  // namespace fusecalc
