#include "measure/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "core/random_bits.hpp"
#include "graph/axis.hpp"
#include "measure/index_bounds.hpp"
#include "measure/repeated_rows.hpp"
#include "reference/element.hpp"

namespace fusecalc {
namespace {

// The requirements of the ops on an input tensor.
struct Use {
  std::optional<Bounds> index{};  // of what indices are computed from
  // By a scatter: how far neighbours along the indexed axis lie apart, and how many they are.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> scattered{};
  bool ends = false;        // indices are where groups of rows end
  std::uint64_t depth = 1;  // for weights: terms of a contraction
};

class Uses {
 public:
  Uses(const OpGraph& graph, const GraphPart& part)
      : graph_(graph), given_(graph.tensors.size(), false), uses_(graph.tensors.size()) {
    for (const TensorId id : part.given) given_[id] = true;
    for (const Op& op : graph.ops) note(op);
  }

  const Use& of(TensorId tensor) const { return uses_[tensor]; }

 private:
  const Shape& shape(const Op& op, std::size_t i) const {
    return graph_.tensor(op.operands[i].tensor).type.shape;
  }

  void note(const Op& op) {
    const OpFamily family = op.row->family;
    const auto axis = [&] { return axis_of(op, shape(op, 0).size()); };
    if (family == OpFamily::kGather || family == OpFamily::kGatherElements) {
      note_index(op, 1, shape(op, 0)[axis()]);
    }
    if (family == OpFamily::kScatter) {
      note_index(op, 1, shape(op, 0)[axis()],
                 std::pair{1, graph_.tensor(op.operands[1].tensor).elements});
    }
    if (family == OpFamily::kScatterElements) {
      const Shape& named = shape(op, 1);
      note_index(op, 1, shape(op, 0)[axis()],
                 std::pair{elements_between(named, axis() + 1, named.size()), named[axis()]});
    }
    if (family == OpFamily::kOneHot) {
      note_index(op, 0, static_cast<std::uint64_t>(op.attributes->classes));
    }
    if (family == OpFamily::kLoss) note_index(op, 1, shape(op, 0).back());
    if (family == OpFamily::kLossBackward) note_index(op, 2, shape(op, 1).back());
    if (family == OpFamily::kEmbedding) {
      const std::size_t table = table_input(graph_, op);
      note_index(op, 1 - table, shape(op, table)[0]);
    }
    if (family == OpFamily::kGroupedMatmul) note_index(op, 2, op.matrix.rows + 1, {}, true);
    if (is_matrix_product(family) || family == OpFamily::kGroupedMatmul ||
        family == OpFamily::kConvolution || family == OpFamily::kTransposedConvolution) {
      const TensorId weight = graph_.tensor(op.operands[1].tensor).value;
      uses_[weight].depth = std::max(uses_[weight].depth, op.matrix.depth);
    }
  }

  // The inputs that an index operand is computed from keep it among the rows.
  void note_index(const Op& op, std::size_t i, std::uint64_t rows,
                  std::optional<std::pair<std::uint64_t, std::uint64_t>> scattered = {},
                  bool ends = false) {
    const Bounds among = {0, static_cast<double>(rows) - 1};
    const auto allow = [&](TensorId input, const Bounds& bounds) {
      Use& use = uses_[input];
      use.index = use.index ? common(*use.index, bounds) : bounds;
      if (scattered) use.scattered = scattered;
      use.ends = use.ends || ends;
    };
    trace_index(graph_, given_, op.operands[i].tensor, among, allow);
  }

