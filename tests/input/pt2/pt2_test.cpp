#include "input/pt2/pt2.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "graph/op_graph.hpp"
#include "support/models.hpp"
#include "support/pt2_files.hpp"
#include "support/words.hpp"
#include "support/zip_files.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

using Json = nlohmann::json;

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

TEST_CASE("pt2: parts of a tensor are read where they are") {
  ProgramText text;
  text.input("x", {2, 6}).tensor("l", {2, 3}, {6, 1}).tensor("r", {2, 3}, {6, 1});
  text.tensor("s", {2, 3}).tensor("y", {2, 3});
  text.node("chunk", {{"self", "x"}, {"chunks", 2}, {"dim", 1}}, {"l", "r"});
  text.node("silu", {{"self", "l"}}, {"s"});
  text.node("mul", {{"self", "s"}, {"other", "r"}}, {"y"});
  text.output("y");
  const Model model = read(text);
  // f32: 6 and 6 read and written, and 12 read and 6 written.
  CHECK(unfused(model) == 4 * (6 + 6 + 12 + 6));
  CHECK(model.origin.views == 1);
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

TEST_CASE("pt2: what was copied of a part stays as it was when the rest is overwritten") {
  ProgramText text;
  text.input("x", {4}).tensor("c", {4}).tensor("head", {2}).tensor("copy", {2});
  text.tensor("tail", {2}).tensor("add_", {2}).tensor("again", {2}).tensor("sum", {2});
  text.node("neg", {{"self", "x"}}, {"c"});
  text.node("slice", {{"self", "c"}, {"dim", 0}, {"start", 0}, {"end", 2}}, {"head"});
  text.node("clone", {{"self", "head"}}, {"copy"});
  text.node("slice", {{"self", "c"}, {"dim", 0}, {"start", 1}, {"end", 3}}, {"tail"});
  text.node("add_", {{"self", "tail"}, {"other", 1}}, {"add_"});
  text.node("slice", {{"self", "c"}, {"dim", 0}, {"start", 0}, {"end", 2}}, {"again"});
  text.node("add", {{"self", "copy"}, {"other", "again"}}, {"sum"});
  text.output("sum");
  const OpGraph graph = build_graph(read(text).graph, {});
  const Op& sum = graph.ops.back();
  REQUIRE(sum.operands.size() == 2);
  CHECK(graph.value_of(sum.operands[0].tensor).name == "neg");
  CHECK(graph.value_of(sum.operands[1].tensor).name != "neg");
  CHECK(graph.storage_of(sum.operands[0].tensor) != graph.storage_of(sum.operands[1].tensor));
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
  CHECK(model.graph.dims ==
        std::vector<std::pair<std::string, WrittenDim>>{{"s7", std::int64_t{4}}});
  CHECK(unfused(model) == 4 * 2 * 4 * 16);
  CHECK(unfused(model, {{"s7", 8}}) == 4 * 2 * 8 * 16);
  CHECK(unfused(read(text, {{"s7", 8}})) == 4 * 2 * 4 * 16 * 2);
  CHECK(refusal_of(text.file(), {{"s7", 65}}) ==
        "m.pt2: --dim s7=65: the model was exported for 2 to 64");
}

TEST_CASE("pt2: the first rows of a table are as many as the dim that they are added to") {
  ProgramText text;
  const ProgramText::Size s("Symbol('s7', positive=True, integer=True)", 4);
  text.input("x", {s, 16}).input("t", {64, 16}).tensor("h", {s, 16}).tensor("y", {s, 16});
  text.node("slice", {{"self", "t"}, {"dim", 0}, {"start", 0}, {"end", 4}}, {"h"});
  text.node("add", {{"self", "x"}, {"other", "h"}}, {"y"}).output("y").range("s7", 2, 64);
  CHECK(unfused(read(text)) == 4 * 3 * 4 * 16);
  CHECK(unfused(read(text), {{"s7", 8}}) == 4 * 3 * 8 * 16);
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

TEST_CASE("pt2: pooling, with its indices where they are used") {
  const auto pooled = [](bool indices) {
    ProgramText text;
    text.input("x", {2, 4, 9, 12}).tensor("y", {2, 4, 5, 6}).tensor("i", {2, 4, 5, 6}, {}, 5);
    text.node("max_pool2d_with_indices",
              {{"self", "x"}, {"kernel_size", {3, 3}}, {"stride", {2, 2}}, {"padding", {1, 1}}},
              {"y", "i"});
    text.output("y");
    if (indices) text.output("i");
    return read(text);
  };
  CHECK(ops_of(pooled(false)) == Lines{"max_pool2d_with_indices: max_pool(x)"});
  CHECK(unfused(pooled(false)) == 4 * (864 + 240));
  CHECK(unfused(pooled(true)) == 4 * (864 + 240) + 8 * 240);
  CHECK(pooled(true).origin.opaque == 0);
}

TEST_CASE("pt2: a convolution of an image alone is that of a batch of one") {
  ProgramText text;
  text.input("x", {4, 10}).input("w", {6, 4, 3}).tensor("y", {6, 8});
  text.node("conv1d", {{"input", "x"}, {"weight", "w"}}, {"y"});
  const Model model = read(text.output("y"));
  CHECK(model.origin.opaque == 0);
  CHECK(unfused(model) == 4 * (40 + 72 + 48));
  CHECK(build_graph(model.graph, {}).ops.back().flops == 2 * 6 * 8 * 4 * 3);
}

TEST_CASE("pt2: what is made like a tensor reads nothing of it") {
  ProgramText text;
  text.input("x", {4, 10}).tensor("y", {4, 10});
  text.node("rand_like", {{"self", "x"}}, {"y"});
  CHECK(unfused(read(text.output("y"))) == 4 * 40);
}

TEST_CASE("pt2: convolutions of all ranks, transposed ones, and upsampling") {
  ProgramText text;
  text.input("x", {2, 4, 10}).input("w", {6, 4, 3}).input("t", {6, 3, 4});
  text.input("v", {1, 2, 3, 4}).input("s", {2, 5, 2, 2});
  text.tensor("c", {2, 6, 10}).tensor("d", {2, 3, 20}).tensor("e", {1, 5, 6, 8});
  text.tensor("u", {1, 5, 12, 16}).tensor("b", {1, 5, 7, 9});
  text.node("conv1d", {{"input", "x"}, {"weight", "w"}, {"padding", {1}}}, {"c"});
  text.node("convolution",
            {{"input", "c"},
             {"weight", "t"},
             {"bias", nullptr},
             {"stride", {2}},
             {"padding", {1}},
             {"dilation", {1}},
             {"transposed", true},
             {"output_padding", {0}},
             {"groups", 1}},
            {"d"});
  text.node("torch.ops.aten.conv_transpose2d.input",
            {{"input", "v"}, {"weight", "s"}, {"bias", nullptr}, {"stride", {2, 2}}}, {"e"});
  text.node("torch.ops.aten.upsample_nearest2d.vec", {{"input", "e"}, {"output_size", {12, 16}}},
            {"u"});
  text.node("torch.ops.aten.upsample_bilinear2d.vec",
            {{"input", "u"}, {"output_size", {7, 9}}, {"align_corners", true}}, {"b"});
  text.output("d").output("b");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"conv1d: conv1d(x, w)", "convolution: conv_transpose1d(conv1d, t)",
                               "conv_transpose2d: conv_transpose2d(v, s)",
                               "upsample_nearest2d: upsample_nearest(conv_transpose2d)",
                               "upsample_bilinear2d: upsample_linear(upsample_nearest2d)"});
}

