// Ops that take lists of tensors.

#include <doctest/doctest.h>

#include "support/models.hpp"
#include "support/pt2_files.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

// p and g [8] and q and h [4, 4] of f32, and s, one of it.
ProgramText with_lists() {
  ProgramText text;
  text.input("p", {8}).input("q", {4, 4}).input("g", {8}).input("h", {4, 4}).input("s", {1});
  return text;
}

Json floats(const std::vector<double>& values) { return {{"as_floats", values}}; }

}  // namespace

TEST_CASE("pt2: _foreach_ ops are one op for each tensor") {
  ProgramText text = with_lists();
  text.tensor("a", {8}).tensor("b", {4, 4}).tensor("m", {}).tensor("n", {});
  text.node("_foreach_lerp",
            {{"self", Json{"p", "q"}}, {"tensors1", Json{"g", "h"}}, {"weight", 0.25}}, {});
  text.graph["nodes"].back()["outputs"] = {{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}};
  text.node("_foreach_norm", {{"self", Json{"a", "b"}}, {"ord", 1}}, {});
  text.graph["nodes"].back()["outputs"] = {{{"as_tensors", {{{"name", "m"}}, {{"name", "n"}}}}}};
  text.output("a").output("m").output("n");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"lerp", "lerp", "abs", "sum", "abs", "sum"});
  // Twice two tensors and their mean; each of their means, its size, and their sum.
  CHECK(unfused(model) == 4 * (3 * 24 + 3 * 24 + 2));
  CHECK(model.origin.opaque == 0);
}

TEST_CASE("pt2: _foreach_ ops in place overwrite every tensor of their list") {
  struct Case {
    const char* op;
    std::vector<std::pair<std::string, Json>> arguments;
    Words rows;
    std::uint64_t bytes;
  };
  const Json both = {"g", "h"};
  const std::vector<Case> cases = {
      {"_foreach_mul_", {{"scalar", 0.5}}, {"mul", "mul"}, 2 * 24},
      {"_foreach_mul_", {{"scalars", floats({0.5, 2})}}, {"mul", "mul"}, 2 * 24},
      {"_foreach_mul_", {{"other", "s"}}, {"mul", "mul"}, 2 * 24 + 2},
      {"_foreach_add_", {{"other", both}, {"alpha", 2}}, {"fma", "fma"}, 3 * 24},
      {"_foreach_sqrt_", {}, {"sqrt", "sqrt"}, 2 * 24},
      {"_foreach_clamp_max_", {{"scalar", 1}}, {"clamp", "clamp"}, 2 * 24},
      {"_foreach_clamp_max_", {{"other", both}}, {"minimum", "minimum"}, 3 * 24},
      {"_foreach_addcdiv_",
       {{"tensor1", both}, {"tensor2", both}, {"scalars", floats({1, 2})}},
       {"addcdiv", "addcdiv"},
       3 * 24},
      // The factors are elements of a tensor: one op with all that it reads and overwrites.
      {"_foreach_addcdiv_",
       {{"tensor1", both}, {"tensor2", both}, {"scalars", "s"}},
       {"custom"},
       3 * 24 + 1},
      {"_fused_adamw_", {{"grads", both}, {"exp_avgs", Json{"g", "h"}}}, {"custom"}, 4 * 24},
  };
  for (const Case& each : cases) {
    CAPTURE(each.op);
    ProgramText text = with_lists();
    auto arguments = each.arguments;
    arguments.insert(arguments.begin(), {"self", Json{"p", "q"}});
    text.node(each.op, arguments, {});
    const Model model = read(text);
    CHECK(rows_of(model) == each.rows);
    CHECK(unfused(model) == 4 * each.bytes);
  }
}

TEST_CASE("pt2: views of tensors that a _foreach_ op overwrote show what they hold then") {
  ProgramText text = with_lists();
  text.tensor("v", {16}).tensor("y", {16});
  text.node("view", {{"self", "q"}, {"size", Json{16}}}, {"v"});
  text.node("_foreach_add_", {{"self", Json{"p", "q"}}, {"other", Json{"g", "h"}}}, {});
  text.node("exp", {{"self", "v"}}, {"y"});
  text.output("y");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"add", "add", "reshape", "exp"});
  CHECK(unfused(model) == 4 * (3 * 24 + 2 * 16));
}

TEST_CASE("pt2: lists that do not fit together are one op") {
  ProgramText text = with_lists();
  text.tensor("a", {8}).tensor("b", {4, 4});
  text.node("_foreach_add", {{"self", Json{"p", "q"}}, {"other", Json{"g"}}}, {});
  text.graph["nodes"].back()["outputs"] = {{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}};
  text.output("a").output("b");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"custom"});
  CHECK(unfused(model) == 4 * (24 + 8 + 24));
}
