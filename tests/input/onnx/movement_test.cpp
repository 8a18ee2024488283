// Slices, and what an op that has no row reads.

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

struct Range {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> axes;
  std::vector<std::int64_t> steps;
};

// A slice of x [10, 8], of 4 bytes each.
Model sliced(const Range& range, const std::vector<Extent>& result) {
  const Graph graph{.nodes = {node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"})},
                    .inputs = {value("x", {10, 8})},
                    .outputs = {value("y", result)},
                    .constants = {integers("starts", range.starts), integers("ends", range.ends),
                                  integers("axes", range.axes), integers("steps", range.steps)}};
  return read(proto::model(graph));
}

constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();

TEST_CASE("onnx: a slice backwards is a flip of what it takes") {
  const Model all = sliced({{-1}, {kFirst}, {0}, {-1}}, {10, 8});
  CHECK(ops_of(all) == Words{"flip(x) -> y"});
  CHECK(unfused(all) == 4 * (80 + 80));
  // Rows 7, 4 and 1.
  const Model some = sliced({{7}, {0}, {0}, {-3}}, {3, 8});
  CHECK(ops_of(some) == Words{"slice_view(x) -> y.slice_view", "flip(y.slice_view) -> y"});
  CHECK(unfused(some) == 4 * (24 + 24));
  using Dims = std::vector<WrittenDim>;
  const std::vector<WrittenAttribute>& view = some.graph.ops[0].attributes;
  CHECK(std::get<Dims>(view[1].value) == Dims{std::int64_t{1}});
  CHECK(std::get<Dims>(view[2].value) == Dims{std::int64_t{8}});
  CHECK(std::get<Dims>(view[3].value) == Dims{std::int64_t{3}});
  // Backwards along the columns alone, of rows 2 to 5.
  const Model both = sliced({{2, -1}, {6, kFirst}, {0, 1}, {1, -1}}, {4, 8});
  CHECK(ops_of(both) == Words{"slice_view(x) -> y.slice_view", "flip(y.slice_view) -> y"});
  CHECK(unfused(both) == 4 * (32 + 32));
  // One row has no direction, and none is no flip.
  CHECK(ops_of(sliced({{4}, {3}, {0}, {-1}}, {1, 8})).size() == 1);
  CHECK(sliced({{3}, {4}, {0}, {-1}}, {0, 8}).origin.opaque == 0);
}

TEST_CASE("onnx: an op without a row reads no axes, counts and single numbers") {
  const Graph graph{.nodes = {node("Some", {"x", "axes", "factor", "indices"}, {"y"})},
                    .inputs = {value("x", {10, 8})},
                    .outputs = {value("y", {10, 8})},
                    .constants = {integers("axes", {0, 1}), real("factor", 2),
                                  integers("indices", std::vector<std::int64_t>(20, 1))}};
  const Model model = read(proto::model(graph));
  CHECK(ops_of(model) == Words{"custom(x, indices) -> y"});
  CHECK(unfused(model) == 4 * 80 + 8 * 20 + 4 * 80);
}

}  // namespace
}  // namespace fusecalc
