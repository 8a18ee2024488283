#include "graph/reference_ops.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

namespace fusecalc::reference {

using In = std::span<const double>;
using At = Attributes;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }

double softplus(In in, const At& at) {
  const double x = in[0] * at.beta;
  return x > at.threshold ? in[0] : std::log1p(std::exp(x)) / at.beta;
}

double selu(double x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return kScale * (x > 0 ? x : kAlpha * std::expm1(x));
}

double log_add_exp(double a, double b) {
  // Equal infinities have no difference.
  const double apart = a == b ? 0 : std::abs(a - b);
  return larger(a, b) + std::log1p(std::exp(-apart));
}

double x_log_y(double a, double b) {
  if (std::isnan(b)) return b;
  return a == 0 ? 0 : a * std::log(b);
}

double hard_sigmoid(double x) { return smaller(larger(x + 3, 0), 6) / 6; }

double floored_rest(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floored_quotient(double a, double b) {
  if (b == 0) return a / b;
  // a / b alone might round up to the next whole number.
  const double rest = std::fmod(a, b);
  const bool below = rest != 0 && (rest < 0) != (b < 0);
  return std::nearbyint((a - rest) / b - (below ? 1 : 0));
}

std::int64_t whole(double x) {
  // The largest double below 2^63.
  constexpr double kMost = 0x1.fffffffffffffp62;
  return std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(x, -0x1p63, kMost));
}

double shift_left(double a, double b) {
  if (!(b >= 0 && b < 64)) return 0;
  const auto bits = static_cast<std::uint64_t>(whole(a)) << static_cast<unsigned>(b);
  return static_cast<double>(static_cast<std::int64_t>(bits));
}

double shift_right(double a, double b) {
  if (!(b >= 0 && b < 63)) return a < 0 ? -1 : 0;
  return static_cast<double>(whole(a) >> static_cast<unsigned>(b));
}

double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

double hard_swish_slope(double x) {
  if (x > 3) return 1;
  return x < -3 ? 0 : x / 3 + 0.5;
}

double gelu_slope(double x, const Attributes& at) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  if (at.approximate == GeluKind::kExact) {
    return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + 0.5 * x * root * std::exp(-x * x / 2);
  }
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

double gelu(In in, const At& at) {
  const double x = in[0];
  if (at.approximate == GeluKind::kExact) return x / 2 * std::erfc(-x / std::numbers::sqrt2);
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

double clamp(In in, const At& at) {
  double x = in[0];
  if (in.size() > 1) x = larger(x, in[1]);
  if (in.size() > 2) x = smaller(x, in[2]);
  if (at.min) x = larger(x, *at.min);
  if (at.max) x = smaller(x, *at.max);
  return x;
}

double nan_to_num(In in, const At& at) {
  if (std::isnan(in[0])) return at.value;
  return std::isinf(in[0]) ? (in[0] < 0 ? at.min : at.max).value_or(in[0]) : in[0];
}

double huber(In in, const At& at) {
  const double d = std::abs(in[0] - in[1]);
  return d <= at.delta ? d * d / 2 : at.delta * (d - at.delta / 2);
}

double smooth_l1(In in, const At& at) {
  const double d = std::abs(in[0] - in[1]);
  return d < at.beta ? d * d / (2 * at.beta) : d - at.beta / 2;
}

double binary_cross_entropy(double p, double target) {
  return (target - 1) * larger(std::log1p(-p), -100) - target * larger(std::log(p), -100);
}

double sum(In row, const At& /*at*/) { return std::accumulate(row.begin(), row.end(), 0.0); }

double mean(In row, const At& at) { return sum(row, at) / static_cast<double>(row.size()); }

double max(In row, const At& /*at*/) {
  return row.empty() ? 0 : std::accumulate(row.begin() + 1, row.end(), row[0], larger);
}

double min(In row, const At& /*at*/) {
  return row.empty() ? 0 : std::accumulate(row.begin() + 1, row.end(), row[0], smaller);
}

double amax_abs(In row, const At& /*at*/) {
  return std::accumulate(row.begin(), row.end(), 0.0,
                         [](double most, double x) { return larger(most, std::abs(x)); });
}

double var(In row, const At& at) {
  const double middle = mean(row, at);
  double total = 0;
  for (const double x : row) total += (x - middle) * (x - middle);
  return total / std::max(0.0, static_cast<double>(row.size()) - at.correction);
}

double std_dev(In row, const At& at) { return std::sqrt(var(row, at)); }

double l2_norm(In row, const At& /*at*/) {
  return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
}

double prod(In row, const At& /*at*/) {
  return std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>());
}

double whole_sum(In row, const At& /*at*/) {
  std::uint64_t bits = 0;
  for (const double x : row) bits += static_cast<std::uint64_t>(whole(x));
  return static_cast<double>(static_cast<std::int64_t>(bits));
}

double whole_prod(In row, const At& /*at*/) {
  std::uint64_t bits = 1;
  for (const double x : row) bits *= static_cast<std::uint64_t>(whole(x));
  return static_cast<double>(static_cast<std::int64_t>(bits));
}

double any(In row, const At& /*at*/) {
  return std::ranges::any_of(row, [](double x) { return x != 0; }) ? 1 : 0;
}

double all(In row, const At& /*at*/) {
  return std::ranges::all_of(row, [](double x) { return x != 0; }) ? 1 : 0;
}

double argmin(In row, const At& /*at*/) {
  return static_cast<double>(std::min_element(row.begin(), row.end()) - row.begin());
}

double argmax(In row, const At& /*at*/) {
  return static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
}

double logsumexp(In row, const At& at) {
  const double most = max(row, at);
  if (std::isinf(most)) return most;
  double total = 0;
  for (const double x : row) total += std::exp(x - most);
  return most + std::log(total);
}

}  // namespace fusecalc::reference
