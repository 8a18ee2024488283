#include "graph/reference_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace fusecalc {
namespace {

using In = std::span<const double>;
using At = Attributes;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// NaN if either is, unlike std::max.
double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }

double gelu(In in, const At& at) {
  const double x = in[0];
  if (at.approximate == GeluKind::kExact) return x / 2 * std::erfc(-x / std::numbers::sqrt2);
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

// Bounds come as inputs or as attributes.
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

template <double (*pick)(double, double)>
double extreme(In row, const At& /*at*/) {
  return row.empty() ? 0 : std::accumulate(row.begin() + 1, row.end(), row[0], pick);
}

double amax_abs(In row, const At& /*at*/) {
  return std::accumulate(row.begin(), row.end(), 0.0,
                         [](double most, double x) { return larger(most, std::abs(x)); });
}

double variance(In row, const At& at) {
  const double middle = mean(row, at);
  double total = 0;
  for (const double x : row) total += (x - middle) * (x - middle);
  return total / static_cast<double>(row.size());
}

double argmax(In row, const At& /*at*/) {
  return static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
}

double logsumexp(In row, const At& at) {
  const double most = extreme<larger>(row, at);
  if (std::isinf(most)) return most;
  double total = 0;
  for (const double x : row) total += std::exp(x - most);
  return most + std::log(total);
}

struct Row {
  std::string_view name;
  ReferenceFunction function;
};

constexpr std::array kRows = {
    Row{"add", [](In in, const At&) { return in[0] + in[1]; }},
    Row{"sub", [](In in, const At&) { return in[0] - in[1]; }},
    Row{"mul", [](In in, const At&) { return in[0] * in[1]; }},
    Row{"div", [](In in, const At&) { return in[0] / in[1]; }},
    Row{"maximum", [](In in, const At&) { return larger(in[0], in[1]); }},
    Row{"minimum", [](In in, const At&) { return smaller(in[0], in[1]); }},
    Row{"pow", [](In in, const At&) { return std::pow(in[0], in[1]); }},
    Row{"neg", [](In in, const At&) { return -in[0]; }},
    Row{"abs", [](In in, const At&) { return std::abs(in[0]); }},
    Row{"exp", [](In in, const At&) { return std::exp(in[0]); }},
    Row{"log", [](In in, const At&) { return std::log(in[0]); }},
    Row{"log1p", [](In in, const At&) { return std::log1p(in[0]); }},
    Row{"sqrt", [](In in, const At&) { return std::sqrt(in[0]); }},
    Row{"rsqrt", [](In in, const At&) { return 1 / std::sqrt(in[0]); }},
    Row{"reciprocal", [](In in, const At&) { return 1 / in[0]; }},
    Row{"sin", [](In in, const At&) { return std::sin(in[0]); }},
    Row{"cos", [](In in, const At&) { return std::cos(in[0]); }},
    Row{"tanh", [](In in, const At&) { return std::tanh(in[0]); }},
    Row{"sigmoid", [](In in, const At&) { return sigmoid(in[0]); }},
    Row{"relu", [](In in, const At&) { return larger(in[0], 0); }},
    Row{"gelu", gelu},
    Row{"silu", [](In in, const At&) { return in[0] * sigmoid(in[0]); }},
    Row{"square", [](In in, const At&) { return in[0] * in[0]; }},
    Row{"clamp", clamp},
    Row{"cast", [](In in, const At&) { return in[0]; }},
    Row{"where", [](In in, const At&) { return in[0] != 0 ? in[1] : in[2]; }},
    Row{"fma", [](In in, const At&) { return in[0] * in[1] + in[2]; }},
    Row{"lt", [](In in, const At&) { return in[0] < in[1] ? 1.0 : 0.0; }},
    Row{"le", [](In in, const At&) { return in[0] <= in[1] ? 1.0 : 0.0; }},
    Row{"gt", [](In in, const At&) { return in[0] > in[1] ? 1.0 : 0.0; }},
    Row{"ge", [](In in, const At&) { return in[0] >= in[1] ? 1.0 : 0.0; }},
    Row{"eq", [](In in, const At&) { return in[0] == in[1] ? 1.0 : 0.0; }},
    Row{"sum", sum},
    Row{"mean", mean},
    Row{"max", extreme<larger>},
    Row{"min", extreme<smaller>},
    Row{"amax_abs", amax_abs},
    Row{"var", variance},
    Row{"argmax", argmax},
    Row{"logsumexp", logsumexp},
    Row{"softmax", [](In in, const At&) { return std::exp(in[0] - in[1]) / in[2]; }},
    Row{"log_softmax", [](In in, const At&) { return in[0] - in[1] - std::log(in[2]); }},
    Row{"layer_norm", [](In in, const At&) { return (in[0] - in[1]) / std::sqrt(in[2] + in[3]); }},
    Row{"rms_norm",
        [](In in, const At&) { return in[0] / std::sqrt(in[1] * in[1] + in[2] + in[3]); }},
    Row{"batch_norm", [](In in, const At&) { return (in[0] - in[1]) / std::sqrt(in[2] + in[3]); }},
    Row{"group_norm", [](In in, const At&) { return (in[0] - in[1]) / std::sqrt(in[2] + in[3]); }},
};

}  // namespace

ReferenceFunction reference_of(const OpRow& row) {
  const auto* found = std::ranges::find(kRows, row.name, &Row::name);
  return found == kRows.end() ? nullptr : found->function;
}

Adding adding_of(const OpRow& row) {
  const ReferenceFunction function = reference_of(row);
  if (function == sum) return Adding::kSum;
  return function == mean ? Adding::kMean : Adding::kNeither;
}

}  // namespace fusecalc
