// Recurrent networks and their cells.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("pt2: recurrent networks are their steps") {
  const auto program = [](const std::string& kind, int gates) {
    ProgramText text;
    text.input("x", {2, 3, 5}).tensor("h", {1, 2, 4}).tensor("c", {1, 2, 4});
    text.parameter("wi", "wi", {gates * 4, 5}).parameter("wh", "wh", {gates * 4, 4});
    text.parameter("bi", "bi", {gates * 4}).parameter("bh", "bh", {gates * 4});
    text.tensor("o", {2, 3, 4}).tensor("hn", {1, 2, 4}).tensor("cn", {1, 2, 4});
    text.node("zeros", {{"size", Json{1, 2, 4}}}, {"h"});
    text.node("zeros", {{"size", Json{1, 2, 4}}}, {"c"});
    const bool lstm = gates == 4;
    text.node(
        kind, {{"input", "x"}, {"num_layers", 1}, {"has_biases", true}, {"batch_first", true}},
        lstm ? std::vector<std::string>{"o", "hn", "cn"} : std::vector<std::string>{"o", "hn"});
    const auto list = [](const std::vector<std::string>& names) {
      Json tensors = Json::array();
      for (const std::string& name : names) tensors.push_back({{"name", name}});
      return Json{{"as_tensors", tensors}};
    };
    Json& inputs = text.graph["nodes"].back()["inputs"];
    const Json states = lstm ? list({"h", "c"}) : Json{{"as_tensor", {{"name", "h"}}}};
    inputs.push_back({{"name", "hx"}, {"arg", states}});
    inputs.push_back({{"name", "params"}, {"arg", list({"wi", "wh", "bi", "bh"})}});
    return text.output("o");
  };
  const auto count = [](const Words& ops, std::string_view op) {
    return std::ranges::count_if(ops,
                                 [&](const std::string& line) { return line.starts_with(op); });
  };
  for (const int gates : {4, 3, 1}) {
    CAPTURE(gates);
    const Model model = read(program(gates == 4 ? "lstm" : gates == 3 ? "gru" : "rnn_tanh", gates));
    const Words ops = calls_of(model);
    CHECK(model.origin.opaque == 0);
    // All rows of x at once; the state of the second and the third step.
    CHECK(count(ops, "linear(") == 1 + 2);
    CHECK(count(ops, "tanh(") == (gates == 4 ? 6 : 3));
    CHECK(count(ops, "concat(") == 1);
  }
}

TEST_CASE("pt2: a cell of a recurrent network is one step") {
  const auto ops = [](const std::string& kind, int gates, bool biases) {
    ProgramText text;
    text.input("x", {2, 5}).input("h", {2, 4}).input("c", {2, 4});
    text.parameter("wi", "wi", {gates * 4, 5}).parameter("wh", "wh", {gates * 4, 4});
    text.parameter("bi", "bi", {gates * 4}).parameter("bh", "bh", {gates * 4});
    text.tensor("hn", {2, 4}).tensor("cn", {2, 4});
    std::vector<std::pair<std::string, Json>> arguments = {{"input", "x"}};
    if (gates != 4) arguments.emplace_back("hx", "h");
    for (const std::string name : {"w_ih", "w_hh"}) {
      arguments.emplace_back(name, name == "w_ih" ? "wi" : "wh");
    }
    if (biases) arguments.insert(arguments.end(), {{"b_ih", "bi"}, {"b_hh", "bh"}});
    text.node(kind, arguments,
              gates == 4 ? std::vector<std::string>{"hn", "cn"} : std::vector<std::string>{"hn"});
    if (gates == 4) {
      text.graph["nodes"].back()["inputs"].push_back(
          {{"name", "hx"}, {"arg", {{"as_tensors", {{{"name", "h"}}, {{"name", "c"}}}}}}});
    }
    return rows_of(read(text.output("hn")));
  };
  const auto count = [](const Words& rows, const std::string& row) {
    return std::ranges::count(rows, row);
  };
  CHECK(ops("rnn_relu_cell", 1, false) == Words{"linear", "linear", "add", "relu"});
  CHECK(ops("rnn_tanh_cell", 1, true) == Words{"linear", "linear", "add", "tanh"});
  const Words lstm = ops("lstm_cell", 4, true);
  CHECK(count(lstm, "linear") == 2);
  CHECK(count(lstm, "sigmoid") == 3);
  CHECK(count(lstm, "tanh") == 2);
  CHECK(count(lstm, "fma") == 1);
  const Words gru = ops("gru_cell", 3, true);
  CHECK(count(gru, "linear") == 2);
  CHECK(count(gru, "sigmoid") == 2);
  CHECK(gru.back() == "lerp");
}
