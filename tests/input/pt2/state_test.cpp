// Inputs that a program overwrites: caches, buffers and the like.

#include <doctest/doctest.h>

#include <string>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

TEST_CASE("pt2: a cache of which a range is written is not copied, decomposed or not") {
  ProgramText functional;
  functional.input("cache", {4, 100, 8}).input("k", {4, 2, 8});
  functional.tensor("part", {4, 2, 8}, {800, 8, 1}).tensor("new", {4, 2, 8});
  functional.tensor("now", {4, 100, 8}).tensor("y", {4, 100, 8});
  functional.node("slice", {{"self", "cache"}, {"dim", 1}, {"start", 5}, {"end", 7}}, {"part"});
  functional.node("copy", {{"self", "part"}, {"src", "k"}}, {"new"});
  functional.node("slice_scatter",
                  {{"self", "cache"}, {"src", "new"}, {"dim", 1}, {"start", 5}, {"end", 7}},
                  {"now"});
  functional.node("relu", {{"self", "now"}}, {"y"}).mutation("now", "cache").output("y");

  ProgramText raw;
  raw.input("cache", {4, 100, 8}).input("k", {4, 2, 8});
  raw.tensor("part", {4, 2, 8}, {800, 8, 1}).tensor("new", {4, 2, 8}, {800, 8, 1});
  raw.tensor("y", {4, 100, 8});
  raw.node("slice", {{"self", "cache"}, {"dim", 1}, {"start", 5}, {"end", 7}}, {"part"});
  raw.node("copy_", {{"self", "part"}, {"src", "k"}}, {"new"});
  raw.node("relu", {{"self", "cache"}}, {"y"}).output("y");

  // Two indices are made and read; the rows are read and written, and relu reads and writes all.
  constexpr std::uint64_t kBytes = 2 * 2 * 8 + 4 * 2 * (4 * 2 * 8) + 4 * 2 * (4 * 100 * 8);
  for (const ProgramText& program : {functional, raw}) {
    const Model model = read(program);
    CHECK(unfused(model) == kBytes);
    CHECK(model.origin.opaque == 0);
  }

  // What reads the old elements later needs a copy.
  functional.tensor("z", {4, 2, 8});
  functional.node("relu", {{"self", "part"}}, {"z"}).output("z");
  CHECK(unfused(read(functional)) > kBytes + 4 * (4 * 100 * 8));
}

TEST_CASE("pt2: what an input is overwritten with is copied if it is another input's") {
  ProgramText text;
  text.input("target", {64, 32}).input("online", {64, 32}).input("x", {8}).tensor("y", {8});
  text.node("relu", {{"self", "x"}}, {"y"}).mutation("online", "target").output("y");
  const Model model = read(text);
  CHECK(calls_of(model) == Words{"relu(x)", "copy(online)"});
  CHECK(unfused(model) == 4 * 2 * (64 * 32 + 8));

  // What was computed is written there at once.
  ProgramText computed;
  computed.input("target", {64}).input("x", {64}).tensor("y", {64});
  computed.node("relu", {{"self", "x"}}, {"y"}).mutation("y", "target");
  CHECK(unfused(read(computed)) == 4 * 2 * 64);
}

TEST_CASE("pt2: an op of another library without results overwrites its first operand") {
  ProgramText text;
  text.input("cache", {64, 8}).input("k", {1, 8}).tensor("y", {64, 8});
  text.node("torch.ops.mine.write.default", {{"cache", "cache"}, {"k", "k"}}, {});
  text.node("relu", {{"self", "cache"}}, {"y"}).output("y");
  const Model model = read(text);
  CHECK(model.origin.opaque == 1);
  CHECK(unfused(model) == 4 * (8 + 4 * 64 * 8));
}
