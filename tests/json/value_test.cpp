#include "json/value.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "core/error.hpp"
#include "support/files.hpp"

namespace fusecalc {
namespace {

JsonValue parsed(std::string_view text) {
  JsonReader reader(ByteSource::from_memory(text, "x.json"));
  JsonValue value = read_value(reader, [](std::string_view key) { return key != "drop"; });
  reader.expect_end();
  return value;
}

std::string written(const JsonValue& value) {
  const testing::TempDir folder;
  Output output = Output::file(folder / "x.json");
  JsonWriter json(output);
  write_value(json, value);
  output.finish();
  return testing::read_file(folder / "x.json");
}

TEST_CASE("a JSON value is written as it was read, numbers of every kind included") {
  const std::string text =
      R"({"b": [1, -2, 0.5, 9223372036854775807, 1e300], "a": {"t": true, "n": null, "s": "\"x\""}})";
  CHECK(written(parsed(text)) == R"({"b": [1, -2, 0.5, 9223372036854775807, 1e+300], )"
                                 R"("a": {"t": true, "n": null, "s": "\"x\""}})"
                                 "\n");
}

TEST_CASE("members that are not kept are skipped at any depth") {
  const JsonValue value = parsed(R"({"drop": {"x": 1}, "keep": [{"drop": [[]], "y": 7}]})");
  CHECK(value.object()->size() == 1);
  const auto& elements = std::get<JsonValue::Array>(value.find("keep")->content);
  CHECK(elements.at(0).object()->size() == 1);
  CHECK(*elements.at(0).find("y")->count() == 7);
  CHECK(value.find("drop") == nullptr);
  CHECK(elements.at(0).find("y")->text() == nullptr);
  CHECK(elements.at(0).find("y")->find("z") == nullptr);
}

TEST_CASE("a number that no double holds is refused") {
  CHECK_THROWS_WITH_AS(parsed(R"({"a": 1e999})"),
                       "x.json: /a: must be a number that a double can hold, not 1e999", Error);
}

}  // namespace
}  // namespace fusecalc
