// A file reaches the reader in chunks of 128 KiB. Each test slides a short document, byte by byte,
// across the first edge, with white space before it.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "core/error.hpp"
#include "json/reader.hpp"
#include "support/files.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

constexpr std::size_t kEdge = std::size_t{1} << 17U;

// Calls check(spaces, path) for every number of spaces that puts the edge inside `document`.
template <typename Check>
void slide_across_edge(std::string_view document, const Check& check) {
  const TempDir folder;
  const std::string path = (folder / "x.json").string();
  for (std::size_t before = 0; before <= document.size(); ++before) {
    const std::size_t spaces = kEdge - before;
    write_file(path, std::string(spaces, ' ') + std::string(document));
    CAPTURE(before);
    check(spaces, path);
  }
}

struct Content {
  std::string text;
  std::uint64_t count = 0;
  std::uint64_t small = 0;
  bool flag = false;
  bool operator==(const Content&) const = default;
};

constexpr std::array<std::string_view, 4> kItemFields = {"text", "count", "small", "flag"};

Content read_content(JsonReader& reader) {
  Content content;
  reader.read_array([&](std::size_t) {
    reader.read_object(kItemFields, [&](std::size_t field) {
      switch (field) {
        case 0: content.text = reader.read_string(); break;
        case 1: content.count = reader.read_count("a count"); break;
        case 2: content.small = reader.read_count("a count"); break;
        default: content.flag = reader.read_boolean();
      }
    });
  });
  reader.expect_end();
  return content;
}

std::string error_of(const std::string& path) {
  try {
    JsonReader reader(ByteSource::open(path));
    read_content(reader);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("strings, keys, numbers and literals read the same across the edge of a chunk") {
  constexpr std::string_view kDocument =
      "[{\"text\": \"plain λ→😀 \\n\\u00e9\\ud83d\\ude00 end\", \"c\\u006funt\" : "
      "1234567890123456789, \"small\":42 ,\"flag\": true}]\n";
  const Content expected = {.text = "plain λ→😀 \n\u00e9\U0001f600 end",
                            .count = 1234567890123456789U,
                            .small = 42,
                            .flag = true};
  slide_across_edge(kDocument, [&](std::size_t, const std::string& path) {
    JsonReader reader(ByteSource::open(path));
    CHECK(read_content(reader) == expected);
  });
}

TEST_CASE("a string longer than several chunks is read whole") {
  const TempDir folder;
  std::string text;
  while (text.size() < 5 * kEdge) text += "0123456789λ";
  write_file(folder / "x.json", "\"" + text + "\"");
  JsonReader reader(ByteSource::open((folder / "x.json").string()));
  CHECK(reader.read_string() == text);
}

TEST_CASE("a string may have a mebibyte and no more, wherever the edge falls") {
  const std::string most(std::size_t{1} << 20U, 'a');
  for (const std::size_t chunk_bytes : {std::size_t{1000}, std::size_t{1} << 21U}) {
    CAPTURE(chunk_bytes);
    const auto read = [&](const std::string& text) {
      return JsonReader(ByteSource::from_memory(text, "x.json", chunk_bytes)).read_string();
    };
    CHECK(read("\"" + most + "\"") == most);
    for (const std::string more : {"b", "\\n", "\u00e9"}) {
      CHECK_THROWS_WITH_AS(read("\n\"" + most + more + "\""),
                           "x.json: line 2: a string of over 1048576 bytes; shorten it", Error);
    }
  }
}

TEST_CASE("invalid UTF-8 is placed at its first byte wherever the edge falls") {
  slide_across_edge("[{\"text\": \"ab\xf0\x9f\x98\"}]", [](std::size_t spaces,
                                                           const std::string& path) {
    // `[{"text": "ab` is 13 columns wide.
    CHECK(error_of(path) == path + ": line 1, column " + std::to_string(spaces + 14) +
                                ": not JSON: invalid UTF-8 in a string (save the file as UTF-8)");
  });
}

TEST_CASE("half a surrogate pair is placed at its escape wherever the edge falls") {
  slide_across_edge(R"([{"text": "\ud83d\u0041"}])", [](std::size_t spaces,
                                                        const std::string& path) {
    CHECK(error_of(path) == path + ": line 1, column " + std::to_string(spaces + 12) +
                                ": not JSON: half of a surrogate pair in a string (write both, or "
                                "the character)");
  });
}

TEST_CASE("a misspelt literal is shown whole wherever the edge falls") {
  slide_across_edge("[\n {\"count\": Infinity}]", [](std::size_t, const std::string& path) {
    CHECK(error_of(path) == path +
                                ": line 2, column 12: not JSON: expected a value, found "
                                "\"Infinity\" (NaN and Infinity are not JSON)");
  });
}

TEST_CASE("an unknown or repeated key is recognised wherever the edge falls") {
  slide_across_edge(R"([{"smal": 1}])", [](std::size_t, const std::string& path) {
    CHECK(error_of(path) == path + ": /0/smal: unknown key \"smal\" (did you mean \"small\"?)");
  });
  slide_across_edge(R"([{"small": 1, "small": 2}])", [](std::size_t, const std::string& path) {
    CHECK(error_of(path) == path + ": /0/small: duplicate key; keep one");
  });
}

TEST_CASE("a document cut off at the edge ends there") {
  const TempDir folder;
  const std::string path = (folder / "x.json").string();
  write_file(path, std::string(kEdge - 2, ' ') + "[{");
  CHECK(error_of(path) == path +
                              ": line 1, column 131073: not JSON: the text ends where a key in " +
                              "double quotes or \"}\" should be");
}
