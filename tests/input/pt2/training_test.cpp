// Batch norms and dropout in training, as a program has them before it is decomposed and after.

#include <doctest/doctest.h>

#include "support/models.hpp"
#include "support/pt2_files.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::pair<std::string, Json>>;

constexpr std::uint64_t kElements = 4 * 6 * 8;
constexpr std::uint64_t kChannels = 6;

// x [4, 6, 8]; weight, bias and running statistics of its 6 channels, and results of these types.
ProgramText with_channels() {
  ProgramText text;
  text.input("x", {4, 6, 8}).input("w", {6}).input("b", {6}).input("m", {6}).input("v", {6});
  text.tensor("y", {4, 6, 8}).tensor("z", {4, 6, 8}).tensor("scratch", {0});
  for (const char* name : {"mean", "rstd", "m2", "v2", "n"}) text.tensor(name, {6});
  return text;
}

Arguments normalised(bool running, bool affine, Json training) {
  Arguments arguments = {{"input", "x"}};
  if (affine) arguments.insert(arguments.end(), {{"weight", "w"}, {"bias", "b"}});
  if (running) arguments.insert(arguments.end(), {{"running_mean", "m"}, {"running_var", "v"}});
  if (!training.is_null()) arguments.emplace_back("training", std::move(training));
  arguments.insert(arguments.end(), {{"momentum", 0.1}, {"eps", 1e-5}});
  return arguments;
}

}  // namespace

TEST_CASE(
    "pt2: a batch norm in training overwrites the running statistics, if it is not functional") {
  struct Case {
    const char* op;
    std::vector<std::string> results;
    Json training;
  };
  const std::vector<Case> cases = {
      {"batch_norm", {"y"}, true},
      {"native_batch_norm", {"y", "mean", "rstd"}, true},
      {"_native_batch_norm_legit", {"y", "mean", "rstd"}, true},
      {"_batch_norm_with_update", {"y", "mean", "rstd", "scratch"}, nullptr},
      {"_native_batch_norm_legit_functional", {"y", "mean", "rstd", "m2", "v2"}, true},
      {"_batch_norm_with_update_functional", {"y", "mean", "rstd", "scratch", "m2", "v2"}, nullptr},
  };
  for (const Case& each : cases) {
    CAPTURE(each.op);
    ProgramText text = with_channels();
    text.node(each.op, normalised(true, true, each.training), each.results).output("y");
    const bool functional = each.results.back() == "v2";
    // What is read of the running mean after it is what it has become.
    text.node("relu", {{"self", functional ? "m2" : "m"}}, {"n"}).output("n");
    if (functional) text.output("m2").output("v2");
    const Model model = read(text);
    CHECK(rows_of(model) == Words{"batch_norm", "relu"});
    CHECK(std::get<std::string>(model.graph.ops[1].inputs[0]) == model.graph.ops[0].outputs[3]);
    CHECK(model.origin.opaque == 0);
    CHECK(model.graph.outputs->size() == 4);  // y, n and the new statistics
    // x is read twice, weight, bias and statistics once; two new ones are written; the relu.
    CHECK(unfused(model) == 4 * (3 * kElements + (4 + 2 + 2) * kChannels));
  }
}

TEST_CASE("pt2: a batch norm in training has statistics of its own without running ones") {
  ProgramText text = with_channels();
  text.node("batch_norm", normalised(false, true, true), {"y"}).output("y");
  CHECK(rows_of(read(text)) == Words{"batch_norm"});
  CHECK(unfused(read(text)) == 4 * (3 * kElements + 2 * kChannels));

  ProgramText saved = with_channels();
  saved.node("_native_batch_norm_legit", normalised(false, true, true), {"y", "mean", "rstd"});
  saved.output("y").output("mean").output("rstd");
  CHECK(rows_of(read(saved)) == Words{"batch_norm", "add", "rsqrt"});
  // Mean and variance are written; 1 / deviation is computed of the latter by two ops.
  CHECK(unfused(read(saved)) == 4 * (3 * kElements + (2 + 2 + 4) * kChannels));
}

TEST_CASE("pt2: a batch norm without weight and bias has ones and zeros") {
  for (const bool training : {true, false}) {
    CAPTURE(training);
    ProgramText text = with_channels();
    text.node("batch_norm", normalised(true, false, training), {"y"}).output("y");
    CHECK(rows_of(read(text)) == Words{"full", "full", "batch_norm"});
  }
  ProgramText instance = with_channels();
  Arguments arguments = normalised(true, true, nullptr);
  arguments.emplace_back("use_input_stats", false);
  instance.node("instance_norm", arguments, {"y"}).output("y");
  CHECK(rows_of(read(instance)) == Words{"batch_norm"});
  CHECK(unfused(read(instance)) == 4 * (2 * kElements + 4 * kChannels));
}

TEST_CASE("pt2: dropout in place overwrites what it drops") {
  ProgramText text = with_channels();
  text.node("relu", {{"self", "x"}}, {"y"});
  text.node("dropout_", {{"self", "y"}, {"p", 0.5}, {"train", true}}, {"z"});
  text.output("y").output("z");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"relu", "dropout"});
  CHECK(unfused(model) == 4 * 4 * kElements);
}

