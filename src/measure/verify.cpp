#include "measure/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/interrupt.hpp"
#include "core/random_bits.hpp"
#include "core/text.hpp"
#include "measure/samples.hpp"
#include "reference/element.hpp"

namespace fusecalc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The allowed error of an integer.
constexpr double kHalfStep = 0.5;

double arithmetic_unit(DType dtype) { return dtype == DType::kF64 ? 0x1p-53 : 0x1p-24; }

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "y[3, 17]".
std::string place_of(const Tensor& tensor, std::uint64_t element) {
  std::string indices;
  for (std::size_t i = tensor.type.shape.size(); i > 0; --i) {
    const std::uint64_t extent = tensor.type.shape[i - 1];
    indices = std::to_string(element % extent) + (indices.empty() ? "" : ", ") + indices;
    element /= extent;
  }
  return fmt::format("{}[{}]", printable(tensor.name), indices);
}

// Whether a function jumps (round, sign), or integers or bools are computed from floats
// (comparisons, casts, argmax), anywhere before a tensor, so that a rounding may change elements by
// any amount.
bool discontinuity_before(const OpGraph& graph, TensorId tensor) {
  std::vector<bool> seen(graph.ops.size(), false);
  std::vector<TensorId> open = {tensor};
  while (!open.empty()) {
    const OpId producer = graph.value_of(open.back()).producer;
    open.pop_back();
    if (producer == kNone || seen[producer]) continue;
    seen[producer] = true;
    const Op& op = graph.ops[producer];
    const bool decides = op.row->family != OpFamily::kDropout &&
                         (op.row->jumps || !is_float(graph.tensor(op.outputs[0]).type.dtype));
    for (const Operand& operand : op.operands) {
      if (operand.tensor == kNone) continue;
      const Tensor& value = graph.value_of(operand.tensor);
      if (decides && value.producer != kNone && is_float(value.type.dtype)) return true;
      open.push_back(operand.tensor);
    }
  }
  return false;
}

// The tolerance of the coarsest type that a tensor, or anything before it, is rounded to.
double coarsest_tolerance(const OpGraph& graph, TensorId tensor) {
  std::vector<bool> seen(graph.ops.size(), false);
  std::vector<TensorId> open = {tensor};
  double coarsest = tolerance_of(graph.tensor(tensor).type.dtype);
  while (!open.empty()) {
    const Tensor& value = graph.value_of(open.back());
    open.pop_back();
    if (value.producer == kNone) continue;
    if (is_float(value.type.dtype)) coarsest = std::max(coarsest, tolerance_of(value.type.dtype));
    if (seen[value.producer]) continue;
    seen[value.producer] = true;
    for (const Operand& operand : graph.ops[value.producer].operands) {
      if (operand.tensor != kNone) open.push_back(operand.tensor);
    }
  }
  return coarsest;
}

// Ops on the longest path from the inputs to each op.
std::vector<unsigned> depths_of(const OpGraph& graph) {
  std::vector<unsigned> depths(graph.ops.size(), 1);
  for (OpId id = 0; id < graph.ops.size(); ++id) {
    for (const OpId earlier : graph.before[id]) {
      depths[id] = std::max(depths[id], depths[earlier] + 1);
    }
  }
  return depths;
}

double read_element(GpuBackend& gpu, const BufferAt& place, DType dtype, std::uint64_t element) {
  // Two elements of 4 bits share a byte.
  const bool halves = bytes_of(dtype, 2) == 1;
  const std::uint64_t skipped = halves ? element / 2 * 2 : element;
  std::vector<std::byte> bytes(bytes_of(dtype, 1));
  gpu.download(bytes, {place.buffer, place.offset + bytes_of(dtype, skipped)});
  return decode(dtype, bytes, element - skipped);
}

// The error over the allowed error: up to 1 is correct.
double excess_of(double actual, double expected, double allowed) {
  if (allowed == kInfinity || actual == expected) return 0;
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  const double error = std::abs(actual - expected);
  return std::isfinite(error) ? error / allowed : kInfinity;
}

// Records an excess of a tensor, and its description if it is the worst so far.
void note(Verification& result, double excess, DType dtype,
          const std::function<std::string()>& words) {
  if (std::isnan(excess)) excess = kInfinity;
  const double tolerance = tolerance_of(dtype);
  const bool first = result.tolerance == 0;
  if (!first && excess * result.tolerance <= result.max_rel_err) return;
  result.tolerance = tolerance;
  result.max_rel_err = excess * tolerance;
  if (excess <= 1) return;
  result.ok = false;
  result.worst = words();
}

}  // namespace

