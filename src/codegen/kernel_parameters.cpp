#include "codegen/kernel_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/text.hpp"

namespace fusecalc {

std::string KernelParameters::input(TensorId tensor) {
  const TensorId storage = graph_.storage_of(tensor);
  auto found = std::ranges::find(storages_, storage);
  if (found == storages_.end()) found = storages_.insert(storages_.end(), storage);
  const std::string name = fmt::format("p{}", found - storages_.begin());
  const DType dtype = graph_.tensors[tensor].type.dtype;
  if (dtype == graph_.tensors[storage].type.dtype) return name;
  // A cast that drops the const of memory that is only read.
  return fmt::format("(({}*){})", stored_type(dtype), name);
}

std::string KernelParameters::output(TensorId tensor) {
  written_.insert(graph_.storage_of(tensor));
  return input(tensor);
}

// __restrict__ tells the compiler that loads may pass stores: not where a kernel works in place.
std::string KernelParameters::declarations() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const Tensor& tensor = graph_.tensors[storages_[i]];
    const bool written = written_.contains(storages_[i]);
    text += fmt::format("{}{}{}* {}p{}", i > 0 ? ", " : "", written ? "" : "const ",
                        stored_type(tensor.type.dtype), written ? "" : "__restrict__ ", i);
  }
  return text;
}

std::string KernelParameters::members() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    text += fmt::format("  {}{}* p{};\n", written_.contains(storages_[i]) ? "" : "const ",
                        stored_type(graph_.tensors[storages_[i]].type.dtype), i);
  }
  return text;
}

std::string KernelParameters::arguments() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    text += fmt::format("{}p{}", i > 0 ? ", " : "", i);
  }
  return text;
}

}  // namespace fusecalc
