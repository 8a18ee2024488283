#include "codegen/index_map.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

namespace fusecalc {
namespace {

// Evaluates the text as the device does: products and sums from left to right.
std::uint64_t evaluated(const std::string& text, std::uint64_t i) {
  std::istringstream words(text + " +");
  std::uint64_t sum = 0;
  std::uint64_t product = 0;
  char before = '=';
  for (std::string word; words >> word;) {
    const std::uint64_t number = word == "i" ? i : std::stoull(word);
    if (before == '=') product = number;
    if (before == '*') product *= number;
    if (before == '/') product /= number;
    if (before == '%') product %= number;
    words >> before;
    if (before != '+') continue;
    sum += product;
    before = '=';
  }
  return sum;
}

std::uint64_t element(const IndexTransform& step, std::uint64_t i) {
  return evaluated(step.text("i"), i);
}

TEST_CASE("a bias along the last axis repeats with every row") {
  const IndexTransform step = broadcast_map({4}, {3, 4});
  CHECK(step.text("i") == "i % 4");
  CHECK(element(step, 0) == 0);
  CHECK(element(step, 7) == 3);
  CHECK(element(step, 8) == 0);
  CHECK(step.pattern(4) == LanePattern::kUnit);
  CHECK(step.aligned(4));
  CHECK(step.pattern(8) == LanePattern::kScattered);  // a group of 8 spans two rows
}

TEST_CASE("one value a row is the same for a whole group") {
  const IndexTransform step = broadcast_map({3, 1}, {3, 8});
  CHECK(step.text("i") == "i / 8");
  CHECK(element(step, 15) == 1);
  CHECK(step.pattern(8) == LanePattern::kUniform);
}

TEST_CASE("axes that are adjacent in both tensors are merged") {
  CHECK(broadcast_map({5, 6, 7}, {5, 6, 7}).identity());
  CHECK(IndexTransform(broadcast_map({}, {5, 6})).text("i") == "0");
  const IndexTransform step = broadcast_map({6, 7}, {5, 6, 7});
  CHECK(step.text("i") == "i % 42");
}

TEST_CASE("a map of rows that follow each other divides by no length") {
  const auto text = [](const IndexTransform& map, std::uint64_t period) {
    return map.text_of_rows(period, "q", "r");
  };
  CHECK(text(broadcast_map({7}, {5, 6, 7}), 7) == "r");
  CHECK(text(broadcast_map({6, 7}, {5, 6, 7}), 42) == "r");
  CHECK(text(broadcast_map({6, 1}, {6, 7}), 7) == "q");
  CHECK(text(broadcast_map({5, 1, 7}, {5, 6, 7}), 7) == "q / 6 * 7 + r");
  // An axis has parts of both.
  CHECK(text(broadcast_map({6, 7}, {5, 6, 7}), 7).empty());
  CHECK(text(broadcast_map({5, 6, 7}, {5, 6, 7}), 7).empty());
}

TEST_CASE("a transposed matrix is read across its rows") {
  // to[i][j] = from[j][i]; from has 2 rows of 3.
  IndexTransform step;
  step.append(3, 1);
  step.append(2, 3);
  CHECK(element(step, 0) == 0);
  CHECK(element(step, 1) == 3);
  CHECK(element(step, 2) == 1);
  CHECK(element(step, 5) == 5);
  CHECK(step.pattern(2) == LanePattern::kScattered);
}

TEST_CASE("a permutation that keeps the last axis moves whole groups") {
  // [2, 3, 8] to [3, 2, 8].
  IndexTransform step;
  step.append(3, 8);
  step.append(2, 24);
  step.append(8, 1);
  CHECK(element(step, 8) == 24);
  CHECK(element(step, 16) == 8);
  CHECK(step.pattern(8) == LanePattern::kUnit);
  CHECK(step.aligned(8));
}

}  // namespace
}  // namespace fusecalc
