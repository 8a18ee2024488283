#include "input/pt2/pt2.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "graph/op_graph.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"
#include "support/zip_files.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

Model read(const ProgramText& program, const std::vector<DimOverride>& dims = {}) {
  return read_pt2(program.file(), "m.pt2", dims);
}

std::string refusal_of(const std::string& file, const std::vector<DimOverride>& dims = {}) {
  try {
    read_pt2(file, "m.pt2", dims);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    return error.what();
  }
  return "no refusal";
}

// "name: op(inputs) -> outputs" of every op.
std::vector<std::string> ops_of(const Model& model) {
  std::vector<std::string> lines;
  for (const WrittenOp& op : model.graph.ops) {
    std::string line = op.name.value_or("") + ": " + op.op + "(";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto* tensor = std::get_if<std::string>(&op.inputs[i]);
      line += (i == 0 ? "" : ", ") + (tensor != nullptr ? *tensor : "number");
    }
    lines.push_back(line + ")");
  }
  return lines;
}

// What the ops move, each a kernel of its own.
std::uint64_t unfused(const Model& model, const std::vector<DimOverride>& dims = {}) {
  return unfused_bytes(build_graph(model.graph, dims)).total();
}

using Lines = Words;

const std::string kLinear =
    "L__self__,,model.Net;L__self__mlp,mlp,model.Mlp;L__self__mlp.up,mlp.up,"
    "torch.nn.modules.linear.Linear";
const std::string kMlp = "L__self__,,model.Net;L__self__mlp,mlp,model.Mlp";

ProgramText small_mlp() {
  ProgramText text;
  text.parameter("p_mlp_up_weight", "mlp.up.weight", {8, 4});
  text.input("x", {2, 4}).tensor("linear", {2, 8}).tensor("relu", {2, 8});
  text.node("linear", {{"input", "x"}, {"weight", "p_mlp_up_weight"}}, {"linear"}, kLinear);
  text.node("relu", {{"self", "linear"}}, {"relu"}, kMlp);
  text.output("relu");
  return text;
}

}  // namespace

TEST_CASE("pt2: ops, names and scopes of modules, exact bytes") {
  const Model model = read(small_mlp());
  CHECK(ops_of(model) == Lines{"mlp.up: linear(x, mlp.up.weight)", "mlp.relu: relu(mlp.up)"});
  CHECK(model.graph.ops[0].scope == "mlp");
  CHECK(model.graph.ops[1].scope == "mlp");
  // f32: reads 8 + 32, writes 16; reads 16, writes 16.
  CHECK(unfused(model) == 4 * (8 + 32 + 16 + 16 + 16));
  CHECK(model.origin.nodes == 2);
  CHECK(model.origin.exact == 2);
  CHECK(model.origin.missing.empty());
}

TEST_CASE("pt2: what has no row is a custom op with exact bytes, and listed") {
  ProgramText text;
  text.input("x", {2, 4}).input("i", {3}).tensor("a", {5}).tensor("b", {2});
  text.node("torch.ops.mine.strange.default", {{"x", "x"}, {"i", "i"}, {"n", 7}}, {"a", "b"});
  text.output("a").output("b");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"strange: custom(x, i)"});
  CHECK(unfused(model) == 4 * (8 + 3 + 5 + 2));
  CHECK(model.origin.opaque == 1);
  REQUIRE(model.origin.missing.size() == 1);
  CHECK(model.origin.missing[0].target == "torch.ops.mine.strange.default");
  CHECK(model.origin.missing[0].position == 0);
}

TEST_CASE("pt2: views cost nothing, and a copy is one where elements move") {
  ProgramText text;
  text.input("x", {2, 3, 4});
  text.tensor("t", {2, 4, 3}, {12, 1, 4}).tensor("c", {2, 4, 3}).tensor("v", {8, 3});
  text.tensor("k", {8, 3}).tensor("r", {8, 3});
  text.node("transpose", {{"self", "x"}, {"dim0", 1}, {"dim1", 2}}, {"t"});
  text.node("contiguous", {{"self", "t"}}, {"c"});
  text.node("view", {{"self", "c"}, {"size", Json{8, 3}}}, {"v"});
  text.node("contiguous", {{"self", "v"}}, {"k"});
  text.node("relu", {{"self", "k"}}, {"r"});
  text.output("r");
  const Model model = read(text);
  CHECK(unfused(model) == 4 * (24 + 24 + 24 + 24));
  CHECK(model.origin.views == 3);
  CHECK(model.origin.exact == 2);
}