TEST_CASE("pt2: ones with a probability are a dropout of a number") {
  for (const std::string op : {"bernoulli", "bernoulli_"}) {
    CAPTURE(op);
    ProgramText text = with_channels();
    text.node("empty_like", {{"self", "x"}}, {"y"});
    text.node(op, {{"self", "y"}, {"p", 0.9}}, {"z"}).output("z");
    const Model model = read(text);
    CHECK(rows_of(model) == Words{"full", "expand_view", "dropout"});
    // The number is written and read.
    CHECK(unfused(model) == 4 * (2 + kElements));
  }
  ProgramText always = with_channels();
  always.node("bernoulli", {{"self", "x"}, {"p", 1.0}}, {"y"}).output("y");
  CHECK(rows_of(read(always)) == Words{"full"});
  // Whole numbers, and probabilities of each element.
  ProgramText each = with_channels();
  each.node("bernoulli", {{"self", "x"}}, {"y"}).output("y");
  CHECK(rows_of(read(each)) == Words{"custom"});
}

TEST_CASE("pt2: gradients of parts have zeros around them") {
  ProgramText text;
  text.input("d", {4, 3}).input("e", {4}).tensor("y", {4, 8}).tensor("z", {4, 8});
  const Json sizes = {4, 8};
  text.node("slice_backward",
            {{"grad_output", "d"},
             {"input_sizes", sizes},
             {"dim", 1},
             {"start", 2},
             {"end", 5},
             {"step", 1}},
            {"y"});
  text.node("select_backward",
            {{"grad_output", "e"}, {"input_sizes", sizes}, {"dim", 1}, {"index", -1}}, {"z"});
  text.output("y").output("z");
  const Model model = read(text);
  CHECK(rows_of(model) == Words{"pad", "reshape", "pad"});
  CHECK(unfused(model) == 4 * (12 + 32 + 4 + 32));
}

TEST_CASE("pt2: gradients of gated and of parametric linear units are ops of the table") {
  ProgramText text;
  text.input("d", {4, 3}).input("x", {4, 6}).input("u", {4, 3}).input("w", {1, 3});
  text.tensor("y", {4, 6}).tensor("du", {4, 3}).tensor("dw", {4, 3});
  text.node("glu_backward", {{"grad_output", "d"}, {"self", "x"}, {"dim", -1}}, {"y"});
  text.node("_prelu_kernel_backward", {{"grad_output", "d"}, {"self", "u"}, {"weight", "w"}},
            {"du", "dw"});
  text.output("y").output("du").output("dw");
  const Model model = read(text);
  CHECK(model.origin.opaque == 0);
  CHECK(rows_of(model) == Words{"slice_view", "slice_view", "sigmoid", "mul", "sub", "mul", "mul",
                                "concat", "gt", "mul", "where", "mul", "where"});
}

TEST_CASE("pt2: the parts of a split that autograd makes are views") {
  ProgramText text;
  text.input("x", {4, 6}).tensor("a", {4, 3}, {6, 1}).tensor("b", {4, 3}, {6, 1});
  text.tensor("y", {4, 3});
  text.node("unsafe_split", {{"self", "x"}, {"split_size", 3}, {"dim", 1}}, {});
  text.graph["nodes"].back()["outputs"] = {{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}};
  text.node("mul", {{"self", "a"}, {"other", "b"}}, {"y"}).output("y");
  CHECK(unfused(read(text)) == 4 * 3 * 12);

  // They may be overwritten: nothing reads what they are parts of.
  ProgramText placed;
  placed.input("x", {4, 6}).tensor("a", {4, 3}, {6, 1}).tensor("b", {4, 3}, {6, 1});
  placed.tensor("s", {4, 3}).tensor("y", {4, 3});
  placed.node("unsafe_split", {{"self", "x"}, {"split_size", 3}, {"dim", 1}}, {});
  placed.graph["nodes"].back()["outputs"] = {{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}};
  placed.node("sigmoid_", {{"self", "a"}}, {"s"});
  placed.node("mul", {{"self", "s"}, {"other", "b"}}, {"y"}).output("y");
  CHECK(rows_of(read(placed)) == Words{"slice_view", "slice_view", "sigmoid", "mul"});
}

TEST_CASE("pt2: what is written to an empty part of memory changes nothing") {
  for (const bool in_place : {false, true}) {
    CAPTURE(in_place);
    ProgramText text;
    text.input("x", {4, 6}).tensor("h", {4, 6}).tensor("p", {0, 6}).tensor("q", {0, 6});
    text.tensor("w", {4, 6}).tensor("y", {4, 6});
    text.node("exp", {{"self", "x"}}, {"h"});
    text.node("slice", {{"self", "h"}, {"dim", 0}, {"start", 4}, {"end", 9}}, {"p"});
    if (in_place) {
      text.node("fill_", {{"self", "p"}, {"value", 1}}, {"q"});
    } else {
      text.node("slice_scatter",
                {{"self", "h"}, {"src", "p"}, {"dim", 0}, {"start", 4}, {"end", 9}}, {"w"});
    }
    text.node("relu", {{"self", in_place ? "h" : "w"}}, {"y"}).output("y");
    CHECK(rows_of(read(text)) == Words{"exp", "relu"});
  }
  // A part of an empty part, of memory that is a number.
  ProgramText text;
  text.input("v", {0, 2}).tensor("h", {4, 6}).tensor("p", {0, 6}).tensor("w", {0, 6});
  text.tensor("u", {4, 6}).tensor("y", {4, 6});
  text.node("zeros", {{"size", Json{4, 6}}}, {"h"});
  text.node("slice", {{"self", "h"}, {"dim", 0}, {"start", 4}, {"end", 9}}, {"p"});
  text.node("slice_scatter", {{"self", "p"}, {"src", "v"}, {"dim", 1}, {"start", 0}, {"end", 2}},
            {"w"});
  text.node("slice_scatter", {{"self", "h"}, {"src", "w"}, {"dim", 0}, {"start", 4}, {"end", 9}},
            {"u"});
  text.node("relu", {{"self", "u"}}, {"y"}).output("y");
  CHECK(rows_of(read(text)) == Words{"full", "relu"});
}
