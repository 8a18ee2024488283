#include "core/short_names.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "core/text.hpp"

using namespace fusecalc;

TEST_CASE("names that fit stay as they are") {
  ShortNames names(12);
  CHECK(names.of("a") == "a");
  CHECK(names.of("twelve_chars") == "twelve_chars");
  CHECK(names.of("") == "");
  CHECK(names.of("a\nb") == "a\\u000ab");
}

TEST_CASE("longer names are cut in the middle") {
  ShortNames names(13);
  CHECK(names.of("layers.0.gate_proj.weight") == "layer...eight");
  // Characters, not bytes.
  CHECK(names.of("ääääääääääääää") == "äääää...äääää");
}

TEST_CASE("no two names of a table read alike") {
  ShortNames names(24);
  std::set<std::string> seen;
  std::size_t count = 0;
  for (int layer = 0; layer < 64; ++layer) {
    for (const char* what : {"gate_proj", "up_proj", "down_proj"}) {
      for (const char* part : {"weight", "bias"}) {
        const std::string name = fmt::format("model.layers.{}.mlp.{}.{}", layer, what, part);
        const std::string& text = names.of(name);
        CHECK(display_width(text) <= 24);
        seen.insert(text);
        ++count;
        CHECK(names.of(name) == text);
      }
    }
  }
  CHECK(seen.size() == count);
}

TEST_CASE("names that differ only where every cut falls are numbered") {
  ShortNames names(8);
  const std::string left(100, 'a');
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) {
    const std::string& text = names.of(left + fmt::format("{:03}", i) + left);
    CHECK(display_width(text) <= 8);
    seen.insert(text);
  }
  CHECK(seen.size() == 300);
  // A short name that reads like one that was cut.
  ShortNames few(5);
  CHECK(few.of("abcdefgh") == "a...h");
  CHECK(few.of("a...h") != "a...h");
}
