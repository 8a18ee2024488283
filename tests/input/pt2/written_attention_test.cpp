// Attention that a program writes out in other ways than as a mask after a factor.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/results.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Sizes = std::vector<ProgramText::Size>;

// A program step by step; every tensor is f32, or bool.
class Steps {
 public:
  Steps& input(const std::string& name, const Sizes& sizes) {
    text_.input(name, sizes);
    return *this;
  }
  Steps& step(const std::string& op, const std::vector<std::pair<std::string, Json>>& arguments,
              const std::string& result, const Sizes& sizes, int dtype = 7) {
    text_.tensor(result, sizes, {}, dtype);
    text_.node(op, arguments, {result});
    return *this;
  }
  Steps& view(const std::string& from, const std::string& to, const Json& sizes) {
    Sizes shape;
    for (const Json& size : sizes) shape.emplace_back(size.get<int>());
    return step("view", {{"self", from}, {"size", sizes}}, to, shape);
  }
  Steps& product(const std::string& a, const std::string& b, const std::string& result,
                 const Sizes& sizes) {
    return step("matmul", {{"self", a}, {"other", b}}, result, sizes);
  }
  Steps& combine(const std::string& op, const std::string& a, const Json& b,
                 const std::string& result, const Sizes& sizes) {
    return step(op, {{"self", a}, {"other", b}}, result, sizes);
  }
  // Scores q k^T / 100, which are small: the reference's inputs are whole numbers.
  Steps& scores(const Sizes& sizes) {
    return product("q", "k", "qk", sizes).combine("mul", "qk", 0.01, "s", sizes);
  }
  Steps& softmax(const std::string& from, const Sizes& sizes) {
    return step("softmax", {{"self", from}, {"dim", -1}}, "p", sizes);
  }

  // Attention and these ops beside it, without views and what makes conditions, compute what the
  // program does. `inner`: something that is left written out where it is needed.
  void check(const Words& others, const std::string& output, const std::string& inner = "p") {
    text_.output(output);
    const Model model = read(text_);
    Words rows = rows_of(model);
    std::erase_if(rows, [](const std::string& row) {
      return row == "reshape" || row == "permute_view" || row == "gt";
    });
    Words expected = others;
    expected.emplace_back("attention");
    std::ranges::sort(rows);
    std::ranges::sort(expected);
    CHECK(rows == expected);
    text_.output(inner);
    const Model written = read(text_);
    const Words long_rows = rows_of(written);
    CHECK(std::ranges::find(long_rows, "softmax") != long_rows.end());
    const std::vector<double> one = result_of(model);
    const std::vector<double> other = result_of(written);
    REQUIRE(one.size() == other.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == doctest::Approx(other[i]));
  }

 private:
  ProgramText text_;
};

}  // namespace

TEST_CASE(
    "pt2: masks of windows, whose axis is split in images and windows, are masks of attention") {
  // 2 images of 2 windows, 3 heads: a bias of the heads, and a mask of the windows.
  Steps()
      .input("q", {4, 3, 5, 8})
      .input("k", {4, 3, 8, 5})
      .input("v", {4, 3, 5, 8})
      .input("bias", {3, 5, 5})
      .input("windows", {1, 2, 1, 5, 5})
      .scores({4, 3, 5, 5})
      .combine("add", "s", "bias", "t", {4, 3, 5, 5})
      .view("t", "apart", {2, 2, 3, 5, 5})
      .combine("add", "apart", "windows", "u", {2, 2, 3, 5, 5})
      .view("u", "w", {4, 3, 5, 5})
      .softmax("w", {4, 3, 5, 5})
      .product("p", "v", "y", {4, 3, 5, 8})
      .check({"add"}, "y");
}

TEST_CASE("pt2: masks of batches and heads as one axis are masks of attention") {
  Steps()
      .input("q", {6, 5, 8})
      .input("k", {6, 8, 5})
      .input("v", {6, 5, 8})
      .input("bias", {6, 5, 5})
      .scores({6, 5, 5})
      .combine("add", "s", "bias", "t", {6, 5, 5})
      .view("t", "apart", {2, 3, 5, 5})
      .softmax("apart", {2, 3, 5, 5})
      .view("p", "w", {6, 5, 5})
      .product("w", "v", "y", {6, 5, 8})
      .check({}, "y");
}

