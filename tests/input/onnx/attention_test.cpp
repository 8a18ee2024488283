// Attention of opset 23, with the keys and values of earlier tokens.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/onnx/proto.hpp"
#include "input/onnx/reading.hpp"

namespace fusecalc {
namespace {

using namespace proto;
using namespace testing;

constexpr std::uint64_t kOpset = 23;

struct AttentionCase {
  std::vector<Extent> q{2, 4, 3, 16};
  std::vector<Extent> k{2, 2, 3, 16};
  std::vector<Extent> past{2, 2, 7, 16};
  std::vector<Message> attributes{};
  std::vector<std::string> outputs{"y", "keys", "values"};
};

Model attention(const AttentionCase& of) {
  Graph graph{.inputs = {value("q", of.q), value("k", of.k), value("v", of.k)}};
  std::vector<std::string> inputs = {"q", "k", "v"};
  if (!of.past.empty()) {
    graph.inputs.push_back(value("past_k", of.past));
    graph.inputs.push_back(value("past_v", of.past));
    inputs.insert(inputs.end(), {"", "past_k", "past_v"});
  }
  graph.nodes = {node("Attention", inputs, of.outputs, of.attributes)};
  for (const std::string& output : of.outputs) {
    if (!output.empty()) graph.outputs.push_back(Message().text(1, output));
  }
  return read(proto::model(graph, kOpset));
}

Message softcap(float value) { return Message().text(1, "softcap").real(2, value).number(20, 1); }

const Words kJoined = {"concat(past_k, k) -> keys", "concat(past_v, v) -> values",
                       "attention(q, keys, values) -> y"};

TEST_CASE("onnx: attention joins new keys and values with those of earlier tokens") {
  const Model model = attention({});
  CHECK(ops_of(model) == kJoined);
  // q and y have 2 x 4 x 3 x 16 elements; keys and values 2 x 2 x 10 x 16 each, of which 7 of 10
  // are of earlier tokens: written by joining them, and read by attention.
  CHECK(unfused(model) == 4 * (2 * 384 + 2 * (640 + 640 + 640)));
  // The first new key is that of the first query: `causal`, of 8, 9 and 10 keys.
  const Model causal = attention({.attributes = {attribute("is_causal", 1)}});
  CHECK(ops_of(causal) == kJoined);
  CHECK(causal.graph.ops[2].attributes[0].name == "causal");
  CHECK(attention({.outputs = {"y"}}).origin.opaque == 0);
}

TEST_CASE("onnx: attention without earlier tokens gives the new ones, and reads what is shared") {
  const AttentionCase fresh{.past = {}};
  CHECK(ops_of(attention(fresh)) ==
        Words{"copy(k) -> keys", "copy(v) -> values", "attention(q, keys, values) -> y"});
  AttentionCase alone = fresh;
  alone.outputs = {"y"};
  CHECK(ops_of(attention(alone)) == Words{"attention(q, k, v) -> y"});
}

TEST_CASE("onnx: heads side by side are joined with earlier tokens, too") {
  const Model model =
      attention({.q = {2, 3, 64},
                 .k = {2, 3, 32},
                 .attributes = {attribute("q_num_heads", 4), attribute("kv_num_heads", 2)}});
  CHECK(model.origin.opaque == 0);
  CHECK(unfused(model) == 4 * (2 * 384 + 2 * (640 + 640 + 640)));
}

TEST_CASE("onnx: attention whose scores are capped is one op, with its products") {
  const auto flops = [](const Model& model) {
    CHECK(model.graph.ops.size() == 1);
    CHECK(model.graph.ops[0].op_class == "contract");
    return model.graph.ops[0].flops.value_or(0);
  };
  const Model all = attention({.attributes = {softcap(30)}});
  CHECK(ops_of(all) == Words{"custom(q, k, v, past_k, past_v) -> y keys values"});
  // 2 x 4 heads of 3 queries and 10 keys: 240 scores, of 16 products and as many for the values.
  CHECK(flops(all) == 2 * 240 * (16 + 16));
  // q, all keys and all values are read; y, all keys and all values are written.
  CHECK(unfused(all) == 4 * (2 * 384 + 2 * (640 + 640)));
  // 8 + 9 + 10 keys.
  CHECK(flops(attention({.attributes = {softcap(30), attribute("is_causal", 1)}})) ==
        2 * 8 * 27 * (16 + 16));
  // Scores are a result.
  CHECK(ops_of(attention({.outputs = {"y", "", "", "scores"}})) ==
        Words{"custom(q, k, v, past_k, past_v) -> y scores"});
}

}  // namespace
}  // namespace fusecalc
