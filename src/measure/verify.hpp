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

// Whether results are right.
//
// A result may be as far from the fp64 reference as roundings on the way to it can bring it: each
// expected element has its own `allowed` error, from the spread that the reference found. The
// relative error of an element is its error over `allowed`, times the tolerance of its type, which
// is what storing and computing in that type may do to a number that nothing else has disturbed. So
// for such a number it is the error over the magnitude, where terms cancel it is the error over
// theirs, and it is within the tolerance exactly where the error is allowed. Integers and bools are
// right or wrong; where ties and jumps lie within the roundings, either side is right.
struct Verification {
  double max_rel_err = 0;  // infinite where an infinity or what is no number is out of place
  double tolerance = 0;    // of the type of the tensor that has it
  bool ok = true;
  std::uint64_t checked = 0;             // elements held against the reference or a plan
  std::string worst{};                   // where not ok: the place and both values
  bool complete = true;                  // whether the reference told of every result
  std::vector<std::string> unchecked{};  // what could not be checked, and why
};

// The tolerance of a type.
double tolerance_of(DType dtype);

// How far off each element may be. Infinite where nothing is known of it.
std::vector<double> allowed_errors(std::span<const Expected> expected, DType dtype);

// What a result should be, and where it was looked at.
struct ExpectedOutput {
  TensorId tensor = kNone;
  std::vector<std::uint64_t> elements{};
  Answer answer{};
  std::vector<double> allowed{};
  bool telling = true;    // whether the samples see what was computed
  bool may_jump = false;  // roundings may move single elements by any amount
  unsigned depth = 1;     // ops on the longest way to it
};

// Holds the results of plans, or of a kernel run alone, against the reference, and those of two
// plans against one another. A deep graph takes too much work as a whole; its kernels, each from
// data of its own (part_of), do not.
class Verifier {
 public:
  // Evaluates the reference, for up to `samples` elements of each result and fewer where it takes
  // too much work. The graph must outlive it.
  Verifier(const OpGraph& graph, std::span<const GraphInput> inputs,
           std::span<const TensorId> results, std::uint64_t seed, std::uint64_t samples = 64,
           std::uint64_t work = kReferenceWork);

  // Where a plan has left a result; each buffer holds the tensor from its start.
  using Places = std::function<BufferAt(TensorId result)>;

  // Sampled elements of all results against the reference.
  Verification check(GpuBackend& gpu, const Places& places) const;
  // All elements of all results against those of another plan, which has passed check().
  Verification compare(GpuBackend& gpu, const Places& places, const Places& others) const;

  std::span<const ExpectedOutput> outputs() const { return outputs_; }

 private:
  // How far two right plans may be apart; nothing where no bound is known.
  std::optional<Allowance> allowance_for(const ExpectedOutput& output) const;
  Allowance coarse_allowance(GpuBackend& gpu, const ExpectedOutput& output, const BufferAt& ours,
                             const BufferAt& theirs) const;

  const OpGraph& graph_;
  std::vector<ExpectedOutput> outputs_;
};

// Puts an input's data where it belongs.
void place_input(GpuBackend& gpu, const GraphInput& input, const BufferAt& place);

// Holds a part of a graph, a kernel say, that runs from random data of its own against the
// reference. The graph must outlive it.
class PartVerifier {
 public:
  PartVerifier(const OpGraph& graph, GraphPart part, std::uint64_t seed);

  // `work` launches it; the buffer of each tensor begins at its place.
  Verification check(GpuBackend& gpu, const Verifier::Places& places, const Work& work) const;

 private:
  GraphPart part_;
  std::vector<GraphInput> inputs_;
  Verifier verifier_;
};

// The worse of two: for a plan that was checked in more than one way.
Verification worse_of(Verification a, Verification b);

}  // namespace fusecalc
