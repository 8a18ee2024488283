#include "compare/match.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace fusecalc;

namespace {

KernelFigures kernel(const std::vector<std::string>& ops, const TensorBytes& reads = {},
                     const TensorBytes& writes = {}) {
  KernelFigures figures;
  for (const std::string& op : ops) figures.name += (figures.name.empty() ? "" : "+") + op;
  figures.ops = ops;
  figures.lists_tensors = !reads.empty() || !writes.empty();
  figures.reads = reads;
  figures.writes = writes;
  return figures;
}

ResultDocument document(const std::vector<KernelFigures>& kernels) {
  ResultDocument result;
  PlanFigures plan;
  plan.name = "auto";
  plan.kernels = kernels;
  result.plans.push_back(plan);
  for (const KernelFigures& kernel : kernels) {
    for (const auto& read : kernel.reads) {
      const bool is_written = std::ranges::any_of(
          kernels, [&](const KernelFigures& other) { return other.writes.contains(read.first); });
      if (!is_written) result.inputs[read.first] = {};
    }
  }
  return result;
}

std::string numbers(const std::vector<std::size_t>& values) {
  std::string text;
  for (const std::size_t value : values) text += std::to_string(value);
  return text;
}

// "split 0>01": what became of it, kernels before, kernels after.
std::vector<std::string> matches(const std::vector<KernelFigures>& before,
                                 const std::vector<KernelFigures>& after) {
  const ResultDocument base = document(before);
  const ResultDocument fresh = document(after);
  std::vector<std::string> texts;
  for (const KernelMatch& match :
       OpMatcher(base, fresh).match(base.plans.front(), fresh.plans.front())) {
    texts.push_back(std::string(name_of(match.change)) + " " + numbers(match.before) + ">" +
                    numbers(match.after));
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("kernels that hold the same ops match in any order") {
  CHECK(matches({kernel({"a", "b"}), kernel({"c"})}, {kernel({"c"}), kernel({"b", "a"})}) ==
        Texts{"renamed 0>1", "same 1>0"});  // a name follows the order of the ops
}

TEST_CASE("split, merged, regrouped, altered, added and removed are distinguished") {
  CHECK(matches({kernel({"a", "b"})}, {kernel({"a"}), kernel({"b"})}) == Texts{"split 0>01"});
  CHECK(matches({kernel({"a"}), kernel({"b"})}, {kernel({"a", "b"})}) == Texts{"merged 01>0"});
  CHECK(matches({kernel({"a", "b"}), kernel({"c"})}, {kernel({"a"}), kernel({"b", "c"})}) ==
        Texts{"regrouped 01>01"});
  CHECK(matches({kernel({"a", "b"})}, {kernel({"a"})}) == Texts{"altered 0>0"});
  CHECK(matches({kernel({"a"})}, {kernel({"a", "b"})}) == Texts{"altered 0>0"});
  CHECK(matches({kernel({"a"})}, {kernel({"b"})}) == Texts{"removed 0>", "added >0"});
  CHECK(matches({}, {kernel({"a"})}) == Texts{"added >0"});
  CHECK(matches({}, {}).empty());
}

TEST_CASE("an op under a new name is found by its tensors") {
  CHECK(matches({kernel({"old"}, {{"x", 4}}, {{"y", 4}}), kernel({"b"}, {{"y", 4}}, {{"z", 4}})},
                {kernel({"b"}, {{"y", 8}}, {{"z", 4}}), kernel({"new"}, {{"x", 8}}, {{"y", 4}})}) ==
        Texts{"renamed 0>1", "same 1>0"});
  // Alone in the base, fused now.
  CHECK(matches({kernel({"old"}, {{"x", 4}}, {{"y", 4}}), kernel({"b"}, {{"y", 4}}, {{"z", 4}})},
                {kernel({"old", "b"}, {{"x", 4}}, {{"z", 4}})}) == Texts{"merged 01>0"});
}

TEST_CASE("ops without a name are matched by tensors before numbers") {
  CHECK(
      matches({kernel({"op#0"}, {{"x", 4}}, {{"y", 4}}), kernel({"op#1"}, {{"y", 4}}, {{"z", 4}})},
              {kernel({"op#0"}, {{"x", 4}}, {{"e", 4}}), kernel({"op#1"}, {{"x", 4}}, {{"y", 4}}),
               kernel({"op#2"}, {{"y", 4}}, {{"z", 4}})}) ==
      Texts{"renamed 0>1", "renamed 1>2", "added >0"});
  // Changed tensors: the number is all that is left.
  CHECK(matches({kernel({"op#0"}, {{"x", 4}}, {{"y", 4}})},
                {kernel({"op#0"}, {{"x", 4}, {"w", 4}}, {{"y", 4}})}) == Texts{"same 0>0"});
}

TEST_CASE("an op that several kernels compute does not join them") {
  const auto both = {kernel({"r", "a"}), kernel({"r", "b"})};
  CHECK(matches(both, both) == Texts{"same 0>0", "same 1>1"});
  CHECK(matches(both, {kernel({"r", "a"}), kernel({"r"}), kernel({"b"})}) ==
        Texts{"same 0>0", "split 1>12"});
  CHECK(matches(both, {kernel({"r", "a", "b"})}) == Texts{"merged 01>0"});
  CHECK(matches({kernel({"r", "a", "b"})}, both) == Texts{"split 0>01"});
  CHECK(matches({kernel({"r"}), kernel({"a"}), kernel({"b"})}, both) == Texts{"regrouped 012>01"});
  // r is computed once more; the kernel of a is the one that has it.
  CHECK(matches({kernel({"r", "a"}), kernel({"b"})}, both) == Texts{"same 0>0", "altered 1>1"});
  const auto twice = {kernel({"r"}), kernel({"r"})};
  CHECK(matches(twice, twice) == Texts{"same 0>0", "same 1>1"});
}

namespace {

// An op alone in a kernel, with the sum of its tensors as its bytes.
KernelFigures moving(const std::string& op, const TensorBytes& reads, const TensorBytes& writes) {
  KernelFigures figures = kernel({op}, reads, writes);
  figures.bytes = 0;
  for (const auto& [name, bytes] : reads) *figures.bytes += bytes;
  for (const auto& [name, bytes] : writes) *figures.bytes += bytes;
  return figures;
}

}  // namespace

TEST_CASE("ops that exchanged names are found by what surrounds them") {
  // y = (x + 1) * (h + v): PyTorch numbers the sums in the order of their lines.
  const std::vector<KernelFigures> before = {
      moving("relu", {{"w", 64}}, {{"h", 64}}), moving("add", {{"x", 4}}, {{"add", 4}}),
      moving("add_1", {{"h", 64}, {"v", 64}}, {{"add_1", 64}}),
      moving("mul", {{"add", 4}, {"add_1", 64}}, {{"y", 64}})};
  const std::vector<KernelFigures> after = {
      moving("relu", {{"w", 64}}, {{"h", 64}}),
      moving("add", {{"h", 64}, {"v", 64}}, {{"add", 64}}),
      moving("add_1", {{"x", 4}}, {{"add_1", 4}}),
      moving("mul", {{"add", 64}, {"add_1", 4}}, {{"y", 64}})};
  CHECK(matches(before, after) == Texts{"same 0>0", "renamed 1>2", "renamed 2>1", "same 3>3"});
}

TEST_CASE("an op that is inserted takes no other's name, even where all move the same bytes") {
  const std::vector<KernelFigures> before = {moving("exp", {{"x", 4}}, {{"exp", 4}}),
                                             moving("sum", {{"exp", 4}, {"v", 8}}, {{"s", 4}}),
                                             moving("exp_1", {{"s", 4}}, {{"y", 4}})};
  const std::vector<KernelFigures> after = {
      moving("exp", {{"x", 4}}, {{"exp", 4}}), moving("exp_1", {{"exp", 4}}, {{"exp_1", 4}}),
      moving("sum", {{"exp_1", 4}, {"v", 8}}, {{"s", 4}}), moving("exp_2", {{"s", 4}}, {{"y", 4}})};
  CHECK(matches(before, after) == Texts{"same 0>0", "same 1>2", "renamed 2>3", "added >1"});
  // One whose bytes changed is its own name's while no other is alike.
  std::vector<KernelFigures> larger = before;
  larger[2] = moving("exp_1", {{"s", 4}, {"r", 4}}, {{"y", 4}});
  CHECK(matches(before, larger) == Texts{"same 0>0", "same 1>1", "same 2>2"});
}

TEST_CASE("kernels under all new names are found by the bytes of their tensors") {
  const std::vector<KernelFigures> before = {moving("a", {{"x", 4}, {"w", 8}}, {{"h", 4}}),
                                             moving("b", {{"h", 4}}, {{"y", 12}}),
                                             moving("c", {{"h", 4}}, {{"z", 12}})};
  const std::vector<KernelFigures> after = {moving("k", {{"q", 4}}, {{"s", 12}}),
                                            moving("l", {{"q", 4}}, {{"t", 12}}),
                                            moving("m", {{"o", 8}, {"p", 4}}, {{"q", 4}})};
  CHECK(matches(before, after) == Texts{"renamed 0>2", "renamed 1>0", "renamed 2>1"});
  // The same total from other tensors is another kernel, and so are other bytes.
  CHECK(matches({before[1]}, {moving("k", {{"q", 8}}, {{"s", 8}})}) ==
        Texts{"removed 0>", "added >0"});
  CHECK(matches({before[1]}, {moving("k", {{"q", 4}}, {{"s", 13}})}) ==
        Texts{"removed 0>", "added >0"});
}

TEST_CASE("kernels that list no tensors are found by their bytes where the name is new") {
  KernelFigures before = kernel({"first"});
  KernelFigures after = kernel({"second"});
  before.bytes = after.bytes = 1234;
  CHECK(matches({before}, {after}) == Texts{"renamed 0>0"});
  after.bytes = 1235;
  CHECK(matches({before}, {after}) == Texts{"removed 0>", "added >0"});
}
