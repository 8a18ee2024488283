#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "measure/inputs.hpp"
#include "reference/reference.hpp"

namespace fusecalc {

// Whether results are correct.
//
// A result may differ from the fp64 reference by the roundings on the way to it: each expected
// element has its own `allowed` error, from the rounding error that the reference estimates. The
// relative error of an element is its error over `allowed`, times the tolerance of its dtype, which
// is the error of storing and computing in that dtype alone. So for an element without other errors
// it is the error over its magnitude, where terms cancel it is the error over the magnitude of the
// terms, and it is within the tolerance exactly if the error is allowed. Integers and bools must be
// equal; where ties and discontinuities lie within the rounding error, either side is correct.
struct Verification {
  double max_rel_err = 0;  // infinite if an infinity or a NaN is misplaced
  double tolerance = 0;    // of the dtype of the tensor with that error
  bool ok = true;
  std::uint64_t checked = 0;             // elements compared with the reference or another plan
  std::string worst{};                   // if not ok: the element and both values
  bool complete = true;                  // whether the reference covers every result
  std::vector<std::string> unchecked{};  // what could not be checked, and why
};

// The tolerance of a dtype.
double tolerance_of(DType dtype);

// The allowed error of each element. Infinite where nothing is known of it.
std::vector<double> allowed_errors(std::span<const Expected> expected, DType dtype);

// The expected values of a result at sampled elements.
struct ExpectedOutput {
  TensorId tensor = kNone;
  std::vector<std::uint64_t> elements{};
  Answer answer{};
  std::vector<double> allowed{};
  bool covered = true;         // whether the samples include elements that the op computes
  bool discontinuous = false;  // roundings may change single elements by any amount
  double roundings = 0;        // errors of all ops on the longest path to it
};

// Compares the results of plans, or of a single kernel, with the reference, and those of two plans
// with each other. For a deep graph the reference takes too much work; its kernels, each with its
// own input data (part_of), do not.
class Verifier {
 public:
  // Evaluates the reference, for up to `samples` elements of each result and fewer where it takes
  // too much work. The graph and the inputs must outlive it.
  Verifier(const OpGraph& graph, std::span<const GraphInput> inputs,
           std::span<const TensorId> results, std::uint64_t seed, std::uint64_t samples = 64,
           std::uint64_t work = kReferenceWork);

  // The memory of a result; each buffer starts with the tensor.
  using Places = std::function<BufferAt(TensorId result)>;

  // Compares sampled elements of all results with the reference.
  Verification check(GpuBackend& gpu, const Places& places) const;
  // Compares all elements of all results with those of another plan, which has passed check().
  Verification compare(GpuBackend& gpu, const Places& places, const Places& others) const;

  std::span<const ExpectedOutput> outputs() const { return outputs_; }

 private:
  // The allowed difference of two correct plans; empty if no bound is known.
  std::optional<Allowance> allowance_for(const ExpectedOutput& output) const;
  Allowance coarse_allowance(GpuBackend& gpu, const ExpectedOutput& output, const BufferAt& ours,
                             const BufferAt& theirs) const;

  // Whether roundings decide if an element is a number: it is the root of what may be negative.
  bool undecided(const ExpectedOutput& output, std::uint64_t element) const;

  const OpGraph& graph_;
  Reference reference_;
  std::vector<ExpectedOutput> outputs_;
};

// Copies an input's data to the device.
void place_input(GpuBackend& gpu, const GraphInput& input, const BufferAt& place);

// Compares a part of a graph, such as a kernel, with the reference, on random data of its own. The
// graph must outlive it.
class PartVerifier {
 public:
  PartVerifier(const OpGraph& graph, GraphPart part, std::uint64_t seed);

  // `place` puts an input in its place, and `work` launches the part; each buffer starts with the
  // tensor.
  Verification check(GpuBackend& gpu, const Verifier::Places& places,
                     const std::function<void(const GraphInput&)>& place, const Work& work) const;

 private:
  GraphPart part_;
  std::vector<GraphInput> inputs_;
  Verifier verifier_;
};

// The worse of two results, for a plan that was checked in more than one way.
Verification worse_of(Verification a, Verification b);

}  // namespace fusecalc
