#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "reference/evaluation.hpp"

namespace fusecalc {

// The evaluation of an op that moves elements of its operands to other places: a base class that
// asks where each element comes from.
class MovementStep : public EvaluationStep {
 public:
  using EvaluationStep::EvaluationStep;

  void request_inputs() override;
  void compute() override;

 protected:
  // An element of one of the operands.
  struct Source {
    std::size_t operand = 0;
    std::uint64_t element = 0;
  };

  // Evaluates what source_of() depends on.
  virtual void prepare() {}
  virtual Source source_of(std::uint64_t element) const = 0;
  // Elements of operand 2 any of which may be there instead.
  virtual std::vector<std::uint64_t> others_of(std::uint64_t /*element*/) const { return {}; }
  virtual DType value_type() const { return operand(0).type.dtype; }

  // The axis that a single-axis attribute names.
  std::size_t axis(std::size_t rank) const;

 private:
  void request_others();
  void spread(Lanes& lanes, Request others);

  std::map<std::pair<std::uint32_t, std::uint64_t>, Request> others_;
};

// The rows of a table along an axis, and the indices in place of that axis.
struct Table {
  std::uint64_t rows = 1;
  std::uint64_t inner = 1;    // elements within a row's step
  std::uint64_t indices = 1;  // how many

  Table(const Shape& shape, std::size_t axis, std::uint64_t index_count)
      : rows(shape[axis]),
        inner(elements_between(shape, axis + 1, shape.size())),
        indices(index_count) {}
};

}  // namespace fusecalc
