#pragma once

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "reference/evaluation.hpp"

namespace fusecalc {

inline StridedRange run_of(std::uint64_t first, std::uint64_t step, std::uint64_t count) {
  return {first, count == 1 ? 0 : step, count};
}

struct Product {
  double sum = 0;
  double magnitude = 0;  // sum over its terms
};

inline Product product_of(std::span<const double> a, std::span<const double> b) {
  Product product;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product.sum += a[i] * b[i];
    product.magnitude += std::abs(a[i] * b[i]);
  }
  return product;
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
  virtual bool has_bias() const { return op().operands.size() == 3; }
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
      lanes[lane] = wrapped_to(output().type.dtype, product.sum + bias);
      if (lane > 0) continue;
      rounding = rounding_of(0, lanes[0]) +
                 summing_error(a.size() + 1, product.magnitude + std::abs(bias)) +
                 narrow_sum_error(a.size(), product.magnitude);
      if (same) lanes.fill(lanes[0]);
    }
    store(0, range, k, lanes, rounding);
  }

  std::array<std::vector<double>, 3> scratch_;
};

}  // namespace fusecalc