  const OpGraph& graph_;
  std::vector<bool> given_;
  std::vector<Use> uses_;
};

// Distinct rows in pseudo-random order: a step that is coprime to the number of rows. After
// `period` of them, if that is not 0, or if there are more indices than rows, they repeat. `along`:
// how far indices along the axis lie apart, and how many they are; the others repeat them.
std::vector<std::byte> scattered_rows(DType dtype, std::uint64_t count, std::uint64_t rows,
                                      std::pair<std::uint64_t, std::uint64_t> along,
                                      std::uint64_t period, std::uint64_t seed) {
  std::vector<std::int64_t> values(count);
  if (rows > 0) {
    std::uint64_t step = random_bits(seed, 0) % rows | 1U;
    while (std::gcd(step, rows) != 1) ++step;
    step %= rows;
    std::uint64_t row = random_bits(seed, 1) % rows;
    std::vector<std::int64_t> axis(along.second);
    for (std::uint64_t i = 0; i < axis.size(); ++i) {
      const bool repeats = period != 0 && i >= period;
      axis[i] = repeats ? axis[i - period] : static_cast<std::int64_t>(row);
      row = row < rows - step ? row + step : row - (rows - step);
    }
    for (std::uint64_t i = 0; i < count; ++i) values[i] = axis[i / along.first % axis.size()];
  }
  return encode_integers(dtype, values);
}

// Ends of so many groups of rows that lie up to a quarter of a group from even ones; the last has
// all rows.
std::vector<std::byte> group_ends(DType dtype, std::uint64_t count, std::uint64_t rows,
                                  std::uint64_t seed) {
  std::vector<std::int64_t> ends(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t quarter = rows / count / 4;
    const std::uint64_t off = i + 1 < count ? random_bits(seed, i) % (2 * quarter + 1) : quarter;
    ends[i] = static_cast<std::int64_t>(rows * (i + 1) / count + off - quarter);
  }
  return encode_integers(dtype, ends);
}

// The largest power of two for which a sum of `depth` products is about as large as one factor.
double weight_range(std::uint64_t depth) {
  return std::exp2(std::floor(std::log2(std::sqrt(3 / static_cast<double>(depth)))));
}

InputData data_for(const Tensor& tensor, const Use& use, std::uint64_t period, std::uint64_t seed) {
  const DType dtype = tensor.type.dtype;
  InputData data{.fill = {.dtype = dtype, .low = -1, .high = 1, .seed = seed, .period = period}};
  const Precision& precision = precision_of(dtype);
  if (use.index) {
    // Limited to the indices that the dtype can represent.
    const double low = std::ceil(std::max(use.index->low, precision.lowest));
    const double high = std::floor(std::min(use.index->high, precision.highest));
    data.fill.low = is_float(dtype) ? use.index->low : low;
    data.fill.high = is_float(dtype) ? use.index->high : std::max(low, high) + 1;
    const auto last = static_cast<std::uint64_t>(std::max({0.0, low, high}));
    if (use.ends) data.data = group_ends(dtype, tensor.elements, last, seed);
    if (use.scattered && low == 0) {
      data.data = scattered_rows(dtype, tensor.elements, last + 1, *use.scattered, period, seed);
    }
    return data;
  }
  if (!is_float(dtype)) {
    data.fill.low = std::max(-8.0, precision.lowest);
    data.fill.high = 8;
    return data;
  }
  // A dtype with few bits would round most values near zero to zero.
  if (dtype == DType::kFp4E2m1) {
    data.fill.low = -4;
    data.fill.high = 4;
  } else if (use.depth > 3 && precision.unit <= 0x1p-8) {
    data.fill.high = weight_range(use.depth);
    data.fill.low = -data.fill.high;
  }
  return data;
}

// Whether a few samples of the results are finite in half precision.
class Trial {
 public:
  Trial(const OpGraph& graph, std::span<const TensorId> results)
      : graph_(graph), results_(results) {}

  bool passes(std::span<const GraphInput> inputs) const {
    const Reference reference(graph_, inputs);
    return std::ranges::all_of(results_, [&](TensorId id) { return passes(reference, id); });
  }

 private:
  static constexpr std::uint64_t kSamples = 32;
  static constexpr std::uint64_t kWork = std::uint64_t{1} << 25U;
  static constexpr double kLargest = 65504;

