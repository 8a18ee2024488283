#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// The pointers that a kernel takes: one for each memory that its code touches, in the order in
// which they are first requested. Which of them are written is known once the last was requested.
class KernelParameters {
 public:
  explicit KernelParameters(const OpGraph& graph) : graph_(graph) {}

  // The pointer to a tensor's elements, as an expression.
  std::string input(TensorId tensor);
  std::string output(TensorId tensor);

  const std::vector<TensorId>& storages() const { return storages_; }
  std::string declarations() const;  // as parameters of a function
  std::string members() const;       // as members of a struct
  std::string arguments() const;     // their names

 private:
  const OpGraph& graph_;
  std::vector<TensorId> storages_;
  std::set<TensorId> written_;
};

}  // namespace fusecalc