TEST_CASE("pt2: a bias and a condition are one mask of attention") {
  for (const bool blocks : {false, true}) {
    CAPTURE(blocks);
    Steps steps;
    steps.input("q", {2, 3, 5, 8})
        .input("k", {2, 3, 8, 5})
        .input("v", {2, 3, 5, 8})
        .input("bias", {3, 5, 5})
        .input("c", {2, 1, 1, 5})
        .step("gt", {{"self", "c"}, {"other", 0}}, "mask", {2, 1, 1, 5}, kBool)
        .scores({2, 3, 5, 5})
        .combine("add", "s", "bias", "t", {2, 3, 5, 5});
    if (blocks) {
      steps.step("masked_fill", {{"self", "t"}, {"mask", "mask"}, {"value", -1e30}}, "u",
                 {2, 3, 5, 5});
    } else {
      steps.step("where", {{"condition", "mask"}, {"self", "t"}, {"other", -1e30}}, "u",
                 {2, 3, 5, 5});
    }
    steps.softmax("u", {2, 3, 5, 5}).product("p", "v", "y", {2, 3, 5, 8}).check({"where"}, "y");
  }
}

TEST_CASE("pt2: a bias that is scaled together with the scores is a mask that is scaled") {
  Steps()
      .input("q", {2, 3, 5, 8})
      .input("k", {2, 3, 8, 5})
      .input("v", {2, 3, 5, 8})
      .input("bias", {2, 3, 5, 5})
      .product("q", "k", "qk", {2, 3, 5, 5})
      .combine("add", "qk", "bias", "t", {2, 3, 5, 5})
      .combine("div", "t", 100, "s", {2, 3, 5, 5})
      .softmax("s", {2, 3, 5, 5})
      .product("p", "v", "y", {2, 3, 5, 8})
      .check({"mul"}, "y");
}

TEST_CASE("pt2: a temperature of each head is a factor of the queries") {
  Steps()
      .input("q", {2, 3, 5, 8})
      .input("k", {2, 3, 8, 5})
      .input("v", {2, 3, 5, 8})
      .input("heads", {3, 1, 1})
      .input("bias", {3, 5, 5})
      .product("q", "k", "qk", {2, 3, 5, 5})
      .combine("mul", "qk", "heads", "t", {2, 3, 5, 5})
      .combine("mul", "t", 0.001, "s", {2, 3, 5, 5})
      .combine("add", "s", "bias", "u", {2, 3, 5, 5})
      .softmax("u", {2, 3, 5, 5})
      .product("p", "v", "y", {2, 3, 5, 8})
      .check({"mul"}, "y");
}

TEST_CASE("pt2: factors of keys are none of queries") {
  ProgramText text;
  text.input("q", {2, 3, 5, 8}).input("k", {2, 3, 8, 5}).input("v", {2, 3, 5, 8});
  text.input("keys", {3, 1, 5}).output("y");
  for (const char* name : {"qk", "s", "p"}) text.tensor(name, {2, 3, 5, 5});
  text.tensor("y", {2, 3, 5, 8});
  text.node("matmul", {{"self", "q"}, {"other", "k"}}, {"qk"});
  text.node("mul", {{"self", "qk"}, {"other", "keys"}}, {"s"});
  text.node("softmax", {{"self", "s"}, {"dim", -1}}, {"p"});
  text.node("matmul", {{"self", "p"}, {"other", "v"}}, {"y"});
  CHECK(rows_of(read(text)) == Words{"matmul", "mul", "softmax", "matmul"});
}

TEST_CASE("pt2: attention of matrices with a pixel in each column is attention, transposed") {
  // As in autoencoders: q, k and v are channels by pixels, and so is the result.
  Steps()
      .input("q0", {2, 8, 5})
      .input("k", {2, 8, 5})
      .input("v", {2, 8, 5})
      .step("transpose", {{"self", "q0"}, {"dim0", 1}, {"dim1", 2}}, "q", {2, 5, 8})
      .scores({2, 5, 5})
      .softmax("s", {2, 5, 5})
      .step("transpose", {{"self", "p"}, {"dim0", 1}, {"dim1", 2}}, "w", {2, 5, 5})
      .product("v", "w", "y", {2, 8, 5})
      .check({"transpose"}, "y");
}

TEST_CASE("pt2: weights of 0 where the same mask has hidden the scores are part of attention") {
  Steps()
      .input("q", {2, 3, 5, 8})
      .input("k", {2, 3, 8, 5})
      .input("v", {2, 3, 5, 8})
      .input("c", {1, 1, 5, 5})
      .step("gt", {{"self", "c"}, {"other", 0}}, "mask", {1, 1, 5, 5}, kBool)
      .scores({2, 3, 5, 5})
      .step("masked_fill", {{"self", "s"}, {"mask", "mask"}, {"value", -1e30}}, "u", {2, 3, 5, 5})
      .softmax("u", {2, 3, 5, 5})
      .step("masked_fill", {{"self", "p"}, {"mask", "mask"}, {"value", 0.0}}, "z", {2, 3, 5, 5})
      .product("z", "v", "y", {2, 3, 5, 8})
      .check({"logical_not"}, "y");
}
