#include "core/suggest.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace fusecalc;

namespace {

constexpr std::array<std::string_view, 3> kKeys = {"name", "input_size", "output_size"};

}  // namespace

TEST_CASE("a typing error is recognised") {
  CHECK(nearest("inputsize", kKeys) == "input_size");      // one letter missing
  CHECK(nearest("output__size", kKeys) == "output_size");  // one too many
  CHECK(nearest("naem", kKeys) == "name");                 // two swapped
  CHECK(nearest("mame", kKeys) == "name");                 // one replaced
  CHECK(nearest("Input_Size", kKeys) == "input_size");
  CHECK(nearest("NAME", kKeys) == "name");  // every letter is of the other case
}

TEST_CASE("of two candidates the nearer wins") {
  CHECK(nearest("nput_size", kKeys) == "input_size");  // one edit, against three
  CHECK(nearest("utput_size", kKeys) == "output_size");
}

TEST_CASE("a different word is not a typing error") {
  CHECK(nearest("flops", kKeys) == "");
  CHECK(nearest("size", kKeys) == "");
  CHECK(nearest("", kKeys) == "");
  CHECK(nearest(std::string(100, 'n'), kKeys) == "");
}

TEST_CASE("a single letter suggests nothing that shares no letter with it") {
  constexpr std::array<std::string_view, 1> kOne = {"y"};
  CHECK(nearest("x", kOne) == "");
  CHECK(nearest("Y", kOne) == "y");
}

TEST_CASE("the suggestion is a phrase to append") {
  CHECK(did_you_mean("naem", kKeys) == " (did you mean \"name\"?)");
  CHECK(did_you_mean("flops", kKeys) == "");
}
