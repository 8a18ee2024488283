// What fits scans, sorts, and ops whose results depend on where their elements are.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "codegen/random_rules.hpp"

namespace fusecalc::testing {

std::string list(std::string_view key, const std::vector<std::int64_t>& values) {
  return fmt::format("\"{}\": [{}]", key, fmt::join(values, ", "));
}

std::string flag(std::string_view key, bool value) { return fmt::format("\"{}\": {}", key, value); }

std::string word(std::string_view key, std::string_view value) {
  return fmt::format("\"{}\": \"{}\"", key, value);
}

std::string number(Drawer& d) {
  constexpr std::array<std::string_view, 9> kNumbers = {"0",  "1",    "-1",    "2",    "0.5",
                                                        "-3", "1e-3", "1e300", "65537"};
  return std::string(d.one_of(kNumbers));
}

std::vector<std::int64_t> signed_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Some axis, now and then counted from the end.
std::int64_t some_axis(Drawer& d, std::size_t rank) {
  const auto axis = static_cast<std::int64_t>(d.dice().below(rank));
  return d.dice().chance(20) ? axis - static_cast<std::int64_t>(rank) : axis;
}

std::string combining(Drawer& d) {
  constexpr std::array<std::string_view, 5> kWords = {"replace", "add", "mul", "max", "min"};
  return word("combine", d.one_of(kWords));
}

namespace {

void pad(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick();
  line.inputs = {x.name};
  std::vector<std::int64_t> before(x.shape.size());
  std::vector<std::int64_t> after(x.shape.size());
  constexpr std::array<std::string_view, 3> kOwn = {"reflect", "replicate", "circular"};
  const bool own = d.dice().chance(40);
  const std::int64_t least = own ? 0 : -1;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const std::uint64_t most = own ? std::clamp<std::uint64_t>(x.shape[i], 1, 6) : 6;
    if (d.dice().chance(50)) before[i] = static_cast<std::int64_t>(d.dice().below(most)) + least;
    if (d.dice().chance(50)) after[i] = static_cast<std::int64_t>(d.dice().below(most)) + least;
  }
  line.attributes = {list("before", before), list("after", after)};
  if (own) {
    line.attributes.push_back(word("border", d.one_of(kOwn)));
    return;
  }
  if (d.dice().chance(40)) line.attributes.push_back("\"value\": " + number(d));
}

void roll(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name};
  std::vector<std::int64_t> axes;
  std::vector<std::int64_t> shifts;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (!d.dice().chance(60)) continue;
    axes.push_back(static_cast<std::int64_t>(i));
    shifts.push_back(static_cast<std::int64_t>(d.dice().below(12)) - 6);
  }
  line.attributes = {list("axes", axes), list("shifts", shifts)};
}

void flip(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick();
  line.inputs = {x.name};
  if (x.shape.empty() || d.dice().chance(30)) return;
  line.attributes = {list("axes", {some_axis(d, x.shape.size())})};
}

void repeat(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick();
  line.inputs = {x.name};
  std::vector<std::int64_t> repeats(x.shape.size() + d.dice().below(2));
  for (std::int64_t& times : repeats) times = 1 + static_cast<std::int64_t>(d.dice().below(3));
  line.attributes = {list("repeats", repeats)};
}

void rotary(Drawer& d, const OpRow& /*row*/, Line& line) {
  Drawn x = d.pick_ranked(1);
  if (x.shape.back() < 2 || d.dice().chance(40)) {
    Shape shape = x.shape;
    shape.back() = 2 + d.dice().below(40);
    x = d.input(shape);
  }
  const std::uint64_t pairs =
      d.dice().chance(60) ? x.shape.back() / 2 : 1 + d.dice().below(x.shape.back() / 2);
  Shape angles = x.shape;
  angles.back() = d.dice().chance(50) ? pairs : 2 * pairs;
  for (std::size_t i = 0; i + 1 < angles.size(); ++i) {
    if (d.dice().chance(30)) angles[i] = 1;
  }
  if (d.dice().chance(30)) angles = {angles.back()};
  if (2 * pairs != x.shape.back()) line.attributes = {fmt::format("\"rotated\": {}", 2 * pairs)};
  if (d.dice().chance(50)) line.attributes.push_back(flag("interleaved", true));
  line.inputs = {x.name, d.input(angles).name, d.input(angles).name};
}

