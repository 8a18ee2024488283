#include "json/reader.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "core/error.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using fusecalc::testing::Words;

namespace {

JsonReader reader_of(std::string_view text) {
  return JsonReader(ByteSource::from_memory(text, "x.json"));
}

std::string text_in(std::string_view literal) { return reader_of(literal).read_string(); }

constexpr std::array<std::string_view, 2> kFields = {"first", "second"};

}  // namespace

TEST_CASE("a reader tells the kind of a value without reading it") {
  CHECK(reader_of(" {").peek() == JsonKind::kObject);
  CHECK(reader_of("\n[").peek() == JsonKind::kArray);
  CHECK(reader_of("\t\"").peek() == JsonKind::kString);
  CHECK(reader_of("\r-1").peek() == JsonKind::kNumber);
  CHECK(reader_of("true").peek() == JsonKind::kBoolean);
  CHECK(reader_of("false").peek() == JsonKind::kBoolean);
  CHECK(reader_of("null").peek() == JsonKind::kNull);
}

TEST_CASE("a string is read with its escapes resolved") {
  CHECK(text_in(R"("")") == "");
  CHECK(text_in(R"("layer norm")") == "layer norm");
  CHECK(text_in(R"("\"\\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
  CHECK(text_in(R"("\u0041\u00e9\u20AC")") == "A\u00e9\u20ac");
  CHECK(text_in(R"("\ud83d\uDE00")") == "\U0001f600");
  CHECK(text_in(R"("\udbff\udfff")") == "\U0010ffff");
  CHECK(text_in(R"("a\u0000b")") == std::string("a\0b", 3));
  CHECK(text_in("\"\u00e9\u20ac\U0001f600\x7f\"") == "\u00e9\u20ac\U0001f600\x7f");
}

TEST_CASE("a boolean is read") {
  CHECK(reader_of("true").read_boolean());
  CHECK_FALSE(reader_of("false").read_boolean());
  CHECK_THROWS_WITH_AS(reader_of("null").read_boolean(), "x.json: must be true or false, not null",
                       Error);
  CHECK_THROWS_WITH_AS(reader_of("truth").read_boolean(),
                       "x.json: line 1, column 1: not JSON: expected a value, found \"truth\"",
                       Error);
}

TEST_CASE("a number keeps its text and has a kind") {
  JsonReader reader = reader_of("-12.50e+3 ");
  const JsonNumber number = reader.read_number();
  CHECK(number.text == "-12.50e+3");
  CHECK(number.negative);
  CHECK_FALSE(number.integer);
  CHECK_FALSE(number.fits);
}

TEST_CASE("an integer fits up to 2^63 - 1 on either side of zero") {
  const auto read = [](std::string_view text) { return reader_of(text).read_number(); };
  CHECK(read("0").fits);
  CHECK(read("9223372036854775807").magnitude == 9223372036854775807U);
  CHECK(read("9223372036854775807").fits);
  CHECK_FALSE(read("9223372036854775808").fits);
  CHECK(read("-9223372036854775807").fits);
  CHECK_FALSE(read("18446744073709551616").fits);  // 2^64 would wrap to 0
  CHECK(read("18446744073709551616").integer);
}

TEST_CASE("a count is a number without a sign, a fraction or an exponent") {
  const auto read = [](std::string_view text) { return reader_of(text).read_count("a count"); };
  CHECK(read("0") == 0);
  CHECK(read("-0") == 0);
  CHECK(read("7") == 7);
  CHECK(read("123456789012345678,") == 123456789012345678U);    // 18 digits
  CHECK(read("1234567890123456789,") == 1234567890123456789U);  // 19
  CHECK(read("9223372036854775807 ") == 9223372036854775807U);
  CHECK_THROWS_WITH_AS(
      read("9223372036854775808,                "),
      "x.json: 9223372036854775808 is too large (the maximum is 9223372036854775807)", Error);
  CHECK_THROWS_WITH_AS(read("1.0"), "x.json: must be a count in plain digits, not 1.0", Error);
  CHECK_THROWS_WITH_AS(read("-1"), "x.json: must not be negative, but is -1", Error);
}

TEST_CASE("an object yields its known keys in any order and reports which it saw") {
  JsonReader reader = reader_of(R"( { "second" : "b" , "first":"a"})");
  Words read;
  const std::uint64_t seen = reader.read_object(kFields, [&](std::size_t field) {
    read.push_back(std::string(kFields[field]) + "=" + reader.read_string());
  });
  CHECK(seen == 0b11U);
  CHECK(read == Words{"second=b", "first=a"});
  CHECK(reader_of("{}").read_object(kFields, [](std::size_t) {}) == 0);
  JsonReader other = reader_of(R"({"second":""})");
  CHECK(other.read_object(kFields, [&](std::size_t) { other.skip_string(); }) == 0b10U);
}

TEST_CASE("free keys are yielded in order, escapes resolved, and only once") {
  JsonReader reader = reader_of(R"({"B": 8, "T\u00e9": 2048, "": 1})");
  Words read;
  reader.read_members([&](const std::string& key) {
    read.push_back(key + "=" + std::to_string(reader.read_count("a size")));
  });
  CHECK(read == Words{"B=8", "T\u00e9=2048", "=1"});

  JsonReader twice = reader_of(R"({"B": 8, "T": 2, "\u0042": 8})");
  const auto read_all = [&] {
    twice.read_members([&](const std::string&) { twice.read_count("a size"); });
  };
  CHECK_THROWS_WITH_AS(read_all(), "x.json: /B: duplicate key; keep one", Error);
}

TEST_CASE("the pointer follows the reader through the document") {
  JsonReader reader = reader_of(R"({"first": [[1, 2], [3]], "second": "x"})");
  Words places = {reader.pointer()};
  reader.read_object(kFields, [&](std::size_t field) {
    places.push_back(reader.pointer());
    if (field == 1) return reader.skip_string();
    reader.read_array([&](std::size_t) {
      reader.read_array([&](std::size_t) {
        places.push_back(reader.pointer());
        reader.read_count("a count");
      });
      places.push_back(reader.pointer());
    });
  });
  places.push_back(reader.pointer());
  CHECK(places == Words{"", "/first", "/first/0/0", "/first/0/1", "/first/0", "/first/1/0",
                        "/first/1", "/second", ""});
}

TEST_CASE("an error raised by a caller is reported with document and pointer") {
  JsonReader reader = reader_of(R"([{"first": "x"}])");
  const auto read = [&] {
    reader.read_array([&](std::size_t) {
      reader.read_object(kFields, [&](std::size_t) {
        reader.skip_string();
        reader.fail("is not to our taste");
      });
    });
  };
  CHECK_THROWS_WITH_AS(read(), "x.json: /0/first: is not to our taste", Error);
}

TEST_CASE("a byte order mark before the document is skipped") {
  JsonReader reader = reader_of("\xEF\xBB\xBF [] x");
  reader.read_array([](std::size_t) {});
  CHECK_THROWS_WITH_AS(
      reader.expect_end(),
      "x.json: line 1, column 5: not JSON: expected the end of the document, found \"x\"", Error);
}

TEST_CASE("white space of every kind is allowed around every token") {
  JsonReader reader = reader_of(" \t\r\n[ \n1\t,\r\n2 ]\n\n");
  std::uint64_t sum = 0;
  reader.read_array([&](std::size_t) { sum += reader.read_count("a count"); });
  reader.expect_end();
  CHECK(sum == 3);
}