TEST_CASE("pt2: a convolution of images of one pixel is a linear of their channels") {
  ProgramText plain;
  plain.input("x", {4, 8, 1, 1}).input("w", {6, 8, 1, 1}).input("b", {6});
  plain.tensor("y", {4, 6, 1, 1});
  plain.node("conv2d", {{"input", "x"}, {"weight", "w"}, {"bias", "b"}}, {"y"});
  const Model model = read(plain.output("y"));
  CHECK(rows_of(model) == Words{"reshape", "reshape", "linear", "reshape"});
  CHECK(unfused(model) == 4 * (32 + 48 + 6 + 24));
  // One pixel of padding, which none of the result has.
  ProgramText text;
  text.input("x", {4, 8, 1, 1}).input("w", {6, 8, 1, 1}).tensor("y", {4, 6, 1, 1});
  text.node("conv2d", {{"input", "x"}, {"weight", "w"}, {"padding", {1, 1}}, {"stride", {3, 3}}},
            {"y"});
  CHECK(ops_of(read(text.output("y"))) == Lines{"conv2d: conv2d(x, w)"});
}

TEST_CASE("pt2: the nearest of repeated pixels is the same from their middle") {
  const auto row = [](const std::vector<ProgramText::Size>& from) {
    ProgramText text;
    text.input("x", from).tensor("y", {1, 5, 12, 16});
    text.node("torch.ops.aten._upsample_nearest_exact2d.vec",
              {{"input", "x"}, {"output_size", {12, 16}}}, {"y"});
    return rows_of(read(text.output("y")));
  };
  CHECK(row({1, 5, 6, 4}) == Words{"upsample_nearest"});
  CHECK(row({1, 5, 8, 4}) == Words{"custom"});
  CHECK(row({1, 5, 24, 16}) == Words{"custom"});
}