TEST_CASE("pt2: a transposition of a transposition is the tensor itself") {
  ProgramText text;
  text.parameter("w", "w", {8, 4}).input("x", {2, 4});
  text.tensor("t", {4, 8}, {1, 4}).tensor("m", {2, 8});
  text.node("t", {{"self", "w"}}, {"t"});
  text.node("mm", {{"self", "x"}, {"mat2", "t"}}, {"m"});
  text.output("m");
  const Model model = read(text);
  REQUIRE(ops_of(model) == Lines{"mm: matmul(x, w)"});
  CHECK(model.graph.ops[0].attributes[0].name == "transpose_b");
}

TEST_CASE("pt2: an op in place makes a new value for every view of the memory") {
  ProgramText text;
  text.input("x", {4}).tensor("c", {4}).tensor("head", {2}).tensor("add_", {2});
  text.tensor("again", {2}).tensor("r", {4}).tensor("q", {2});
  text.node("neg", {{"self", "x"}}, {"c"});
  text.node("slice", {{"self", "c"}, {"dim", 0}, {"start", 0}, {"end", 2}}, {"head"});
  text.node("add_", {{"self", "head"}, {"other", 1}}, {"add_"});
  text.node("relu", {{"self", "c"}}, {"r"});
  text.node("relu", {{"self", "head"}}, {"q"});
  text.output("r").output("q");
  const Model model = read(text);
  const OpGraph graph = build_graph(model.graph, {});
  // The relu of c reads what the addition wrote, and so does that of its view.
  for (const Op& op : graph.ops) {
    if (op.name != "relu" && op.name != "relu_2") continue;
    const TensorId read = op.operands[0].tensor;
    CHECK(graph.tensors[graph.tensors[read].value].name != "neg");
  }
}

TEST_CASE("pt2: an input that is overwritten is an output") {
  ProgramText text;
  text.input("x", {4}).tensor("m", {4}).tensor("y", {4});
  text.node("mul_", {{"self", "x"}, {"other", 2}}, {"m"});
  text.node("relu", {{"self", "x"}}, {"y"});
  text.output("y");
  const Model model = read(text);
  REQUIRE(model.graph.outputs.has_value());
  CHECK(*model.graph.outputs == Lines{"relu", "mul"});
  CHECK(unfused(model) == 4 * 4 * 4);
}

TEST_CASE("pt2: symbols are dims, which --dim sets within their range") {
  ProgramText text;
  const ProgramText::Size s("Symbol('s7', positive=True, integer=True)", 4);
  text.input("x", {s, 16}).tensor("r", {s, 16}).range("s7", 2, 64);
  text.node("relu", {{"self", "x"}}, {"r"}).output("r");
  const Model model = read(text);
  CHECK(model.graph.dims == std::vector<std::pair<std::string, std::uint64_t>>{{"s7", 4}});
  CHECK(unfused(model) == 4 * 2 * 4 * 16);
  CHECK(unfused(model, {{"s7", 8}}) == 4 * 2 * 8 * 16);
  CHECK(unfused(read(text, {{"s7", 8}})) == 4 * 2 * 4 * 16 * 2);
  CHECK(refusal_of(text.file(), {{"s7", 65}}) ==
        "m.pt2: --dim s7=65: the model was exported for 2 to 64");
}

TEST_CASE("pt2: a graph that a node calls runs in its place") {
  ProgramText inner;
  inner.input("a", {4}).tensor("r", {4}).node("relu", {{"self", "a"}}, {"r"}).output("r");
  ProgramText text;
  text.input("x", {4}).tensor("y", {4}).tensor("z", {4});
  const Json graph = {{"as_graph", {{"name", "submod_1"}, {"graph", inner.graph}}}};
  text.node("torch.ops.higher_order.wrap_with_set_grad_enabled",
            {{"", false}, {"", graph}, {"", "x"}}, {"y"});
  text.node("neg", {{"self", "y"}}, {"z"}).output("z");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"relu: relu(x)", "neg: neg(relu)"});
  CHECK(model.origin.nodes == 2);
}

TEST_CASE("pt2: attention takes key heads as they are before they were repeated") {
  ProgramText text;
  text.input("q", {1, 4, 8, 16}).input("k", {1, 2, 8, 16}).input("v", {1, 2, 8, 16});
  for (const std::string name : {"k", "v"}) {
    text.tensor(name + "1", {1, 2, 1, 8, 16})
        .tensor(name + "2", {1, 2, 2, 8, 16}, {256, 128, 0, 16, 1});
    text.tensor(name + "3", {1, 4, 8, 16});
    text.node("unsqueeze", {{"self", name}, {"dim", 2}}, {name + "1"});
    text.node("expand", {{"self", name + "1"}, {"size", Json{1, 2, 2, 8, 16}}}, {name + "2"});
    text.node("reshape", {{"self", name + "2"}, {"shape", Json{1, 4, 8, 16}}}, {name + "3"});
  }
  text.tensor("o", {1, 4, 8, 16});
  text.node(
      "scaled_dot_product_attention",
      {{"query", "q"}, {"key", "k3"}, {"value", "v3"}, {"attn_mask", nullptr}, {"is_causal", true}},
      {"o"});
  text.output("o");
  const Model model = read(text);
  REQUIRE(ops_of(model) == Lines{"scaled_dot_product_attention: attention(q, k, v)"});
  CHECK(unfused(model) == 4 * (512 + 256 + 256 + 512));
}

