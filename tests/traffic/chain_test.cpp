#include "traffic/chain.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"

using namespace fusecalc;

TEST_CASE("unfused counts every operation's tensors, fused the outermost two") {
  const SizeChain chain = {.name = {},
                           .operations = 3,
                           .input_elements = 9000,
                           .output_elements = 9000,
                           .first_input = 1000,
                           .last_output = 1500,
                           .dtype_bytes = 2};
  const ChainTraffic traffic = count_bytes(chain, "x.json");
  CHECK(traffic.unfused.read == 18000);
  CHECK(traffic.unfused.write == 18000);
  CHECK(traffic.unfused.total() == 36000);
  CHECK(traffic.fused.read == 2000);
  CHECK(traffic.fused.write == 3000);
  CHECK(traffic.fused.total() == 5000);
}

TEST_CASE("no operations move no bytes") {
  const ChainTraffic traffic = count_bytes(SizeChain{}, "x.json");
  CHECK(traffic.unfused.total() == 0);
  CHECK(traffic.fused.total() == 0);
}

TEST_CASE("2^63 - 1 bytes are counted and one more is refused") {
  SizeChain chain = {.name = {},
                     .operations = 1,
                     .input_elements = 9223372036854775806U,
                     .output_elements = 1,
                     .first_input = 9223372036854775806U,
                     .last_output = 1,
                     .dtype_bytes = 1};
  CHECK(count_bytes(chain, "x.json").unfused.total() == 9223372036854775807U);
  chain.output_elements = 2;
  CHECK_THROWS_WITH_AS(count_bytes(chain, "x.json"),
                       "x.json: /0: up to here, 9223372036854775806 + 2 elements of 1 byte are "
                       "more than 9223372036854775807 bytes",
                       Error);
}

TEST_CASE("a product past 2^64 is refused, not wrapped") {
  const SizeChain chain = {.name = {},
                           .operations = 1,
                           .input_elements = 1ULL << 32U,
                           .output_elements = 0,
                           .first_input = 1ULL << 32U,
                           .last_output = 0,
                           .dtype_bytes = 1ULL << 32U};  // 2^64 would wrap to 0
  CHECK_THROWS_AS(count_bytes(chain, "x.json"), Error);
}
