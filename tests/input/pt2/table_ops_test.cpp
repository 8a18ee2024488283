// ATen ops that are one op of the table, or a few.

#include <doctest/doctest.h>

#include <vector>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Sizes = std::vector<ProgramText::Size>;

}  // namespace

TEST_CASE("pt2: a cast back to the type before is what was cast") {
  ProgramText text;
  text.input("x", {4, 8}).tensor("h", {4, 8}, {}, kBf16).tensor("w", {4, 8});
  text.tensor("v", {32}).tensor("b", {32}, {}, kBf16).tensor("y", {32}, {}, kBf16);
  text.node("_to_copy", {{"self", "x"}}, {"h"}).node("_to_copy", {{"self", "h"}}, {"w"});
  text.node("view", {{"self", "w"}, {"size", Json{32}}}, {"v"});
  text.node("_to_copy", {{"self", "v"}}, {"b"}).node("relu", {{"self", "b"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(calls_of(model) == Words{"cast(x)", "reshape(to_copy)", "relu(view)"});
  // f32 to bf16, and bf16 to bf16.
  CHECK(unfused(model) == 32 * (4 + 2) + 32 * (2 + 2));
}

TEST_CASE("pt2: differences, halves, norms and errors are ops of the table") {
  ProgramText text;
  text.input("x", {4, 8}).input("t", {4, 8}).tensor("d", {4, 7}).tensor("g", {4, 4});
  text.tensor("n", {4}).tensor("m", {}).tensor("r", {4, 24}).tensor("s", {1, 4, 4});
  text.input("c", {4, 2, 2});
  text.node("diff", {{"self", "x"}, {"n", 1}, {"dim", -1}}, {"d"});
  text.node("glu", {{"self", "x"}, {"dim", -1}}, {"g"});
  text.node("linalg_vector_norm", {{"self", "x"}, {"ord", 2}, {"dim", Json{1}}}, {"n"});
  text.node("mse_loss", {{"self", "x"}, {"target", "t"}}, {"m"});
  text.node("repeat_interleave", {{"self", "x"}, {"repeats", 3}, {"dim", 1}}, {"r"});
  text.node("pixel_shuffle", {{"self", "c"}, {"upscale_factor", 2}}, {"s"});
  for (const char* name : {"d", "g", "n", "m", "r", "s"}) text.output(name);
  const Model model = read(text);
  CHECK(model.origin.opaque == 0);
  CHECK(model.origin.exact == 6);
  calls_of(model);
}

TEST_CASE("pt2: shifts of packed weights are those of integers") {
  constexpr int kU8 = 1;
  ProgramText text;
  text.input("w", {4, 8})
      .tensor("w", {4, 8}, {}, kU8)
      .tensor("h", {4, 8}, {}, kU8)
      .tensor("l", {4, 8}, {}, kU8);
  text.node("__rshift__", {{"self", "w"}, {"other", 4}}, {"h"}).output("h");
  text.node("__lshift__", {{"self", "w"}, {"other", 4}}, {"l"}).output("l");
  CHECK(calls_of(read(text)) ==
        Words{"bitwise_right_shift(w, number)", "bitwise_left_shift(w, number)"});
}

TEST_CASE("pt2: slopes of a prelu belong to the channels, or are one for all") {
  const auto program = [](const Sizes& x, int slopes) {
    ProgramText text;
    text.input("x", x).input("s", {slopes}).tensor("y", x);
    text.node("prelu", {{"self", "x"}, {"weight", "s"}}, {"y"}).output("y");
    return text;
  };
  // 2 x 3 x 4 elements read and written, and the slopes.
  CHECK(unfused(read(program({2, 3, 4}, 3))) == 4 * (24 + 3 + 24));
  CHECK(unfused(read(program({2, 3, 4}, 1))) == 4 * (24 + 1 + 24));
  CHECK(unfused(read(program({2, 3}, 3))) == 4 * (6 + 3 + 6));
  CHECK(calls_of(read(program({2, 3}, 3))) == Words{"prelu(x, s)"});
}

TEST_CASE("pt2: instance norms are group norms of one channel each") {
  ProgramText text;
  text.input("x", {2, 3, 4, 4}).input("w", {3}).input("b", {3}).tensor("y", {2, 3, 4, 4});
  text.node("instance_norm",
            {{"input", "x"}, {"weight", "w"}, {"bias", "b"}, {"use_input_stats", true}}, {"y"});
  text.output("y");
  const Model model = read(text);
  CHECK(calls_of(model) == Words{"group_norm(x, w, b)"});
  CHECK(unfused(model) == 4 * (96 + 6 + 96));
}

TEST_CASE("pt2: absolute errors, and channels that groups take turns with") {
  ProgramText text;
  text.input("x", {2, 6, 4}).input("t", {2, 6, 4}).tensor("l", {}).tensor("c", {2, 6, 4});
  text.node("l1_loss", {{"self", "x"}, {"target", "t"}}, {"l"}).output("l");
  text.node("channel_shuffle", {{"self", "x"}, {"groups", 2}}, {"c"}).output("c");
  CHECK(calls_of(read(text)) == Words{"sub(x, t)", "abs(l1_loss.sub)", "mean(l1_loss.abs)",
                                      "reshape(x)", "transpose(channel_shuffle.reshape)",
                                      "reshape(channel_shuffle.transpose)"});
}

TEST_CASE("pt2: a bag of embeddings reads the rows that it names") {
  constexpr int kI64 = 5;
  ProgramText text;
  text.input("w", {1000, 8}).input("i", {20}).tensor("i", {20}, {}, kI64);
  text.input("o", {4}).tensor("o", {4}, {}, kI64).tensor("y", {4, 8});
  text.node("embedding_bag", {{"weight", "w"}, {"indices", "i"}, {"offsets", "o"}}, {"y"});
  text.output("y");
  CHECK(unfused(read(text)) == 4 * 20 * 8 + 8 * 20 + 8 * 4 + 4 * 4 * 8);
}
