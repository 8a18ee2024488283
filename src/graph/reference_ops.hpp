#pragma once

#include <span>

#include "graph/attributes.hpp"

// Functions that the `reference` column of the op table calls, where one line is not enough.
namespace fusecalc::reference {

double sigmoid(double x);
// NaN if either is, unlike std::max.
double larger(double a, double b);
double smaller(double a, double b);

double gelu(std::span<const double> in, const Attributes& at);
// Bounds come as inputs or as attributes.
double clamp(std::span<const double> in, const Attributes& at);

double sum(std::span<const double> row, const Attributes& at);
double mean(std::span<const double> row, const Attributes& at);
double max(std::span<const double> row, const Attributes& at);
double min(std::span<const double> row, const Attributes& at);
double amax_abs(std::span<const double> row, const Attributes& at);
double var(std::span<const double> row, const Attributes& at);
double argmax(std::span<const double> row, const Attributes& at);
double logsumexp(std::span<const double> row, const Attributes& at);

}  // namespace fusecalc::reference
