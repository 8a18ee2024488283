#include "reference/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random_bits.hpp"
#include "core/text.hpp"
#include "reference/element.hpp"

namespace fusecalc {
namespace {

// The work per element, in units of a multiply-add: for a random input element, and for an element
// that is computed in all lanes.
constexpr std::uint64_t kDrawnWork = 8;
constexpr std::uint64_t kComputedWork = 32;
constexpr unsigned kMostNested = 64;

[[noreturn]] void refuse(const std::string& reason) { throw Error(Fault::kUnavailable, reason); }

// Uniform in (-2, 2).
double disturbance(std::uint64_t bits, std::size_t lane) {
  constexpr unsigned kBits = 10;  // so that 64 serve all lanes
  static_assert(kBits * (kLanes - 1) <= 64);
  const std::uint64_t draw = bits >> (kBits * (lane - 1)) & ((1U << kBits) - 1);
  return (static_cast<double>(draw) + 0.5) / (1U << (kBits - 2)) - 2;
}

}  // namespace

std::size_t Samples::Hash::operator()(const StridedRange& range) const {
  return random_bits(range.first, range.step + (range.count << 20U));
}

std::pair<std::uint32_t, bool> Samples::add(const StridedRange& range) {
  const auto [entry, fresh] =
      numbers_.try_emplace(range, static_cast<std::uint32_t>(ranges_.size()));
  if (fresh) {
    ranges_.push_back(range);
    starts_.push_back(elements_);
    elements_ += range.count;
  }
  return {entry->second, fresh};
}

void Samples::allocate(bool exact) {
  exact_ = exact;
  allocated_ = true;
  values_.resize(elements_ * (exact ? 1 : kLanes));
}

void Samples::release() {
  allocated_ = false;
  values_ = {};
}

double rms_deviation(const Lanes& lanes) {
  double squares = 0;
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    if (lanes[lane] == lanes[0] || (std::isnan(lanes[lane]) && std::isnan(lanes[0]))) continue;
    const double difference = lanes[lane] - lanes[0];
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    squares += difference * difference;
  }
  return std::sqrt(squares / (kLanes - 1));
}

double stored_as(DType dtype, double value) {
  if (is_float(dtype)) return value;
  if (dtype == DType::kBool) return value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  const Precision& computed = precision_of(dtype == DType::kI64 ? DType::kI64 : DType::kI32);
  return wrapped_to(dtype, std::trunc(std::clamp(value, computed.lowest, computed.highest)));
}

double wrapped_to(DType dtype, double value) {
  if (is_float(dtype) || dtype == DType::kI64) return value;
  const Precision& precision = precision_of(dtype);
  const double values = precision.highest - precision.lowest + 1;
  return value - values * std::floor((value - precision.lowest) / values);
}

double wrapped_to(DType dtype, std::uint64_t bits) {
  if (dtype == DType::kI64) return static_cast<double>(static_cast<std::int64_t>(bits));
  const auto low = static_cast<std::uint32_t>(bits);
  return wrapped_to(dtype, static_cast<double>(low));
}

Evaluation::Evaluation(const ReferenceInputs& inputs, std::uint64_t& work, std::uint64_t most_terms,
                       unsigned depth)
    : inputs_(inputs),
      work_(work),
      most_terms_(most_terms),
      depth_(depth),
      samples_(inputs.graph.tensors.size()) {
  if (depth > kMostNested) refuse("too many levels of indices that depend on indices");
}

Evaluation::~Evaluation() = default;

Samples& Evaluation::wanted(TensorId tensor, bool& fresh) {
  fresh = samples_[tensor] == nullptr;
  if (fresh) samples_[tensor] = std::make_unique<Samples>();
  return *samples_[tensor];
}

void Evaluation::charge(std::uint64_t operations) {
  if (operations > work_) {
    work_ = 0;
    refuse("too much work for the reference: its results depend on too many elements");
  }
  work_ -= operations;
}

std::uint64_t Evaluation::work_of(TensorId tensor) const {
  return given(tensor) ? kDrawnWork : kComputedWork;
}

std::vector<std::uint64_t> Evaluation::sampled_terms(std::uint64_t terms, std::uint64_t seed) {
  constexpr std::uint64_t kShortSum = 128;
  could_estimate_ = could_estimate_ || terms > kShortSum;
  if (terms <= most_terms_) return {};
  estimated_ = true;
  std::vector<std::uint64_t> places(most_terms_);
  // Stratified sampling: one random term from each interval of equal length.
  const double stretch = static_cast<double>(terms) / static_cast<double>(most_terms_);
  for (std::uint64_t i = 0; i < most_terms_; ++i) {
    const double draw = static_cast<double>(random_bits(seed, i) >> 11U) * 0x1p-53;
    const auto place = static_cast<std::uint64_t>((static_cast<double>(i) + draw) * stretch);
    places[i] = std::min(place, terms - 1);
  }
  return places;
}

