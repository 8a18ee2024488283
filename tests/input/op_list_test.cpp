#include "input/op_list.hpp"

#include <doctest/doctest.h>

using namespace fusecalc;

namespace {

SizeChain chain_of(std::string_view text) {
  JsonReader reader(ByteSource::from_memory(text, "x.json"));
  return std::get<SizeChain>(read_op_list(reader));
}

}  // namespace

TEST_CASE("an array of operations is added up") {
  const SizeChain chain = chain_of(R"([
    {"name": "up", "input_size": 1000, "output_size": 4000},
    {"name": "gelu", "input_size": 4000, "output_size": 4001},
    {"name": "down", "input_size": 4002, "output_size": 1003}])");
  CHECK(chain.operations == 3);
  CHECK(chain.input_elements == 9002);
  CHECK(chain.output_elements == 9004);
  CHECK(chain.first_input == 1000);
  CHECK(chain.last_output == 1003);
  CHECK(chain.dtype_bytes == 2);
  CHECK_FALSE(chain.name.has_value());
}

TEST_CASE("an object wraps the array with a name and an element size, in any order") {
  const SizeChain chain = chain_of(
      R"({"operations": [{"output_size": 3, "input_size": 5}], "name": "mlp", "dtype_bytes": 4})");
  CHECK(chain.operations == 1);
  CHECK(chain.first_input == 5);
  CHECK(chain.last_output == 3);
  CHECK(chain.dtype_bytes == 4);
  CHECK(chain.name == "mlp");
}

TEST_CASE("an operation needs no name") {
  CHECK(chain_of(R"([{"input_size": 1, "output_size": 1}])").operations == 1);
}

TEST_CASE("a list may be empty in either form") {
  CHECK(chain_of("[]").operations == 0);
  CHECK(chain_of(R"({"operations": []})").operations == 0);
}

TEST_CASE("inputs may sum to 2^63 - 1 while outputs do so too") {
  const SizeChain chain =
      chain_of(R"([{"input_size": 9223372036854775806, "output_size": 9223372036854775807},
                   {"input_size": 1, "output_size": 0}])");
  CHECK(chain.input_elements == 9223372036854775807U);
  CHECK(chain.output_elements == 9223372036854775807U);
}