void triangle(Drawer& d, const OpRow& /*row*/, Line& line) {
  line.inputs = {d.pick_ranked(2).name};
  if (d.dice().chance(50)) {
    line.attributes = {
        fmt::format("\"diagonal\": {}", static_cast<std::int64_t>(d.dice().below(9)) - 4)};
  }
}

void one_hot(Drawer& d, const OpRow& /*row*/, Line& line) {
  line.inputs = {d.indices(d.shape()).name};
  line.attributes = {fmt::format("\"classes\": {}", 1 + d.dice().below(40))};
  if (d.dice().chance(70)) line.attributes.push_back(word("to", name_of(d.any_dtype())));
}

void made(Drawer& d, const OpRow& row, Line& line) {
  line.attributes = {list("shape", signed_of(d.shape())), word("to", name_of(d.any_dtype()))};
  if ((row.attributes & only(Attribute::kValue)) != 0) {
    line.attributes.push_back("\"value\": " + number(d));
  } else {
    line.attributes.push_back(fmt::format("\"first\": {}, \"delta\": {}", number(d), number(d)));
  }
}

void gather_elements(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  const std::size_t axis = d.dice().below(x.shape.size());
  Shape named = x.shape;
  named[axis] = d.extent();
  line.inputs = {x.name, d.indices(named).name};
  line.attributes = {list("axes", {static_cast<std::int64_t>(axis)})};
}

void scatter_elements(Drawer& d, const OpRow& row, Line& line) {
  gather_elements(d, row, line);
  const Drawn named = d.last();
  line.inputs.push_back(d.input(named.shape).name);
  line.attributes.push_back(combining(d));
}

void scan(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name};
  if (d.dice().chance(60)) line.attributes = {list("axes", {some_axis(d, x.shape.size())})};
}

void sort(Drawer& d, const OpRow& row, Line& line) {
  const Drawn x = d.pick_ranked(1);
  const std::int64_t axis = some_axis(d, x.shape.size());
  line.inputs = {x.name};
  line.attributes = {list("axes", {axis})};
  if ((row.attributes & only(Attribute::kK)) != 0) {
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    const std::uint64_t extent = x.shape[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
    line.attributes.push_back(fmt::format("\"k\": {}", std::min<std::uint64_t>(extent, 3)));
    line.attributes.push_back(flag("largest", d.dice().chance(50)));
  } else {
    line.attributes.push_back(flag("descending", d.dice().chance(50)));
  }
  line.outputs = 1 + d.dice().below(2);
}

constexpr std::array kIndexRules = {
    RandomRule{OpFamily::kPad, pad},
    RandomRule{OpFamily::kRoll, roll},
    RandomRule{OpFamily::kFlip, flip},
    RandomRule{OpFamily::kRepeat, repeat},
    RandomRule{OpFamily::kRotary, rotary},
    RandomRule{OpFamily::kTriangle, triangle},
    RandomRule{OpFamily::kOneHot, one_hot},
    RandomRule{OpFamily::kIota, made},
    RandomRule{OpFamily::kFull, made},
    RandomRule{OpFamily::kGatherElements, gather_elements},
    RandomRule{OpFamily::kScatterElements, scatter_elements},
    RandomRule{OpFamily::kScan, scan},
    RandomRule{OpFamily::kSort, sort},
};

}  // namespace

std::span<const RandomRule> index_rules() { return kIndexRules; }

}  // namespace fusecalc::testing
