#include "compare/surroundings.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/hash.hpp"

namespace fusecalc {
namespace {

std::vector<OpInGraph> names_of_ops(const ResultDocument& document) {
  std::vector<OpInGraph> ops;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const PlanFigures& plan : document.plans) {
    for (const KernelFigures& kernel : plan.kernels) {
      for (const std::string& name : kernel.ops) {
        const auto [place, fresh] = places.try_emplace(name, ops.size());
        if (fresh) ops.push_back({.name = name});
        OpInGraph& op = ops[place->second];
        if (kernel.ops.size() == 1 && op.alone == nullptr) op.alone = &kernel;
      }
    }
  }
  return ops;
}

using Links = std::vector<std::vector<std::size_t>>;  // of every op, by its index

// Those that write what each op reads.
Links producers_of(const std::vector<OpInGraph>& ops) {
  std::unordered_map<std::string_view, std::vector<std::size_t>> writers;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].alone == nullptr) continue;
    for (const auto& [tensor, bytes] : ops[i].alone->writes) writers[tensor].push_back(i);
  }
  Links producers(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].alone == nullptr) continue;
    for (const auto& [tensor, bytes] : ops[i].alone->reads) {
      const auto found = writers.find(tensor);
      if (found == writers.end()) continue;
      // An op that updates a tensor where it lies also writes what it reads.
      std::ranges::copy_if(found->second, std::back_inserter(producers[i]),
                           [&](std::size_t writer) { return writer != i; });
    }
  }
  return producers;
}

std::uint64_t combined(std::uint64_t own, std::vector<std::uint64_t> others) {
  std::ranges::sort(others);
  for (const std::uint64_t other : others) own = hash_of(std::to_string(other) + ' ', own);
  return own;
}

void spread(std::vector<OpInGraph>& ops, const Links& links,
            std::array<std::uint64_t, kReach + 1> OpInGraph::*hashes) {
  for (std::size_t d = 1; d <= kReach; ++d) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      std::vector<std::uint64_t> others;
      for (const std::size_t other : links[i]) others.push_back((ops[other].*hashes)[d - 1]);
      (ops[i].*hashes)[d] = combined((ops[i].*hashes)[0], std::move(others));
    }
  }
}

}  // namespace

std::string structure_of(const KernelFigures& kernel) {
  if (!kernel.bytes) return "";
  std::string text = std::to_string(kernel.ops.size()) + '\n' + std::to_string(*kernel.bytes);
  for (const TensorBytes* side : {&kernel.reads, &kernel.writes}) {
    std::vector<std::uint64_t> bytes;
    for (const auto& [name, moved] : *side) bytes.push_back(moved);
    std::ranges::sort(bytes, std::greater<>());
    text += '\f';
    for (const std::uint64_t moved : bytes) (text += std::to_string(moved)) += '\n';
  }
  return text;
}

std::vector<OpInGraph> ops_of(const ResultDocument& document, const ResultDocument& other) {
  std::vector<OpInGraph> ops = names_of_ops(document);
  const Links producers = producers_of(ops);
  Links users(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const std::size_t producer : producers[i]) users[producer].push_back(i);
    ops[i].has_operands = !producers[i].empty();
    if (ops[i].alone == nullptr) continue;
    std::string own = structure_of(*ops[i].alone);
    for (const auto& [tensor, bytes] : ops[i].alone->reads) {
      if (!document.inputs.contains(tensor) || !other.inputs.contains(tensor)) continue;
      own += '\f' + tensor;
      ops[i].has_operands = true;
    }
    ops[i].from[0] = ops[i].to[0] = hash_of(own);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].has_uses = !users[i].empty();
  spread(ops, producers, &OpInGraph::from);
  spread(ops, users, &OpInGraph::to);
  return ops;
}

}  // namespace fusecalc
