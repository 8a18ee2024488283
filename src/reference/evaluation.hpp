#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/checked.hpp"
#include "graph/op_graph.hpp"
#include "reference/index_map.hpp"
#include "reference/random.hpp"

namespace fusecalc {

// How the reference works. An evaluation visits the ops twice: backwards, each op requests the
// elements of its inputs that its requested outputs depend on; forwards, each op computes them. So
// every element is computed once no matter how many ops use it, nothing recurses, and the cost is
// known before anything is computed.
//
// Each element is computed in lanes. Lane 0 is exact (fp64, no rounding between ops). Each other
// lane perturbs every result at random, by somewhat more than storing it in its dtype and computing
// it in fp32 may do. The deviation of the lanes from lane 0 estimates the rounding error of a
// correct result, including cancellation, near ties and shared operands.
inline constexpr std::size_t kLanes = 7;
using Lanes = std::array<double, kLanes>;

// The elements of a tensor that an evaluation needs.
class Samples {
 public:
  // The range's number, and whether it is new.
  std::pair<std::uint32_t, bool> add(const StridedRange& range);
  std::span<const StridedRange> ranges() const { return ranges_; }

  // Exact elements have only lane 0.
  void allocate(bool exact);
  void release();
  bool allocated() const { return allocated_; }
  bool exact() const { return exact_; }
  std::span<double> lane(std::size_t lane, std::uint32_t range) {
    return {values_.data() + (exact_ ? 0 : lane * elements_) + starts_[range],
            ranges_[range].count};
  }

 private:
  struct Hash {
    std::size_t operator()(const StridedRange& range) const;
  };
  std::unordered_map<StridedRange, std::uint32_t, Hash> numbers_;
  std::vector<StridedRange> ranges_;
  std::vector<std::uint64_t> starts_;
  std::uint64_t elements_ = 0;
  std::vector<double> values_;
  bool exact_ = false;
  bool allocated_ = false;
};

class EvaluationStep;

// The constant inputs of an evaluation: the graph and the data of its inputs, by tensor. A tensor
// with data is not computed, even if an op produces it.
struct ReferenceInputs {
  const OpGraph& graph;
  std::vector<const InputData*> data;
};

class Evaluation {
 public:
  // `work` is the remaining budget of scalar operations, shared with nested evaluations. Sums and
  // means of more than `most_terms` terms are estimated from that many.
  Evaluation(const ReferenceInputs& inputs, std::uint64_t& work,
             std::uint64_t most_terms = kMaxCount, unsigned depth = 0);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  // All lanes of elements of a tensor. Throws Error if they cannot be computed. Call it once.
  std::vector<Lanes> evaluate(TensorId tensor, std::span<const std::uint64_t> elements);

  // Whether sums were estimated, and whether any sum is long enough to be.
  bool estimated() const { return estimated_; }
  bool could_estimate() const { return could_estimate_; }

  // For EvaluationStep.
  const OpGraph& graph() const { return inputs_.graph; }
  Samples* samples(TensorId tensor) { return samples_[tensor].get(); }
  bool given(TensorId tensor) const { return inputs_.data[tensor] != nullptr; }
  // The samples of a tensor that is read; `fresh` is set if this is the first request for it.
  Samples& wanted(TensorId tensor, bool& fresh);
  void fill_input(TensorId tensor);
  // Indices of the terms of a sum to sample; empty if all of them are used.
  std::vector<std::uint64_t> sampled_terms(std::uint64_t terms, std::uint64_t seed);
  // Counts scalar operations; throws if the budget is exceeded.
  void charge(std::uint64_t operations);
  // The work for one element of a tensor.
  std::uint64_t work_of(TensorId tensor) const;
  // Follows views to the tensor that is stored. `sources` are elements of the tensor.
  TensorId through_views(TensorId tensor, std::vector<Repeated>& sources);
  // Values of an index tensor: they determine what is read, so they are evaluated first.
  std::vector<std::uint64_t> indices(TensorId tensor, std::span<const std::uint64_t> elements,
                                     std::uint64_t below);

