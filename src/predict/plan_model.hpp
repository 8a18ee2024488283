#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "predict/kernel_model.hpp"
#include "predict/l2_model.hpp"

namespace fusecalc {

// Predicts a plan whose kernels run back to back, from a cold L2: what one kernel leaves in the L2
// serves the next ones.
class PlanModel {
 public:
  // `kernels`: how many there will be.
  PlanModel(const OpGraph& graph, const Device& device, std::size_t kernels);

  // Adds the next kernel, by what it has to do when it runs alone.
  void add(const KernelTraffic& traffic, const KernelWork& alone);
  // Of the kernels so far; never less than before.
  double time_us() const { return plan_.time_us; }
  Prediction prediction() const;

 private:
  // When a tensor was last read or written.
  struct Touch {
    double moved_after = -1;  // bytes that all kernels up to that one moved; negative: never
    double kernel_bytes = 0;  // that one alone
    double covered = 0;       // bytes that all of them touched, of different parts at best
  };

  Touch& touch_of(TensorId tensor);
  // The share of what is read that the L2 may have, if it was touched, and when.
  std::pair<double, Touch> last_touch(TensorId tensor);
  void touch(const KernelTraffic::Entry& entry, double kernel_bytes);
  KernelWork after_others(const KernelTraffic& traffic, const KernelWork& alone);

  const OpGraph& graph_;
  const Device& device_;
  L2Model l2_;
  double moved_ = 0;  // bytes
  // Of parts that views show, and of whole tensors. A plan may have few kernels of a large graph:
  // then nothing here takes more time the larger the graph is.
  std::vector<Touch> touches_;
  std::unordered_map<TensorId, Touch> few_touches_;
  std::size_t kernels_ = 0;
  Prediction plan_;  // sums
  std::array<double, 5> bound_us_{};
};

}  // namespace fusecalc
