#include "graph/foreign_names.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "graph/attributes.hpp"
#include "graph/graph_text.hpp"
#include "graph/op_table.hpp"

using namespace fusecalc;
using fusecalc::testing::fault_of;

namespace {

std::vector<std::string_view> ours(NameKind kind) {
  if (kind == NameKind::kDType) return {dtype_names().begin(), dtype_names().end()};
  std::vector<std::string_view> names;
  if (kind == NameKind::kOp) {
    for (const OpRow& row : op_table()) names.push_back(row.name);
  } else {
    for (const OpRow& row : op_table()) {
      for (const Attribute attribute : members_of(row.attributes)) {
        names.push_back(name_of(attribute));
      }
    }
  }
  return names;
}

std::string op_fault(const std::string& op) {
  return fault_of(R"({"tensors": {"x": {"shape": [4, 8]}}, "ops": [)" + op + "]}");
}

}  // namespace

TEST_CASE("foreign names: each leads to a name of ours, and is none itself") {
  for (const ForeignName& row : foreign_names()) {
    CAPTURE(row.foreign);
    const std::vector<std::string_view> names = ours(row.kind);
    CHECK(std::ranges::find(names, row.ours) != names.end());
    CHECK(std::ranges::find(names, row.foreign) == names.end());
    CHECK(did_you_mean(row.kind, row.foreign, std::array{row.ours}) ==
          " (did you mean \"" + std::string(row.ours) + "\"?)");
  }
}

TEST_CASE("foreign names: ops, attributes and dtypes of other tools get a hint") {
  CHECK(op_fault(R"({"op": "bmm", "inputs": ["x", "x"], "output": "y"})") ==
        "/ops/0/op: unknown op \"bmm\" (did you mean \"matmul\"?); run fusecalc ops for a list");
  CHECK(op_fault(R"({"op": "torch.ops.aten.addmm.default", "inputs": ["x"], "output": "y"})") ==
        "/ops/0/op: unknown op \"torch.ops.aten.addmm.default\" (did you mean \"linear\"?); run "
        "fusecalc ops for a list");
  CHECK(
      op_fault(R"({"op": "LayerNorm", "inputs": ["x"], "output": "y"})") ==
      "/ops/0/op: unknown op \"LayerNorm\" (did you mean \"layer_norm\"?); run fusecalc ops for a "
      "list");
  CHECK(op_fault(R"({"op": "softmax", "inputs": ["x"], "output": "y", "dim": 1})") ==
        "/ops/0/dim: unknown attribute \"dim\" of softmax (did you mean \"axes\"?)");
  CHECK(fault_of(R"({"dtype": "torch.float16", "ops": []})") ==
        "/dtype: unknown dtype \"torch.float16\" (did you mean \"f16\"?)");
}
