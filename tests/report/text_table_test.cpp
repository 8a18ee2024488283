#include "report/text_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/text.hpp"
#include "support/written.hpp"

using namespace fusecalc;
using Kind = TextTable::Kind;

namespace {

std::string drawn(std::size_t width, bool utf8 = true,
                  const std::string& name = "attention.scores") {
  const Style style{.width = width, .utf8 = utf8};
  TextTable table({{"kernel", Kind::kName}, {"bytes", Kind::kNumber}, {"", Kind::kBar}}, style);
  table.add({name, "1.5 GB", 1.0});
  table.add({"add", "12 kB", 0.5});
  table.add({"none", "0 B", 0.0});
  return fusecalc::testing::written([&](Output& output) { table.write(output); });
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = text.find('\n', from);
    widest = std::max(widest, display_width(text.substr(from, to - from)));
    from = to + 1;
  }
  return widest;
}

}  // namespace

TEST_CASE("text table: names left, numbers right, bars in what is left") {
  CHECK(drawn(40) ==
        "  kernel             bytes\n"
        "  attention.scores  1.5 GB  ████████████\n"
        "  add                12 kB  ██████\n"
        "  none                 0 B\n");
  CHECK(drawn(40, false) ==
        "  kernel             bytes\n"
        "  attention.scores  1.5 GB  ############\n"
        "  add                12 kB  ######\n"
        "  none                 0 B\n");
}

TEST_CASE("text table: bars shrink and go first, then names are cut") {
  CHECK(drawn(34).find("  attention.scores  1.5 GB  ██████\n") != std::string::npos);
  // Fewer than six cells tell nothing.
  CHECK(drawn(33).find("  attention.scores  1.5 GB\n") != std::string::npos);
  CHECK(drawn(24).find("  atten...scores  1.5 GB\n") != std::string::npos);
  const std::string layers = "model.layers.0.mlp.gate_proj.up_proj.down_proj";
  for (std::size_t width = 20; width <= 200; ++width) {
    CAPTURE(width);
    CHECK(widest_line(drawn(width, true, layers)) <= std::max<std::size_t>(width, 20));
  }
  // A long name leaves the bars their six cells for as long as it keeps 24.
  CHECK(drawn(42, true, layers).find("  model.laye...j.down_proj  1.5 GB  ██████\n") !=
        std::string::npos);
}

TEST_CASE("text table: names that are cut stay distinct") {
  const Style style{.width = 20};
  TextTable table({{"", Kind::kName}, {"", Kind::kNumber}}, style, 0);
  table.add({"layers.0.attention.query.weight", "1"});
  table.add({"layers.1.attention.query.weight", "2"});
  table.add({"layers.0.attention.query.weight", "3"});
  const std::string text = fusecalc::testing::written([&](Output& output) { table.write(output); });
  const std::string first = text.substr(0, text.find("  1\n"));
  CHECK(display_width(first) == 17);
  const std::size_t second = text.find('\n') + 1;
  CHECK(text.substr(second, first.size()) != first);
  CHECK(text.substr(text.find('\n', second) + 1).starts_with(first));
}

TEST_CASE("text table: a number stays with its unit") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of_words("x 67.11 MB, w 8.192 kB", 12) == Lines{"x 67.11 MB,", "w 8.192 kB"});
  CHECK(lines_of_words("x 67.11 MB, w 8.192 kB", 9) == Lines{"x", "67.11 MB,", "w", "8.192 kB"});
  CHECK(lines_of_words("1.0 us to 2.0 us, bound", 9) == Lines{"1.0 us to", "2.0 us,", "bound"});
  CHECK(lines_of_words("of 8 rows", 4) == Lines{"of 8", "rows"});
}

TEST_CASE("text table: what has no title has no heading, and colours take no room") {
  const Style style{.colour = true, .width = 40};
  TextTable table({{"", Kind::kName}, {"", Kind::kWords}}, style, 0);
  table.add({"a", {"words that are as many as fit a line..", "31"}}, {}, "below\n");
  table.add({"b", "short"}, "1");
  CHECK(fusecalc::testing::written([&](Output& output) { table.write(output); }) ==
        "a  \x1b[31mwords that are as many as fit a\x1b[0m\n   \x1b[31mline..\x1b[0m\nbelow\n"
        "\x1b[1mb  short\x1b[0m\n");
}

TEST_CASE("text table: words go on below, and what has no spaces is broken") {
  const Style style{.width = 24};
  TextTable table({{"op", Kind::kName}, {"n", Kind::kNumber}, {"does", Kind::kWords}}, style, 0);
  table.add({"maximum", "2", "the larger of both"});
  table.add({"odd", "10", "größer-als-zwölf-Zeichen a"});
  table.add({"none", "3", ""});
  CHECK(fusecalc::testing::written([&](Output& output) { table.write(output); }) ==
        "op        n  does\n"
        "maximum   2  the larger\n"
        "             of both\n"
        "odd      10  größer-als-\n"
        "             zwölf-Zeich\n"
        "             en a\n"
        "none      3\n");
}

TEST_CASE(
    "text table: columns that find no room are written below their row, the last ones first") {
  const auto shown = [](std::size_t width) {
    const Style style{.width = width};
    TextTable table({{"kernel", Kind::kName},
                     {"bytes", Kind::kNumber},
                     {"time", Kind::kNumber},
                     {"", Kind::kText},
                     {"verdict", Kind::kText},
                     {"", Kind::kBar}},
                    style);
    table.add({"scores", "1.5 GB", "1.2 ms", "late", "much worse", 1.0}, {}, "      why\n");
    table.add({"add", "12 kB", "8 us", "", "same", 0.0});
    return fusecalc::testing::written([&](Output& output) { table.write(output); });
  };
  CHECK(shown(50) ==
        "  kernel   bytes    time        verdict\n"
        "  scores  1.5 GB  1.2 ms  late  much worse  ██████\n"
        "      why\n"
        "  add      12 kB    8 us        same\n");
  CHECK(shown(41) ==
        "  kernel   bytes    time\n"
        "  scores  1.5 GB  1.2 ms  late  █████████\n"
        "      verdict much worse\n"
        "      why\n"
        "  add      12 kB    8 us\n"
        "      verdict same\n");
  CHECK(shown(26) ==
        "  kernel   bytes    time\n"
        "  scores  1.5 GB  1.2 ms\n"
        "      late\n"
        "      verdict much worse\n"
        "      why\n"
        "  add      12 kB    8 us\n"
        "      verdict same\n");
  for (std::size_t width = 18; width <= 60; ++width) {
    CAPTURE(width);
    CHECK(widest_line(shown(width)) <= width);
  }
}