double tolerance_of(DType dtype) {
  if (!is_float(dtype)) return kHalfStep;
  return 3.5 * std::max(2 * precision_of(dtype).unit, 8 * arithmetic_unit(dtype));
}

std::vector<double> allowed_errors(std::span<const Expected> expected, DType dtype) {
  std::vector<double> errors;
  double squares = 0;
  for (const Expected& element : expected) {
    if (std::isfinite(element.rounding_error)) errors.push_back(element.rounding_error);
    if (std::isfinite(element.value)) squares += element.value * element.value;
  }
  // An estimate may be small by chance, so it counts as at least half of the median. Elements that
  // are tiny compared with the others also get the absolute error of functions that are accurate
  // only relative to their range.
  const double typical = median_of(errors) / 2;
  const double rms =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(expected.size(), 1)));
  const Precision& precision = precision_of(dtype);
  std::vector<double> allowed;
  for (const Expected& element : expected) {
    const double error = 3 * std::max(element.rounding_error, typical);
    if (!is_float(dtype)) {
      allowed.push_back(std::max(kHalfStep, 3 * element.rounding_error));
    } else if (element.rounding_error == 0 && typical == 0) {
      allowed.push_back(precision.smallest);  // nothing was computed
    } else {
      allowed.push_back(std::max(error, 2 * precision.unit * std::abs(element.value)) +
                        16 * arithmetic_unit(dtype) * rms + precision.smallest);
    }
  }
  return allowed;
}

Verifier::Verifier(const OpGraph& graph, std::span<const GraphInput> inputs,
                   std::span<const TensorId> results, std::uint64_t seed, std::uint64_t samples,
                   std::uint64_t work)
    : graph_(graph), reference_(graph, inputs) {
  const std::vector<unsigned> depths = depths_of(graph);
  for (const TensorId id : results) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.elements == 0) continue;
    stop_if_interrupted();
    ExpectedOutput output{.tensor = id};
    for (std::uint64_t count = samples; count > 0; count /= 4) {
      output.elements = samples_of(graph, id, inputs, random_bits(seed, id), count);
      output.answer = reference_.evaluate(id, output.elements, work);
      if (output.answer.reason.empty()) break;
    }
    output.allowed = allowed_errors(output.answer.elements, tensor.type.dtype);
    output.covered = samples_cover_op(graph, id, inputs);
    output.discontinuous = discontinuity_before(graph, id);
    output.roundings = coarsest_tolerance(graph, id) * std::sqrt(depths[tensor.producer]);
    outputs_.push_back(std::move(output));
  }
}

Verification Verifier::check(GpuBackend& gpu, const Places& places) const {
  Verification result;
  for (const ExpectedOutput& output : outputs_) {
    const Tensor& tensor = graph_.tensor(output.tensor);
    if (!output.answer.reason.empty()) {
      result.unchecked.push_back(printable(tensor.name) + ": " + output.answer.reason);
      result.complete = false;
      continue;
    }
    if (output.answer.estimated) {
      result.unchecked.push_back(
          printable(tensor.name) +
          ": long sums are checked against an estimate from a sample of their terms");
    }
    for (std::size_t i = 0; i < output.elements.size(); ++i) {
      const std::uint64_t element = output.elements[i];
      const double expected = output.answer.elements[i].value;
      const double actual = read_element(gpu, places(output.tensor), tensor.type.dtype, element);
      if (std::isfinite(output.allowed[i])) ++result.checked;
      note(result, excess_of(actual, expected, output.allowed[i]), tensor.type.dtype, [&] {
        return fmt::format("{} is {:.9g}, expected {:.9g} +/- {:.2g}", place_of(tensor, element),
                           actual, expected, output.allowed[i]);
      });
    }
  }
  return result;
}

// Elements that were not sampled may have larger errors than the sampled ones, and both plans have
// errors.
std::optional<Allowance> Verifier::allowance_for(const ExpectedOutput& output) const {
  constexpr double kSlack = 4;
  double absolute = 0;
  std::vector<double> relative;
  for (std::size_t i = 0; i < output.allowed.size(); ++i) {
    if (!std::isfinite(output.allowed[i])) return std::nullopt;
    absolute = std::max(absolute, output.allowed[i]);
    relative.push_back(output.allowed[i] / std::abs(output.answer.elements[i].value));
  }
  if (!is_float(graph_.tensor(output.tensor).type.dtype)) return Allowance{.absolute = absolute};
  const double typical = kSlack * median_of(relative);
  return Allowance{.absolute = kSlack * absolute, .relative = std::isfinite(typical) ? typical : 0};
}