TEST_CASE("pt2: gradients, without those that are None") {
  ProgramText text;
  text.input("d", {2, 3, 8}).input("x", {2, 3, 8}).input("m", {2, 3, 1}).input("r", {2, 3, 1});
  text.input("w", {8}).tensor("a", {2, 3, 8}).tensor("b", {8});
  text.node("native_layer_norm_backward",
            {{"grad_out", "d"},
             {"input", "x"},
             {"normalized_shape", {8}},
             {"mean", "m"},
             {"rstd", "r"},
             {"weight", "w"},
             {"bias", "w"}},
            {"a", "b"});
  // The gradient of the weight is None.
  Json& outputs = text.graph["nodes"].back()["outputs"];
  outputs = {outputs[0], {{"as_none", true}}, outputs[1]};
  text.output("a").output("b");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"native_layer_norm_backward: layer_norm_backward(d, x, m, r, w)"});
  CHECK(std::get<std::vector<WrittenDim>>(model.graph.ops[0].attributes[0].value) ==
        std::vector<WrittenDim>{std::int64_t{0}, std::int64_t{2}});
  CHECK(unfused(model) == 4 * (48 + 48 + 6 + 6 + 8 + 48 + 8));
}

TEST_CASE("pt2: a loss and its gradient; the loss's own gradient is a number") {
  ProgramText text;
  text.input("x", {4, 10}).input("t", {4}).tensor("t", {4}, {}, 5).tensor("l", {4, 10});
  text.tensor("n", {}).tensor("total", {}).tensor("one", {}).tensor("g", {4, 10});
  text.tensor("dx", {4, 10});
  text.node("_log_softmax", {{"self", "x"}, {"dim", 1}, {"half_to_float", false}}, {"l"});
  text.node("nll_loss_forward",
            {{"self", "l"},
             {"target", "t"},
             {"weight", nullptr},
             {"reduction", 1},
             {"ignore_index", -100}},
            {"n", "total"});
  text.node("ones_like", {{"self", "n"}}, {"one"});
  text.node("nll_loss_backward",
            {{"grad_output", "one"},
             {"self", "l"},
             {"target", "t"},
             {"weight", nullptr},
             {"reduction", 1},
             {"ignore_index", -100},
             {"total_weight", "total"}},
            {"g"});
  text.node("_log_softmax_backward_data", {{"grad_output", "g"}, {"output", "l"}, {"dim", 1}},
            {"dx"});
  text.output("n").output("dx");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"log_softmax: log_softmax(x)",
                               "nll_loss_forward: nll_loss(log_softmax, t)",
                               "nll_loss_backward: nll_loss_backward(number, log_softmax, t)",
                               "log_softmax_backward_data: "
                               "log_softmax_backward(nll_loss_backward, log_softmax)"});
  CHECK(model.origin.opaque == 0);
}

