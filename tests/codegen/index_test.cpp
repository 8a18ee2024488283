#include "codegen/index.hpp"

#include <doctest/doctest.h>

namespace fusecalc {
namespace {

TEST_CASE("a bias along the last axis repeats with every row") {
  const Step step = broadcast_step({4}, {3, 4});
  CHECK(step.text("i") == "i % 4");
  CHECK(step.apply(0) == 0);
  CHECK(step.apply(7) == 3);
  CHECK(step.apply(8) == 0);
  CHECK(step.spread(4) == Spread::kUnit);
  CHECK(step.aligned(4));
  CHECK(step.spread(8) == Spread::kScattered);  // a group of 8 spans two rows
}

TEST_CASE("one value a row is the same for a whole group") {
  const Step step = broadcast_step({3, 1}, {3, 8});
  CHECK(step.text("i") == "i / 8");
  CHECK(step.apply(15) == 1);
  CHECK(step.spread(8) == Spread::kUniform);
}

TEST_CASE("axes that lie side by side in both tensors are one") {
  CHECK(broadcast_step({5, 6, 7}, {5, 6, 7}).identity());
  CHECK(broadcast_step({}, {5, 6}).text("i") == "0");
  const Step step = broadcast_step({6, 7}, {5, 6, 7});
  CHECK(step.text("i") == "i % 42");
}

TEST_CASE("a transposed matrix is read across its rows") {
  // to[i][j] = from[j][i]; from has 2 rows of 3.
  const Step step = permute_step({2, 3}, {1, 0});
  CHECK(step.apply(0) == 0);
  CHECK(step.apply(1) == 3);
  CHECK(step.apply(2) == 1);
  CHECK(step.apply(5) == 5);
  CHECK(step.spread(2) == Spread::kScattered);
}

TEST_CASE("a permutation that keeps the last axis moves whole groups") {
  // [2, 3, 8] to [3, 2, 8].
  const Step step = permute_step({2, 3, 8}, {1, 0, 2});
  CHECK(step.apply(8) == 24);
  CHECK(step.apply(16) == 8);
  CHECK(step.spread(8) == Spread::kUnit);
  CHECK(step.aligned(8));
}

}  // namespace
}  // namespace fusecalc