TEST_CASE("pt2: numbers in every element are read as numbers") {
  ProgramText text;
  text.input("x", {4, 4}).tensor("full", {}).tensor("w", {4, 4}).tensor("m", {4, 4}, {}, 12);
  text.tensor("ones", {4, 4});
  text.node("full", {{"size", Json::array()}, {"fill_value", 0.5}}, {"full"});
  text.node("ones", {{"size", Json{4, 4}}}, {"ones"});
  text.node("gt", {{"self", "x"}, {"other", 0}}, {"m"});
  text.node("where", {{"condition", "m"}, {"self", "x"}, {"other", "full"}}, {"w"});
  text.tensor("s", {4, 4}).node("add", {{"self", "w"}, {"other", "ones"}}, {"s"}).output("s");
  const Model model = read(text);
  CHECK(ops_of(model) ==
        Lines{"gt: gt(x, number)", "where: where(gt, x, number)", "add: add(where, number)"});
  CHECK(model.origin.folded == 2);
}

TEST_CASE("pt2: versions") {
  ProgramText text = small_mlp();
  text.minor = 99;
  CHECK(ops_of(read(text)).size() == 2);
  text.major = 7;
  CHECK(ops_of(read(text)).size() == 2);
  for (const int major : {6, 9}) {
    text.major = major;
    CHECK(refusal_of(text.file()) ==
          "m.pt2: model/models/model.json: /schema_version: schema version " +
              std::to_string(major) + " is not read (7 and 8 are)");
  }
}

TEST_CASE("pt2: archives that hold no program, or several") {
  CHECK(refusal_of(zip_of({{.name = "model/data.pkl", .bytes = "x"}})) ==
        "m.pt2: the archive holds no exported program; torch.export.save writes one");
  CHECK(refusal_of(zip_of({{.name = "m/models/a.json", .bytes = "{}"},
                           {.name = "m/models/b.json", .bytes = "{}"}})) ==
        "m.pt2: the archive holds several programs, m/models/a.json and m/models/b.json; save one "
        "of them");
  CHECK(refusal_of(zip_of({{.name = "m/models/a.json", .bytes = "{}"}})) ==
        "m.pt2: m/models/a.json: missing key \"schema_version\"");
}

TEST_CASE("pt2: programs that are not valid are refused in one line") {
  ProgramText text = small_mlp();
  text.node("relu", {{"self", "late"}}, {"early"}).node("relu", {{"self", "relu"}}, {"late"});
  text.tensor("early", {2, 8}).tensor("late", {2, 8});
  CHECK(refusal_of(text.file()) ==
        "m.pt2: node \"early\": reads \"late\", which nothing before it writes");
  ProgramText absurd;
  absurd.input("x", {2147483647, 2147483647, 2147483647}).node("relu", {{"self", "x"}}, {"y"});
  CHECK(refusal_of(absurd.file()) ==
        "m.pt2: tensor \"x\" of shape [2147483647, 2147483647, 2147483647] is more than "
        "9223372036854775807 bytes");
  ProgramText untyped;
  untyped.input("x", {2}).node("relu", {{"self", "x"}}, {"y"}).output("y");
  CHECK(refusal_of(untyped.file()) == "m.pt2: tensor \"y\" has no type");
  ProgramText negative;
  negative.input("x", {-1});
  CHECK(refusal_of(negative.file()) == "m.pt2: tensor \"x\": an extent is -1");
  ProgramText complex;
  complex.graph["inputs"].push_back(tensor_argument("x"));
  complex.tensor("x", {2}, {}, 99);
  CHECK(refusal_of(complex.file()) == "m.pt2: tensor \"x\": elements of type 99 are not read");
}

TEST_CASE("pt2: JSON that is nested too deeply, or no JSON, is refused at its place") {
  const auto with = [](const std::string& text) {
    return refusal_of(zip_of({{.name = "m/models/a.json", .bytes = text}}));
  };
  CHECK(with("{\"a\": " + std::string(100000, '[')).find("nested more than 64 levels deep") !=
        std::string::npos);
  CHECK(with("").starts_with("m.pt2: m/models/a.json: "));
  CHECK(with("{\"graph_module\": {\"graph\": {\"nodes\": 1}}}") ==
        "m.pt2: m/models/a.json: /graph_module/graph/nodes: must be an array, not a number");
}
