#include "graph/reference_ops.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace fusecalc::reference {

using In = std::span<const double>;
using At = Attributes;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }

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
  return total / static_cast<double>(row.size());
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
