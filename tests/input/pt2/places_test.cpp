// x[i, j] and x[i, j] = v: what several indices name together.

#include <doctest/doctest.h>

#include <variant>

#include "support/models.hpp"
#include "support/pt2_files.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Dims = std::vector<WrittenDim>;

// x [2, 6, 5, 4] of f32; i, j and k [3], and places [2, 3], which are indices; and `each`, which
// counts up to 2 as [2, 1].
ProgramText with_places() {
  ProgramText text;
  text.input("x", {2, 6, 5, 4}).input("i", {3}).input("j", {3}).input("k", {3});
  text.input("places", {2, 3}).tensor("places", {2, 3}, {}, kLong);
  for (const char* name : {"i", "j", "k"}) text.tensor(name, {3}, {}, kLong);
  text.tensor("a", {2}, {}, kLong).tensor("each", {2, 1}, {}, kLong);
  text.node("arange", {{"end", 2}}, {"a"});
  text.node("unsqueeze", {{"self", "a"}, {"dim", 1}}, {"each"});
  return text;
}

// A list of indices; null where an axis has none.
Json indices_of(const std::vector<const char*>& names) {
  Json list = Json::array();
  for (const char* name : names) {
    list.push_back(name == nullptr ? Json{{"as_none", true}} : tensor_argument(name));
  }
  return {{"as_optional_tensors", list}};
}

}  // namespace

TEST_CASE("pt2: several indices name elements by one index of their axes, or of each place") {
  struct Case {
    std::vector<const char*> indices;
    std::vector<ProgramText::Size> shape;
    Words rows;
    std::uint64_t bytes;
  };
  const std::vector<Case> cases = {
      // 3 rows of 20; 3 indices of each, and of both: written, and read again.
      {{"i", "j"}, {3, 5, 4}, {"fma", "reshape", "gather"}, 4 * 2 * 60 + 8 * 4 * 3},
      {{nullptr, "i", "j"}, {2, 3, 4}, {"fma", "reshape", "gather"}, 4 * 2 * 24 + 8 * 4 * 3},
      // A third index is added to what the first two make.
      {{"i", "j", "k"}, {3, 4}, {"fma", "fma", "reshape", "gather"}, 4 * 2 * 12 + 8 * 7 * 3},
      // 6 rows of 20 for the places of the first axis.
      {{"each", "places"},
       {2, 3, 5, 4},
       {"reshape", "expand_view", "gather_elements"},
       4 * 2 * 120 + 8 * 6},
      // The axes of indices come first where others are between them: [2, 3, 6, 4].
      {{"each", nullptr, "places"},
       {2, 3, 6, 4},
       {"reshape", "expand_view", "gather_elements", "permute_view"},
       4 * 2 * 144 + 8 * 6},
  };
  for (const Case& each : cases) {
    CAPTURE(each.rows);
    ProgramText text = with_places();
    text.tensor("y", each.shape).output("y");
    text.node("index", {{"self", "x"}, {"indices", indices_of(each.indices)}}, {"y"});
    const Model model = read(text);
    Words rows = rows_of(model);
    std::erase_if(rows, [](const std::string& row) { return row == "iota"; });
    CHECK(rows == each.rows);
    CHECK(unfused(model) == each.bytes);
    CHECK(model.origin.opaque == 0);
  }
}

TEST_CASE("pt2: indices of axes that are apart and name any place are a custom op") {
  ProgramText text = with_places();
  text.tensor("y", {3, 6, 4}).output("y");
  text.node("index", {{"self", "x"}, {"indices", indices_of({"i", nullptr, "j"})}}, {"y"});
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"custom"});
  CHECK(unfused(model) == 4 * 2 * 72 + 8 * 6);
}

TEST_CASE("pt2: what several indices name is overwritten in place") {
  struct Case {
    std::vector<const char*> indices;
    std::vector<ProgramText::Size> shape;
    bool accumulates;
    std::string row;
    std::uint64_t bytes;
  };
  const std::vector<Case> cases = {
      // 60 values read and written, 3 indices of each axis, and of both, as above.
      {{"i", "j"}, {3, 5, 4}, false, "scatter_update", 4 * 2 * 60 + 8 * 4 * 3},
      // Values of one row go to all three.
      {{"i", "j"}, {5, 4}, false, "scatter_update", 4 * (20 + 60 + 2 * 60) + 8 * 4 * 3},
      // What is added to is read.
      {{"i", "j"}, {3, 5, 4}, true, "scatter_update", 4 * 3 * 60 + 8 * 4 * 3},
      // As a cache of keys: [2, 6, 4] at a place of the third axis for each of the first.
      {{"a", nullptr, "a"}, {2, 6, 4}, false, "scatter_elements", 4 * 2 * 48 + 2 * 8 * 2},
      {{"each", nullptr, "places"}, {2, 3, 6, 4}, false, "scatter_elements", 4 * 2 * 144 + 8 * 6},
  };
  for (const Case& each : cases) {
    CAPTURE(each.row);
    CAPTURE(each.bytes);
    ProgramText text = with_places();
    text.input("v", each.shape).tensor("y", {2, 6, 5, 4}).output("y");
    text.node("index_put_",
              {{"self", "x"},
               {"indices", indices_of(each.indices)},
               {"values", "v"},
               {"accumulate", each.accumulates}},
              {"y"});
    const Model model = read(text);
    const Words rows = rows_of(model);
    CHECK(std::ranges::find(rows, each.row) != rows.end());
    CHECK(std::ranges::find(rows, "copy") == rows.end());
    CHECK(unfused(model) == each.bytes);
    CHECK(model.origin.opaque == 0);
  }
}

TEST_CASE("pt2: axes of dims that indices name together are a product of them") {
  ProgramText text;
  text.range("s0", 2, 64).range("s1", 2, 64);
  text.input("x", {{"s0", 8}, {"s1", 6}, 4}).input("i", {3}).input("j", {3}).tensor("y", {3, 4});
  text.tensor("i", {3}, {}, kLong).tensor("j", {3}, {}, kLong).output("y");
  text.node("index", {{"self", "x"}, {"indices", Json{"i", "j"}}}, {"y"});
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"fma", "reshape", "gather"});
  const auto& shape = model.graph.ops[1].attributes[0].value;
  CHECK(std::get<Dims>(shape) == Dims{std::string("(s0)*(s1)"), std::int64_t{4}});
}