 private:
  const ReferenceInputs& inputs_;
  std::uint64_t& work_;
  std::uint64_t most_terms_;
  unsigned depth_;
  bool estimated_ = false;
  bool could_estimate_ = false;
  std::vector<std::unique_ptr<Samples>> samples_;
  std::unordered_map<TensorId, std::vector<IndexMap>> view_maps_;
};

// The root mean square deviation of the lanes from lane 0; infinite if a lane differs in being
// finite, infinite or NaN.
double rms_deviation(const Lanes& lanes);

// The evaluation of one op: the base class of one step per op family.
class EvaluationStep {
 public:
  EvaluationStep(Evaluation& evaluation, const Op& op) : evaluation_(evaluation), op_(op) {}
  virtual ~EvaluationStep() = default;
  EvaluationStep(const EvaluationStep&) = delete;
  EvaluationStep& operator=(const EvaluationStep&) = delete;

  virtual void request_inputs() = 0;
  virtual void compute() = 0;
  // Frees the samples that no earlier step requested.
  void release_inputs();

 protected:
  // The number of a list of requested elements.
  using Request = std::uint32_t;
  static constexpr std::size_t kMaxOperands = 8;

  Evaluation& evaluation() { return evaluation_; }
  const Op& op() const { return op_; }
  const OpGraph& graph() const { return evaluation_.graph(); }
  const Tensor& operand(std::size_t i) const { return graph().tensor(op_.operands[i].tensor); }
  const Tensor& output(std::size_t i = 0) const { return graph().tensor(op_.outputs[i]); }
  // Null if that output is not needed.
  Samples* wanted(std::size_t output = 0) {
    if (output >= op_.outputs.size() || evaluation_.given(op_.outputs[output])) return nullptr;
    return evaluation_.samples(op_.outputs[output]);
  }

  // Backwards. Ranges of operand i form a request; more can be added to the last one.
  Request request(std::size_t i, std::span<const StridedRange> ranges);
  void add_to_request(std::size_t i, std::span<const StridedRange> ranges);
  Request request_mapped(std::size_t i, const IndexMap& map, const StridedRange& range);

  // Forwards. The values of a request, in order; valid until `scratch` or the samples change.
  std::span<const double> values(Request request, std::size_t lane, std::vector<double>& scratch);
  bool exact(Request request);

  // Stores element k of a range: as its dtype holds it, perturbed by `rounding` in lanes 1 and up.
  void store(std::size_t output, std::uint32_t range, std::uint64_t k, const Lanes& lanes,
             double rounding);
  // The error of computing such a value in fp32 (fp64 for f64) and storing it.
  double rounding_of(std::size_t output, double value) const;
  double arithmetic_unit(std::size_t output = 0) const;
  // The standard error of the mean of sampled terms.
  static double sampling_error(std::span<const double> terms, std::uint64_t population);
  // The error of adding up `terms` numbers whose magnitudes add up to `magnitude`.
  double summing_error(std::uint64_t terms, double magnitude, std::size_t output = 0) const;
  // What comes on top for products of 8-bit floats, whose sums tensor cores keep in fewer bits.
  double narrow_sum_error(std::uint64_t terms, double magnitude) const;

 private:
  struct RequestedRange {
    TensorId tensor;
    std::uint32_t range;
    std::uint64_t times;
  };
  void add_ranges(TensorId tensor, std::vector<Repeated>& sources);

  Evaluation& evaluation_;
  const Op& op_;
  std::vector<RequestedRange> requested_;
  std::vector<std::uint32_t> ends_;
  std::vector<TensorId> releases_;
  std::vector<Repeated> sources_;
};

// A number as a dtype holds it once kernels have computed and stored it. Integers are truncated and
// clamped to the range of what they are computed in, i64 or i32, of which narrower ones keep the
// low bits; bools are 0 or 1. Floats are not changed.
double stored_as(DType dtype, double value);
// A whole number of which an integer type keeps its low bits.
double wrapped_to(DType dtype, double value);
// The same, of a number whose low 64 bits are these.
double wrapped_to(DType dtype, std::uint64_t bits);

// The step of an op. Throws Error for a custom op, whose semantics are unknown.
std::unique_ptr<EvaluationStep> make_step(Evaluation& evaluation, const Op& op);

}  // namespace fusecalc
