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

// How the reference works. An evaluation goes over the ops twice: backwards, each op asks for the
// elements of its inputs that it needs for those of its outputs that were asked for; forwards, each
// computes them. So every element is computed once however many ops want it, nothing recurses, and
// the cost is known before anything is computed.
//
// Each element is computed in lanes. Lane 0 is exact (fp64, no rounding between ops). Each of the
// others disturbs every result at random, somewhat more than storing it in its type and computing
// it in fp32 may do. How far the lanes spread tells how far a right result may be from lane 0,
// cancellation, near ties and shared operands included.
inline constexpr std::size_t kLanes = 7;
using Lanes = std::array<double, kLanes>;

// The elements of a tensor that an evaluation needs.
class Samples {
 public:
  // The run's number, and whether it is a new one.
  std::pair<std::uint32_t, bool> add(const Run& run);
  std::span<const Run> runs() const { return runs_; }

  // Exact elements have lane 0 alone.
  void allocate(bool exact);
  void release();
  bool allocated() const { return allocated_; }
  bool exact() const { return exact_; }
  std::span<double> lane(std::size_t lane, std::uint32_t run) {
    return {values_.data() + (exact_ ? 0 : lane * elements_) + starts_[run], runs_[run].count};
  }

 private:
  struct Hash {
    std::size_t operator()(const Run& run) const;
  };
  std::unordered_map<Run, std::uint32_t, Hash> numbers_;
  std::vector<Run> runs_;
  std::vector<std::uint64_t> starts_;
  std::uint64_t elements_ = 0;
  std::vector<double> values_;
  bool exact_ = false;
  bool allocated_ = false;
};

class EvaluationStep;

// What never changes: the graph and what its inputs hold, by tensor. A tensor that is given is not
// computed, even where an op would.
struct ReferenceInputs {
  const OpGraph& graph;
  std::vector<const InputData*> data;
};

class Evaluation {
 public:
  // `work` is what it may still do; nested evaluations share it. Sums and means of more than
  // `most_terms` are estimated from so many.
  Evaluation(const ReferenceInputs& inputs, std::uint64_t& work,
             std::uint64_t most_terms = kMaxCount, unsigned depth = 0);
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  // All lanes of elements of a tensor. Throws Error where that cannot be had. Once per evaluation.
  std::vector<Lanes> run(TensorId tensor, std::span<const std::uint64_t> elements);

  // Whether sums were estimated, and whether that could be done at all.
  bool estimated() const { return estimated_; }
  bool could_estimate() const { return could_estimate_; }

  // For the steps.
  const OpGraph& graph() const { return inputs_.graph; }
  Samples* samples(TensorId tensor) { return samples_[tensor].get(); }
  bool given(TensorId tensor) const { return inputs_.data[tensor] != nullptr; }
  // The samples of a tensor that is read; `fresh` tells that nobody asked before.
  Samples& wanted(TensorId tensor, bool& fresh);
  void fill_input(TensorId tensor);
  // The places of a sum's terms to look at; empty where it is all of them.
  std::vector<std::uint64_t> sampled_terms(std::uint64_t terms, std::uint64_t seed);
  // Counts scalar operations; throws where they are too many.
  void charge(std::uint64_t operations);
  // That of having one element of a tensor.
  std::uint64_t work_of(TensorId tensor) const;
  // Follows views down to the tensor that is stored. `sources` are elements of the tensor.
  TensorId through_views(TensorId tensor, std::vector<Repeated>& sources);
  // Whole numbers that decide what is read, so that they are needed ahead of everything else.
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
  std::unordered_map<TensorId, IndexMap> view_maps_;
};

// How far the lanes are from the exact one, as a root mean square; infinite where a lane does not
// even know the kind of number.
double spread_of(const Lanes& lanes);

// One op's part in an evaluation: the base of the families of ops.
class EvaluationStep {
 public:
  EvaluationStep(Evaluation& evaluation, const Op& op) : evaluation_(evaluation), op_(op) {}
  virtual ~EvaluationStep() = default;
  EvaluationStep(const EvaluationStep&) = delete;
  EvaluationStep& operator=(const EvaluationStep&) = delete;

  virtual void ask() = 0;
  virtual void compute() = 0;
  // Forgets what no earlier step asked for.
  void release_inputs();

 protected:
  // A list of elements asked for, by its number.
  using Request = std::uint32_t;
  static constexpr std::size_t kMaxOperands = 8;

  Evaluation& evaluation() { return evaluation_; }
  const Op& op() const { return op_; }
  const OpGraph& graph() const { return evaluation_.graph(); }
  const Tensor& operand(std::size_t i) const { return graph().tensor(op_.operands[i].tensor); }
  const Tensor& output(std::size_t i = 0) const { return graph().tensor(op_.outputs[i]); }
  // Null where nobody wants that output computed.
  Samples* wanted(std::size_t output = 0) {
    if (output >= op_.outputs.size() || evaluation_.given(op_.outputs[output])) return nullptr;
    return evaluation_.samples(op_.outputs[output]);
  }

  // Backwards. Runs of operand i make a request; more of them may be added to the last one.
  Request request(std::size_t i, std::span<const Run> runs);
  void add_to_request(std::size_t i, std::span<const Run> runs);
  Request request_mapped(std::size_t i, const IndexMap& map, const Run& run);

  // Forwards. The values of a request, in order; valid until `scratch` or the samples change.
  std::span<const double> values(Request request, std::size_t lane, std::vector<double>& scratch);
  bool exact(Request request);

  // Stores element k of a run: as its type holds it, disturbed by `rounding` in the lanes.
  void store(std::size_t output, std::uint32_t run, std::uint64_t k, const Lanes& lanes,
             double rounding);
  // What computing in fp32 (fp64 for f64) and storing does to such a value.
  double rounding_of(std::size_t output, double value) const;
  double arithmetic_unit(std::size_t output = 0) const;
  // By how much the mean of some terms misses that of all, typically.
  static double sampling_error(std::span<const double> terms, std::uint64_t population);
  // The error of adding up `terms` numbers whose magnitudes come to `magnitude`.
  double summing_error(std::uint64_t terms, double magnitude, std::size_t output = 0) const;

 private:
  struct Piece {
    TensorId tensor;
    std::uint32_t run;
    std::uint64_t times;
  };
  void add_pieces(TensorId tensor, std::vector<Repeated>& sources);

  Evaluation& evaluation_;
  const Op& op_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> ends_;
  std::vector<TensorId> releases_;
  std::vector<Repeated> sources_;
};

// A number as a type holds it: integers towards zero and within their range, bools 0 or 1. Floats
// are left alone.
double stored_as(DType dtype, double value);

// The step of an op. Throws Error for a custom op, which has no meaning here.
std::unique_ptr<EvaluationStep> make_step(Evaluation& evaluation, const Op& op);

}  // namespace fusecalc
