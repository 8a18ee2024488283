#pragma once

#include <span>
#include <vector>

#include "predict/kernel_work.hpp"
#include "predict/product_model.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {

// A kernel's bytes, and what it has to do.
struct CountedKernel {
  KernelTraffic traffic;
  KernelWork work;
};

// Predicts kernels of one graph on one device, alone and from a cold L2.
class KernelModel {
 public:
  // `lone_ops`, where they are known: of each op, the kernel that holds it alone.
  explicit KernelModel(TrafficCounter& counter,
                       const std::vector<CountedKernel>* lone_ops = nullptr);

  // Valid until the next call.
  const CountedKernel& count(const Kernel& kernel);
  // `traffic` is the counter's for this kernel.
  KernelWork work_of(const Kernel& kernel, const KernelTraffic& traffic);

 private:
  double access_instructions(const KernelTraffic& traffic, double& space) const;
  double scattered_elements(const Op& op) const;
  KernelWork streaming_work(const Kernel& kernel, const KernelTraffic& traffic);
  void add_reads_of_passes(const Kernel& kernel, const KernelTraffic& traffic,
                           const RowLayout& rows, KernelWork& work) const;
  ProductKernel product_of(const Op& op, const KernelTraffic& traffic,
                           std::span<const OpId> others = {}) const;
  void add_prologue(const Kernel& kernel, OpId id, ProductKernel& product) const;
  KernelWork siblings_work(const std::vector<Kernel>& parts, const std::vector<OpId>& products,
                           const KernelTraffic& traffic);
  KernelWork product_work(const Kernel& kernel, OpId id, const KernelTraffic& traffic);
  KernelWork faster(const KernelWork& library, const KernelWork& own) const;
  KernelWork unknown_work(const KernelTraffic& traffic) const;
  double instructions_of(const Kernel& kernel, OpId except) const;
  double special_functions_of(const Kernel& kernel) const;
  double f64_instructions_of(const Kernel& kernel) const;

  TrafficCounter& counter_;
  const OpGraph& graph_;
  const Device& device_;
  const DeviceConstants& constants_;
  ProductModel products_;
  const std::vector<CountedKernel>* lone_ops_;
  CountedKernel counted_;
};

}  // namespace fusecalc