TensorId Evaluation::through_views(TensorId tensor, std::vector<Repeated>& sources) {
  const Tensor& view = graph().tensor(tensor);
  if (view.maps.empty()) return view.value;
  const auto [maps, fresh] = view_maps_.try_emplace(tensor);
  if (fresh) {
    for (const StridedMap& map : view.maps) maps->second.emplace_back(map);
  }
  std::vector<Repeated> next;
  for (const IndexMap& map : maps->second) {
    next.clear();
    for (const Repeated& source : sources) {
      map.append(source.range, next);
      if (source.times > 1) next.back().times = source.times;
    }
    sources.swap(next);
  }
  return view.value;
}

void Evaluation::fill_input(TensorId tensor) {
  if (!given(tensor)) {
    refuse("no data for " + in_quotes(graph().tensor(tensor).name));
  }
  Samples& samples = *samples_[tensor];
  samples.allocate(true);
  const InputData& data = *inputs_.data[tensor];
  for (std::uint32_t r = 0; r < samples.ranges().size(); ++r) {
    const StridedRange& range = samples.ranges()[r];
    std::uint64_t element = range.first;
    for (double& value : samples.lane(0, r)) {
      value = data.value(element);
      element += range.step;
    }
  }
}

std::vector<std::uint64_t> Evaluation::indices(TensorId tensor,
                                               std::span<const std::uint64_t> elements,
                                               std::uint64_t below) {
  std::vector<std::uint64_t> result;
  Evaluation nested(inputs_, work_, kMaxCount, depth_ + 1);
  for (const Lanes& lanes : nested.evaluate(tensor, elements)) {
    const std::string name = in_quotes(graph().tensor(tensor).name);
    if (rms_deviation(lanes) != 0) refuse("the indices " + name + " depend on rounding");
    if (!(lanes[0] >= 0 && lanes[0] < static_cast<double>(below))) {
      refuse(fmt::format("the index {} of {} is not in [0, {})", lanes[0], name, below));
    }
    result.push_back(static_cast<std::uint64_t>(lanes[0]));
  }
  return result;
}

std::vector<Lanes> Evaluation::evaluate(TensorId tensor, std::span<const std::uint64_t> elements) {
  std::vector<Repeated> sources;
  for (const StridedRange& range : ranges_of(elements)) sources.push_back({.range = range});
  const TensorId value = through_views(tensor, sources);
  bool fresh = false;
  Samples& roots = wanted(value, fresh);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> places;
  for (const Repeated& source : sources) {
    const auto [number, added] = roots.add(source.range);
    if (added) charge(work_of(value) * source.range.count);
    places.emplace_back(number, source.times);
  }
  std::vector<std::unique_ptr<EvaluationStep>> steps;
  const OpId last = given(value) ? kNone : graph().tensor(value).producer;
  for (OpId id = last == kNone ? 0 : last + 1; id > 0; --id) {
    const Op& op = graph().ops[id - 1];
    const bool needed = std::ranges::any_of(
        op.outputs, [&](TensorId output) { return samples_[output] != nullptr && !given(output); });
    if (!needed) continue;
    steps.push_back(make_step(*this, op));
    steps.back()->request_inputs();
  }
  for (; !steps.empty(); steps.pop_back()) {
    steps.back()->compute();
    steps.back()->release_inputs();
  }
  if (!roots.allocated()) fill_input(value);
  std::vector<Lanes> results;
  for (const auto& [number, times] : places) {
    for (std::uint64_t k = 0; k < roots.ranges()[number].count; ++k) {
      Lanes lanes{};
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = roots.lane(lane, number)[k];
      results.insert(results.end(), times, lanes);
    }
  }
  return results;
}

void EvaluationStep::add_ranges(TensorId tensor, std::vector<Repeated>& sources) {
  const TensorId value = evaluation_.through_views(tensor, sources);
  bool fresh = false;
  Samples& samples = evaluation_.wanted(value, fresh);
  if (fresh) releases_.push_back(value);
  for (const Repeated& source : sources) {
    const auto [range, added] = samples.add(source.range);
    evaluation_.charge(added ? evaluation_.work_of(value) * source.range.count : 1);
    requested_.push_back({value, range, source.times});
  }
}

EvaluationStep::Request EvaluationStep::request(std::size_t i,
                                                std::span<const StridedRange> ranges) {
  ends_.push_back(static_cast<std::uint32_t>(requested_.size()));
  add_to_request(i, ranges);
  return static_cast<Request>(ends_.size() - 1);
}

void EvaluationStep::add_to_request(std::size_t i, std::span<const StridedRange> ranges) {
  sources_.clear();
  for (const StridedRange& range : ranges) sources_.push_back({.range = range});
  add_ranges(op_.operands[i].tensor, sources_);
  ends_.back() = static_cast<std::uint32_t>(requested_.size());
}