  bool passes(const Reference& reference, TensorId id) const {
    const std::uint64_t elements = graph_.tensor(id).elements;
    if (elements == 0) return true;
    // Fewer samples where each takes much work.
    for (std::uint64_t count = std::min(kSamples, elements); count > 0; count /= 4) {
      std::vector<std::uint64_t> samples(count);
      for (std::uint64_t i = 0; i < count; ++i) samples[i] = random_bits(id, i) % elements;
      const Answer answer = reference.evaluate(id, samples, kWork);
      if (!answer.reason.empty()) continue;
      return std::ranges::all_of(answer.elements, [](const Expected& expected) {
        return std::abs(expected.value) <= kLargest;
      });
    }
    return true;  // nothing is known
  }

  const OpGraph& graph_;
  std::span<const TensorId> results_;
};

bool may_turn_positive(const GraphInput& input) {
  const RandomFill& fill = input.data.fill;
  return is_float(*fill.dtype) && fill.low < 0;
}

void turn_positive(GraphInput& input) {
  input.data.fill.low = 0.25;
  input.data.fill.high = 1;
}

// Makes all inputs positive, then reverts them one by one while the results stay finite.
void keep_finite(const Trial& trial, std::vector<GraphInput>& inputs) {
  constexpr std::size_t kMostTrials = 16;
  if (trial.passes(inputs)) return;
  std::vector<std::size_t> candidates;
  std::vector<GraphInput> changed = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!may_turn_positive(inputs[i])) continue;
    candidates.push_back(i);
    turn_positive(changed[i]);
  }
  if (!trial.passes(changed)) return;
  if (candidates.size() <= kMostTrials) {
    for (const std::size_t i : candidates) {
      std::swap(changed[i], inputs[i]);
      if (!trial.passes(changed)) std::swap(changed[i], inputs[i]);
    }
  }
  inputs = std::move(changed);
}

}  // namespace

GraphPart whole_of(const OpGraph& graph) {
  GraphPart part;
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.view_of != kNone) continue;
    if (tensor.producer == kNone) part.given.push_back(id);
    if (tensor.producer != kNone && tensor.output) part.results.push_back(id);
  }
  return part;
}

GraphPart part_of(const OpGraph& graph, std::span<const OpId> ops) {
  const auto inside = [&](OpId id) { return std::ranges::find(ops, id) != ops.end(); };
  GraphPart part;
  for (const OpId id : ops) {
    for (const Operand& operand : graph.ops[id].operands) {
      if (operand.tensor == kNone) continue;
      const TensorId value = graph.tensor(operand.tensor).value;
      const bool known = std::ranges::find(part.given, value) != part.given.end();
      if (!known && !inside(graph.tensor(value).producer)) part.given.push_back(value);
    }
    for (const TensorId output : graph.ops[id].outputs) {
      const Tensor& tensor = graph.tensor(output);
      const bool read_outside =
          std::ranges::any_of(graph.readers[output], [&](OpId reader) { return !inside(reader); });
      if (tensor.output || read_outside) part.results.push_back(output);
    }
  }
  std::ranges::sort(part.given);
  return part;
}

std::vector<GraphInput> random_inputs(const OpGraph& graph, std::uint64_t seed) {
  return random_inputs(graph, whole_of(graph), seed);
}

std::vector<GraphInput> random_inputs(const OpGraph& graph, const GraphPart& part,
                                      std::uint64_t seed) {
  const Uses uses(graph, part);
  const Periods periods = find_periods(graph, part);
  std::vector<GraphInput> inputs;
  for (const TensorId id : part.given) {
    const std::uint64_t own_seed = random_bits(seed, id);
    const auto found = periods.find(id);
    const std::uint64_t period = found == periods.end() ? 0 : found->second;
    inputs.push_back(
        {.tensor = id, .data = data_for(graph.tensor(id), uses.of(id), period, own_seed)});
  }
  keep_finite(Trial(graph, part.results), inputs);
  return inputs;
}

}  // namespace fusecalc
