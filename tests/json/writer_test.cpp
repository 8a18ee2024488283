#include "json/writer.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "support/written.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

template <typename Fill>
std::string json(const Fill& fill) {
  return written([&](Output& output) {
    JsonWriter writer(output);
    fill(writer);
  });
}

std::string array_of(const auto&... values) {
  return json([&](JsonWriter& writer) {
    writer.begin_array(JsonWriter::Layout::kInline);
    (writer.value(values), ...);
    writer.end();
  });
}

}  // namespace

TEST_CASE("a compact container has no spaces, nor have those inside it") {
  const std::string text = json([](JsonWriter& writer) {
    writer.begin_object(JsonWriter::Layout::kCompact);
    writer.key("ops").begin_array().value("a, b").value(std::uint64_t{2}).end();
    writer.key("none").begin_object().end().end();
  });
  CHECK(text == "{\"ops\":[\"a, b\",2],\"none\":{}}\n");
}

TEST_CASE("containers are indented by two spaces and end with a line break") {
  const std::string text = json([](JsonWriter& writer) {
    writer.begin_object();
    writer.member("name", "ops");
    writer.key("kernels").begin_array();
    writer.begin_object().member("read", std::uint64_t{8}).end();
    writer.begin_object().member("read", std::uint64_t{9}).end();
    writer.end();
    writer.end();
  });
  CHECK(text == R"({
  "name": "ops",
  "kernels": [
    {
      "read": 8
    },
    {
      "read": 9
    }
  ]
}
)");
}

TEST_CASE("an inline container keeps everything in it on its line") {
  const std::string text = json([](JsonWriter& writer) {
    writer.begin_object();
    writer.key("ops").begin_array(JsonWriter::Layout::kInline).value("a");
    writer.begin_object().key("b").null().end();
    writer.end();
    writer.member("last", true);
    writer.end();
  });
  CHECK(text == R"({
  "ops": ["a", {"b": null}],
  "last": true
}
)");
}

TEST_CASE("empty containers are two characters") {
  CHECK(json([](JsonWriter& writer) { writer.begin_object().end(); }) == "{}\n");
  CHECK(json([](JsonWriter& writer) {
          writer.begin_object().key("a").begin_array().end().end();
        }) == "{\n  \"a\": []\n}\n");
}

TEST_CASE("parts of an array are written apart and put together") {
  const std::string text = json([](JsonWriter& writer) {
    writer.begin_object().key("a").begin_array();
    Output numbers = Output::memory();
    Output object = Output::memory();
    writer.part(object, false).begin_object().member("b", true).end();
    writer.part(numbers, true).value(std::uint64_t{1}).value(std::uint64_t{2});
    writer.append(numbers.take());
    writer.append(object.take());
    writer.end().end();
  });
  CHECK(text == R"({
  "a": [
    1,
    2,
    {
      "b": true
    }
  ]
}
)");
  CHECK(json([](JsonWriter& writer) {
          writer.begin_array();
          writer.append("");
          writer.end();
        }) == "[]\n");
}

TEST_CASE("strings escape only what JSON and terminals require") {
  CHECK(array_of("a\"b\\c/d") == "[\"a\\\"b\\\\c/d\"]\n");
  CHECK(array_of("\n\t\x1b\x7f") == "[\"\\u000a\\u0009\\u001b\\u007f\"]\n");
  CHECK(array_of(std::string_view("\0", 1)) == "[\"\\u0000\"]\n");
  CHECK(array_of("λ→😀") == "[\"λ→😀\"]\n");
  CHECK(array_of("\u009b\u202e\ufffe\u200b") == "[\"\\u009b\\u202e\\ufffe\\u200b\"]\n");
  CHECK(array_of("\U000e0041\U0010ffff") == "[\"\\udb40\\udc41\\udbff\\udfff\"]\n");
  CHECK(array_of("caf\xe9\xc3") == "[\"caf\\ufffd\\ufffd\"]\n");  // not UTF-8
  CHECK(json([](JsonWriter& writer) { writer.begin_object().member("\"", 1.5).end(); }) ==
        "{\n  \"\\\"\": 1.5\n}\n");
}

TEST_CASE("integers are exact and doubles always look like doubles") {
  CHECK(array_of(std::numeric_limits<std::uint64_t>::max()) == "[18446744073709551615]\n");
  CHECK(array_of(std::numeric_limits<std::int64_t>::min()) == "[-9223372036854775808]\n");
  CHECK(array_of(0.0, 100.0, -0.5, 88.89) == "[0.0, 100.0, -0.5, 88.89]\n");
  CHECK(array_of(true, false) == "[true, false]\n");
}
