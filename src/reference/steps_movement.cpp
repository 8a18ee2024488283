// Movement ops whose source depends on the position or on indices. Nothing is rounded.

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "graph/axis.hpp"
#include "reference/movement_step.hpp"
#include "reference/steps.hpp"

namespace fusecalc {

void MovementStep::request_inputs() {
  prepare();
  std::vector<std::uint64_t> elements;
  for (const StridedRange& range : wanted()->ranges()) {
    request(0, {});
    for (std::uint64_t k = 0; k < range.count;) {
      const std::size_t from = source_of(range.first + k * range.step).operand;
      elements.clear();
      for (; k < range.count; ++k) {
        const Source source = source_of(range.first + k * range.step);
        if (source.operand != from) break;
        elements.push_back(source.element);
      }
      add_to_request(from, ranges_of(elements));
    }
  }
  request_others();
}

void MovementStep::compute() {
  Samples& results = *wanted();
  bool all_exact = others_.empty();
  for (Request r = 0; r < results.ranges().size(); ++r) all_exact = all_exact && exact(r);
  // An output may be declared to be narrower than what is moved.
  const DType moved_type = value_type();
  const DType type = output().type.dtype;
  const bool keeps = !is_float(type) || type == moved_type;
  results.allocate(all_exact && keeps);
  std::vector<double> scratch;
  std::vector<Lanes> moved;
  for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
    moved.resize(results.ranges()[range].count);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::span<const double> in = values(range, lane, scratch);
      for (std::size_t k = 0; k < moved.size(); ++k) moved[k][lane] = in[k];
    }
    for (std::size_t k = 0; k < moved.size(); ++k) {
      const auto others = others_.find({range, k});
      if (others != others_.end()) spread(moved[k], others->second);
      store(0, range, k, moved[k], keeps ? 0 : rounding_of(0, moved[k][0]));
    }
  }
}

std::size_t MovementStep::axis(std::size_t rank) const { return axis_of(op(), rank); }

void MovementStep::request_others() {
  const std::span<const StridedRange> ranges = wanted()->ranges();
  for (std::uint32_t range = 0; range < ranges.size(); ++range) {
    for (std::uint64_t k = 0; k < ranges[range].count; ++k) {
      const auto others = others_of(ranges[range].first + k * ranges[range].step);
      if (!others.empty()) others_[{range, k}] = request(2, ranges_of(others));
    }
  }
}

// Every other lane takes the value that is farthest from the expected one, so that the error that
// the lanes estimate covers all of them.
void MovementStep::spread(Lanes& lanes, Request others) {
  std::vector<double> scratch;
  const std::span<const double> exact = values(others, 0, scratch);
  std::size_t farthest = 0;
  for (std::size_t i = 1; i < exact.size(); ++i) {
    if (std::abs(exact[i] - lanes[0]) > std::abs(exact[farthest] - lanes[0])) farthest = i;
  }
  for (std::size_t lane = 1; lane < kLanes; lane += 2) {
    lanes[lane] = values(others, lane, scratch)[farthest];
  }
}

namespace {

class ConcatStep final : public MovementStep {
 public:
  ConcatStep(Evaluation& evaluation, const Op& op) : MovementStep(evaluation, op) {
    const Shape& shape = output().type.shape;
    const std::size_t along = axis(shape.size());
    inner_ = elements_between(shape, along + 1, shape.size());
    extent_ = shape[along];
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      extents_.push_back(operand(i).type.shape[along]);
    }
  }

 private:
  Source source_of(std::uint64_t element) const override {
    const std::uint64_t outer = element / inner_ / extent_;
    std::uint64_t place = element / inner_ % extent_;
    std::size_t from = 0;
    while (place >= extents_[from]) place -= extents_[from++];
    return {from, (outer * extents_[from] + place) * inner_ + element % inner_};
  }
  DType value_type() const override {
    // Mixed types are promoted, which keeps every value.
    return output().type.dtype;
  }

  std::uint64_t inner_ = 1;
  std::uint64_t extent_ = 1;
  std::vector<std::uint64_t> extents_;
};

class GatherStep final : public MovementStep {
 public:
  GatherStep(Evaluation& evaluation, const Op& op)
      : MovementStep(evaluation, op),
        table_at_(table_input(op.row->family, operand(0).type.dtype, operand(1).type.dtype)),
        table_(operand(table_at_).type.shape,
               op.row->family == OpFamily::kEmbedding ? 0 : axis(operand(0).type.shape.size()),
               operand(1 - table_at_).elements) {}

 private:
  void prepare() override {
    std::vector<std::uint64_t> needed;
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t index = (range.first + k * range.step) / table_.inner % table_.indices;
        if (needed.empty() || needed.back() != index) needed.push_back(index);
      }
    }
    std::ranges::sort(needed);
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    const auto rows =
        evaluation().indices(op().operands[1 - table_at_].tensor, needed, table_.rows);
    for (std::size_t i = 0; i < needed.size(); ++i) row_at_[needed[i]] = rows[i];
  }

  Source source_of(std::uint64_t element) const override {
    const std::uint64_t outer = element / table_.inner / table_.indices;
    const std::uint64_t row = row_at_.at(element / table_.inner % table_.indices);
    return {table_at_, (outer * table_.rows + row) * table_.inner + element % table_.inner};
  }
  DType value_type() const override { return operand(table_at_).type.dtype; }

  std::size_t table_at_;
  Table table_;
  std::unordered_map<std::uint64_t, std::uint64_t> row_at_;
};

}  // namespace

std::unique_ptr<EvaluationStep> concat_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<ConcatStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> gather_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<GatherStep>(evaluation, op);
}

}  // namespace fusecalc