EvaluationStep::Request EvaluationStep::request_mapped(std::size_t i, const IndexMap& map,
                                                       const StridedRange& range) {
  sources_.clear();
  map.append(range, sources_);
  add_ranges(op_.operands[i].tensor, sources_);
  ends_.push_back(static_cast<std::uint32_t>(requested_.size()));
  return static_cast<Request>(ends_.size() - 1);
}

std::span<const double> EvaluationStep::values(Request request, std::size_t lane,
                                               std::vector<double>& scratch) {
  const std::uint32_t begin = request == 0 ? 0 : ends_[request - 1];
  const std::span requested = std::span(requested_).subspan(begin, ends_[request] - begin);
  for (const RequestedRange& requested_range : requested) {
    if (!evaluation_.samples(requested_range.tensor)->allocated())
      evaluation_.fill_input(requested_range.tensor);
  }
  if (requested.size() == 1 && requested[0].times == 1) {
    return evaluation_.samples(requested[0].tensor)->lane(lane, requested[0].range);
  }
  scratch.clear();
  for (const RequestedRange& requested_range : requested) {
    const std::span<double> part =
        evaluation_.samples(requested_range.tensor)->lane(lane, requested_range.range);
    if (requested_range.times == 1) {
      scratch.insert(scratch.end(), part.begin(), part.end());
    } else {
      scratch.insert(scratch.end(), requested_range.times, part[0]);
    }
  }
  return scratch;
}

bool EvaluationStep::exact(Request request) {
  const std::uint32_t begin = request == 0 ? 0 : ends_[request - 1];
  return std::all_of(requested_.begin() + begin, requested_.begin() + ends_[request],
                     [&](const RequestedRange& requested_range) {
                       const Samples& samples = *evaluation_.samples(requested_range.tensor);
                       return !samples.allocated() ||
                              samples.exact();  // inputs are filled when read
                     });
}

void EvaluationStep::release_inputs() {
  for (const TensorId tensor : releases_) evaluation_.samples(tensor)->release();
}

double EvaluationStep::arithmetic_unit(std::size_t output_index) const {
  return output(output_index).type.dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
}

double EvaluationStep::rounding_of(std::size_t output_index, double value) const {
  const Precision& precision = precision_of(output(output_index).type.dtype);
  // Special functions are accurate to a few fp32 ulps.
  return std::max(2 * precision.unit, 8 * arithmetic_unit(output_index)) * std::abs(value) +
         precision.smallest;
}

double EvaluationStep::sampling_error(std::span<const double> terms, std::uint64_t population) {
  const auto count = static_cast<double>(terms.size());
  double total = 0;
  for (const double term : terms) total += term;
  double squares = 0;
  for (const double term : terms) squares += (term - total / count) * (term - total / count);
  const double left = 1 - count / static_cast<double>(population);
  return std::sqrt(squares / count * left / count);
}

double EvaluationStep::summing_error(std::uint64_t terms, double magnitude,
                                     std::size_t output_index) const {
  return arithmetic_unit(output_index) * (8 + std::sqrt(static_cast<double>(terms))) * magnitude;
}

double EvaluationStep::narrow_sum_error(std::uint64_t terms, double magnitude) const {
  if (!is_fp8(operand(0).type.dtype) || !is_fp8(operand(1).type.dtype) || terms == 0) return 0;
  // Each 32 products are cut off behind the 13th bit of the sum so far, which is as large as terms
  // of either sign leave it.
  constexpr double kUnit = 0x1p-14;
  constexpr double kTogether = 32;
  const auto count = static_cast<double>(terms);
  return kUnit * (1 + count / kTogether) * magnitude / std::sqrt(count);
}

void EvaluationStep::store(std::size_t output_index, std::uint32_t range, std::uint64_t k,
                           const Lanes& lanes, double rounding) {
  const TensorId tensor = op_.outputs[output_index];
  Samples& samples = *evaluation_.samples(tensor);
  const DType dtype = graph().tensor(tensor).type.dtype;
  samples.lane(0, range)[k] = stored_as(dtype, lanes[0]);
  if (samples.exact()) return;
  const std::uint64_t element = samples.ranges()[range].first + k * samples.ranges()[range].step;
  const bool overflows = is_float(dtype) && std::isfinite(lanes[0]) &&
                         std::abs(lanes[0]) + rounding > precision_of(dtype).highest;
  const std::uint64_t bits = random_bits(tensor + 1, element);
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    double value = stored_as(dtype, lanes[lane]);
    if (is_float(dtype) && rounding > 0) value += disturbance(bits, lane) * rounding;
    // The stored value overflows to infinity; the same value kept in fp32 does not.
    samples.lane(lane, range)[k] = overflows ? std::numeric_limits<double>::quiet_NaN() : value;
  }
}

}  // namespace fusecalc