TEST_CASE("pt2: grouped products of rows, and of batches where there are no offsets") {
  ProgramText text;
  text.input("x", {9, 4}).parameter("w", "w", {5, 6, 4}).parameter("u", "u", {5, 6, 7});
  text.input("offs", {5}).tensor("offs", {5}, {}, 4).tensor("w_t", {5, 4, 6}, {24, 1, 4});
  text.tensor("up", {9, 6}).tensor("down", {9, 7}).tensor("all", {5, 4, 7});
  text.node("transpose", {{"self", "w"}, {"dim0", 1}, {"dim1", 2}}, {"w_t"});
  text.node("_grouped_mm", {{"self", "x"}, {"mat2", "w_t"}, {"offs", "offs"}}, {"up"});
  text.node("torch.ops.transformers.grouped_mm_fallback.default",
            {{"input", "up"}, {"weight", "u"}, {"offs", "offs"}}, {"down"});
  text.node("_grouped_mm", {{"self", "w_t"}, {"mat2", "u"}}, {"all"});
  text.output("down").output("all");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"grouped_mm: grouped_matmul(x, w, offs)",
                               "grouped_mm_fallback: grouped_matmul(grouped_mm, u, offs)",
                               "grouped_mm_2: matmul(w, u)"});
  CHECK(model.origin.opaque == 0);
  CHECK(unfused(model) == 4 * ((36 + 120 + 5 + 54) + (54 + 210 + 5 + 63) + (120 + 210 + 140)));
}

TEST_CASE("pt2: a grouped product that sums over groups is a custom op with exact bytes") {
  ProgramText text;
  text.input("x", {4, 9}).input("y", {9, 6}).input("offs", {5});
  text.tensor("offs", {5}, {}, 4).tensor("z", {5, 4, 6});
  text.node("_grouped_mm", {{"self", "x"}, {"mat2", "y"}, {"offs", "offs"}}, {"z"});
  text.output("z");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"grouped_mm: custom(x, y, offs)"});
  CHECK(model.graph.ops[0].op_class == "contract");
  CHECK(unfused(model) == 4 * (36 + 54 + 5 + 120));
}

TEST_CASE("pt2: products of scaled 8-bit types are one op with their scales") {
  ProgramText text;
  constexpr int kFp8 = 29;  // float8_e4m3fn
  text.input("x", {6, 8}).parameter("w", "w", {4, 8}).input("s", {1}).parameter("u", "u", {1});
  text.tensor("x", {6, 8}, {}, kFp8)
      .tensor("w", {4, 8}, {}, kFp8)
      .tensor("w_t", {8, 4}, {1, 8}, kFp8);
  text.tensor("y", {6, 4}, {}, kBf16).tensor("z", {6, 4}, {}, kFp8);
  text.node("t", {{"self", "w"}}, {"w_t"});
  text.node("_scaled_mm",
            {{"self", "x"},
             {"mat2", "w_t"},
             {"scale_a", "s"},
             {"scale_b", "u"},
             {"out_dtype", Json{{"as_scalar_type", 13}}}},
            {"y"});
  text.node(
      "_scaled_mm",
      {{"self", "x"}, {"mat2", "w_t"}, {"scale_a", "s"}, {"scale_b", "u"}, {"scale_result", "u"}},
      {"z"});
  text.output("y").output("z");
  const Model model = read(text);
  CHECK(ops_of(model) == Lines{"t: permute_view(w)", "scaled_mm: scaled_matmul(x, w, s, u)",
                               "scaled_mm_2: custom(x, t, s, u)"});
  // Bytes of x, w, two scales, and the result in bf16; the same with a result of a byte each.
  CHECK(unfused(model) == (48 + 32 + 8 + 48) + (48 + 32 + 8 + 24));
}