// Without a reference, the tolerance is the error of that many roundings of the largest elements:
// those of the plan where they are smaller, in case the other plan's are too large by mistake.
Allowance Verifier::coarse_allowance(GpuBackend& gpu, const ExpectedOutput& output,
                                     const BufferAt& ours, const BufferAt& theirs) const {
  constexpr double kMost = 0.5;  // of the largest element, also for narrow dtypes
  const Tensor& tensor = graph_.tensor(output.tensor);
  const DType dtype = tensor.type.dtype;
  if (!is_float(dtype)) return {.absolute = output.roundings};
  const auto largest = [&](const BufferAt& a, const BufferAt& b) {
    return gpu.compare(a, b, dtype, tensor.elements, {.absolute = 1}).max_magnitude;
  };
  return {.absolute = std::min(output.roundings, kMost) *
                      std::min(largest(ours, theirs), largest(theirs, ours))};
}

bool Verifier::undecided(const ExpectedOutput& output, std::uint64_t element) const {
  const Answer answer = reference_.evaluate(output.tensor, std::span(&element, 1));
  return answer.reason.empty() && !std::isfinite(answer.elements[0].rounding_error);
}

Verification Verifier::compare(GpuBackend& gpu, const Places& places, const Places& others) const {
  constexpr double kMayDiffer = 0.01;  // of the elements
  Verification result;
  for (const ExpectedOutput& output : outputs_) {
    const Tensor& tensor = graph_.tensor(output.tensor);
    const DType dtype = tensor.type.dtype;
    const BufferAt ours = places(output.tensor);
    const BufferAt theirs = others(output.tensor);
    std::optional<Allowance> allowed = allowance_for(output);
    if (!output.answer.reason.empty() || !output.covered)
      allowed = coarse_allowance(gpu, output, ours, theirs);
    if (!allowed) {
      result.unchecked.push_back(printable(tensor.name) + ": some elements may overflow");
      continue;
    }
    result.checked += tensor.elements;
    Difference difference = gpu.compare(ours, theirs, dtype, tensor.elements, *allowed);
    const double mine = read_element(gpu, ours, dtype, difference.worst);
    const double other = read_element(gpu, theirs, dtype, difference.worst);
    const bool few =
        static_cast<double>(difference.beyond) <= kMayDiffer * static_cast<double>(tensor.elements);
    const bool may_jump = std::isnan(mine) == std::isnan(other)
                              ? output.discontinuous
                              : few && undecided(output, difference.worst);
    if (few && may_jump) difference.excess = std::min(difference.excess, 1.0);
    note(result, difference.excess, dtype, [&] {
      return fmt::format(
          "{} is {:.9g}, and {:.9g} unfused ({} of {} elements exceed the tolerance)",
          place_of(tensor, difference.worst), mine, other, difference.beyond, tensor.elements);
    });
  }
  return result;
}

void place_input(GpuBackend& gpu, const GraphInput& input, const BufferAt& place) {
  if (input.data.data.empty()) {
    gpu.fill(place.buffer, input.data.fill);
  } else {
    gpu.upload(place, input.data.data);
  }
}

PartVerifier::PartVerifier(const OpGraph& graph, GraphPart part, std::uint64_t seed)
    : part_(std::move(part)),
      inputs_(random_inputs(graph, part_, seed)),
      verifier_(graph, inputs_, part_.results, seed) {}

Verification PartVerifier::check(GpuBackend& gpu, const Verifier::Places& places,
                                 const std::function<void(const GraphInput&)>& place,
                                 const Work& work) const {
  // Elements that are never written must not pass; in-place results are then filled as inputs.
  for (const TensorId result : part_.results) gpu.poison(places(result).buffer);
  for (const GraphInput& input : inputs_) place(input);
  work();
  gpu.finish();
  return verifier_.check(gpu, places);
}

Verification worse_of(Verification a, Verification b) {
  const auto badness = [](const Verification& v) {
    return v.tolerance == 0 ? 0 : v.max_rel_err / v.tolerance;
  };
  const std::uint64_t checked = a.checked + b.checked;
  const bool complete = a.complete && b.complete;
  std::vector<std::string> unchecked = a.unchecked;
  for (const std::string& reason : b.unchecked) {
    if (std::ranges::find(unchecked, reason) == unchecked.end()) unchecked.push_back(reason);
  }
  const bool second = a.tolerance == 0 || badness(b) > badness(a);
  Verification worse = second ? std::move(b) : std::move(a);
  worse.checked = checked;
  worse.unchecked = std::move(unchecked);
  worse.complete = complete;
  return worse;
}

}  // namespace fusecalc
