#include "sweep/axis.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fusecalc {
namespace {

using Values = std::vector<std::uint64_t>;

std::string fault_of(const std::string& text) {
  try {
    parse_axis(text);
  } catch (const std::invalid_argument& fault) {
    return fault.what();
  }
  return "none";
}

TEST_CASE("the values of a dim: ranges by a factor or a step, lists, and lists of ranges") {
  CHECK(parse_axis("T=4096").values == Values{4096});
  CHECK(parse_axis("T=1024..8192*2").values == Values{1024, 2048, 4096, 8192});
  CHECK(parse_axis("T=3..100*5").values == Values{3, 15, 75});  // 375 is past the end
  CHECK(parse_axis("T=64..256+64").values == Values{64, 128, 192, 256});
  CHECK(parse_axis("T=64..255+64").values == Values{64, 128, 192});
  CHECK(parse_axis("T=1..4").values == Values{1, 2, 3, 4});
  CHECK(parse_axis("T=0..2").values == Values{0, 1, 2});
  CHECK(parse_axis("T=9,7,1..4*2").values == Values{9, 7, 1, 2, 4});
  CHECK(parse_axis("head dim=5").name == "head dim");
  CHECK(parse_axis("T=4611686018427387904..9223372036854775807*2").values ==
        Values{4611686018427387904U});
}

TEST_CASE("values of a dim that are no range or no list are refused with a reason") {
  for (const std::string text :
       {"T", "=4", "T=", "T=x", "T=1..", "T=..4", "T=1..4*", "T=1,,2", "T=-1", "T=1.5",
        "T=9223372036854775808", "T=1..4*2*2", "T=1, 2"}) {
    CAPTURE(text);
    CHECK(fault_of(text).starts_with("must have the form T=4096, T=2048,4096, T=1024..65536*2"));
  }
  CHECK(fault_of("T=8..4") == "\"T=8..4\" ends before it begins");
  CHECK(fault_of("T=1..4*1") == "\"T=1..4*1\" would never end");
  CHECK(fault_of("T=0..4*2") == "\"T=0..4*2\" would never end");
  CHECK(fault_of("T=1..4+0") == "\"T=1..4+0\" would never end");
  CHECK(fault_of("T=2,1..4*2") == "\"T=2,1..4*2\" has 2 twice");
  CHECK(fault_of("T=1..1000001") == "\"T=1..1000001\" has more than 1000000 values");
}

}  // namespace
}  // namespace fusecalc
