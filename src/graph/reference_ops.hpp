#pragma once

#include <cstdint>
#include <span>

#include "graph/attributes.hpp"

// Functions that the `reference` column of the op table calls, where one line is not enough.
namespace fusecalc::reference {

double sigmoid(double x);
// NaN if either is, unlike std::max.
double larger(double a, double b);
double smaller(double a, double b);

double softplus(std::span<const double> in, const Attributes& at);
double selu(double x);
// log(exp(a) + exp(b))
double log_add_exp(double a, double b);
// a log b
double x_log_y(double a, double b);
double hard_sigmoid(double x);

// Quotients round down, so that rests have the sign of b.
double floored_rest(double a, double b);
double floored_quotient(double a, double b);

std::int64_t whole(double x);
// A shift by a negative number of bits, or by all of them, shifts everything out.
double shift_left(double a, double b);
double shift_right(double a, double b);

// Derivatives.
double silu_slope(double x);
double hard_swish_slope(double x);
double gelu_slope(double x, const Attributes& at);

double gelu(std::span<const double> in, const Attributes& at);
// Bounds come as inputs or as attributes.
double clamp(std::span<const double> in, const Attributes& at);
double nan_to_num(std::span<const double> in, const Attributes& at);

// Losses of single elements.
double huber(std::span<const double> in, const Attributes& at);
double smooth_l1(std::span<const double> in, const Attributes& at);
double binary_cross_entropy(double p, double target);

double sum(std::span<const double> row, const Attributes& at);
double mean(std::span<const double> row, const Attributes& at);
double max(std::span<const double> row, const Attributes& at);
double min(std::span<const double> row, const Attributes& at);
double amax_abs(std::span<const double> row, const Attributes& at);
double var(std::span<const double> row, const Attributes& at);
double std_dev(std::span<const double> row, const Attributes& at);
double l2_norm(std::span<const double> row, const Attributes& at);
double prod(std::span<const double> row, const Attributes& at);
// Of integers: the low 64 bits of the sum or the product, signed.
double whole_sum(std::span<const double> row, const Attributes& at);
double whole_prod(std::span<const double> row, const Attributes& at);
double any(std::span<const double> row, const Attributes& at);
double all(std::span<const double> row, const Attributes& at);
double argmax(std::span<const double> row, const Attributes& at);
double argmin(std::span<const double> row, const Attributes& at);
double logsumexp(std::span<const double> row, const Attributes& at);

}  // namespace fusecalc::reference
