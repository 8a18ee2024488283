// Shapes, counts and refusals of pooling, upsampling, convolutions and gradients.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "graph/graph_text.hpp"
#include "graph/windows.hpp"
#include "traffic/graph_bytes.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// One op on tensors of f32; `rest` holds its inputs, outputs and attributes.
std::string list_of(std::string_view op, std::string_view tensors, std::string_view rest) {
  return fmt::format(R"({{"tensors": {{{}}}, "ops": [{{"op": "{}", {}}}]}})", tensors, op, rest);
}

OpGraph graph_with(std::string_view op, std::string_view tensors, std::string_view rest) {
  return graph_of(list_of(op, tensors, rest));
}

// "f32 [2, 3]" of each output.
std::string made(std::string_view op, std::string_view tensors, std::string_view rest) {
  const OpGraph graph = graph_with(op, tensors, rest);
  std::string types;
  for (const TensorId output : graph.ops[0].outputs) {
    const TensorType& type = graph.tensors[output].type;
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", name_of(type.dtype),
                         to_string(type.shape));
  }
  return types;
}

constexpr std::string_view kImage = R"("x": {"shape": [2, 3, 9, 12]})";

std::string of_image(std::string_view op, std::string_view attributes,
                     std::string_view outputs = R"("y")") {
  return made(op, kImage,
              fmt::format(R"("inputs": ["x"], "outputs": [{}], {})", outputs, attributes));
}

std::string refused(std::string_view op, std::string_view attributes) {
  return fault_of(
      list_of(op, kImage, fmt::format(R"("inputs": ["x"], "output": "y", {})", attributes)));
}

}  // namespace

TEST_CASE("windows of pooling: stride, padding, dilation, ceil_mode") {
  // The stride is the kernel's by default.
  CHECK(of_image("max_pool", R"("kernel": 2)") == "f32 [2, 3, 4, 6]");
  CHECK(of_image("max_pool", R"("kernel": 2, "ceil_mode": true)") == "f32 [2, 3, 5, 6]");
  CHECK(of_image("max_pool", R"("kernel": 3, "stride": 2, "padding": 1)", R"("y", "i")") ==
        "f32 [2, 3, 5, 6], i64 [2, 3, 5, 6]");
  CHECK(of_image("max_pool", R"("kernel": [3, 2], "stride": 1, "dilation": [2, 5])") ==
        "f32 [2, 3, 5, 7]");
  // A last window would begin in the padding on the right: it is left out.
  CHECK(of_image("avg_pool", R"("kernel": 2, "stride": 3, "padding": 1, "ceil_mode": true)") ==
        "f32 [2, 3, 4, 5]");
  CHECK(made("avg_pool", R"("x": {"shape": [2, 3, 9], "dtype": "i32"})",
             R"("inputs": ["x"], "output": "y", "kernel": 4)") == "f32 [2, 3, 2]");
  CHECK(made("max_pool", R"("x": {"shape": [1, 4, 5, 6], "dtype": "bf16"})",
             R"("inputs": ["x"], "output": "y", "kernel": [2, 2, 2])") == "bf16 [1, 2, 2, 3]");
  CHECK(of_image("adaptive_avg_pool", R"("size": [4, 1])") == "f32 [2, 3, 4, 1]");
  CHECK(of_image("adaptive_max_pool", R"("size": 3)", R"("y", "i")") ==
        "f32 [2, 3, 3, 3], i64 [2, 3, 3, 3]");
}

TEST_CASE("upsampling to a size or by a factor") {
  CHECK(of_image("upsample_nearest", R"("scale": 2)") == "f32 [2, 3, 18, 24]");
  CHECK(of_image("upsample_nearest", R"("scale": 1.5)") == "f32 [2, 3, 13, 18]");
  CHECK(of_image("upsample_linear", R"("size": [4, 30], "align_corners": true)") ==
        "f32 [2, 3, 4, 30]");
}

TEST_CASE("pooling and upsampling refuse what does not fit") {
  CHECK(refused("max_pool", R"("stride": 2)") ==
        "/ops/0: missing attribute \"kernel\" (the extents of the window)");
  CHECK(refused("max_pool", R"("kernel": 2, "padding": 2)") ==
        "/ops/0/padding: must be at most half of what the kernel reaches, 2");
  CHECK(refused("max_pool", R"("kernel": [2, 2], "stride": [1, 1, 1])") ==
        "/ops/0/stride: has 3 entries, expected 2");
  CHECK(refused("avg_pool", R"("kernel": 10)") ==
        "/ops/0: the kernel 10 does not fit into \"x\" of shape [2, 3, 9, 12] with padding 0");
  CHECK(refused("avg_pool", R"("kernel": 2, "dilation": 2)").find("unknown attribute") !=
        std::string::npos);
  CHECK(refused("upsample_linear", R"("align_corners": true)") ==
        "/ops/0: needs either \"size\" (the extents of the result) or \"scale\" (a factor)");
  CHECK(refused("upsample_nearest", R"("scale": 0.01)") ==
        "/ops/0/scale: makes an axis of 0 out of 9");
  CHECK(refused("adaptive_avg_pool", R"("size": [1, 1, 1, 1])") ==
        "/ops/0/inputs/0: \"x\" of shape [2, 3, 9, 12] needs a channel axis and 4 spatial ones "
        "after it");
}

TEST_CASE("pooling counts an operation for each element of a window") {
  const auto flops = [](std::string_view op, std::string_view attributes) {
    return graph_with(op, kImage, fmt::format(R"("inputs": ["x"], "output": "y", {})", attributes))
        .ops[0]
        .flops;
  };
  CHECK(flops("max_pool", R"("kernel": 3)") == 0);
  CHECK(flops("avg_pool", R"("kernel": 3)") == 6 * 3 * 4 * 9);
  // Of 9 elements 2 results have 5 each, of 12 they have 6.
  CHECK(flops("adaptive_avg_pool", R"("size": 2)") == 6 * (2 * 5) * (2 * 6));
  CHECK(flops("upsample_linear", R"("scale": 2)") == 6 * 2 * (18 * 2) * (24 * 2));
}

TEST_CASE("pooling reads the elements that its windows have") {
  const auto read = [](std::string_view op, std::string_view attributes) {
    return unfused_bytes(
               graph_with(op, kImage,
                          fmt::format(R"("inputs": ["x"], "output": "y", {})", attributes)))
               .read /
           4;
  };
  CHECK(read("max_pool", R"("kernel": 3, "stride": 2, "padding": 1)") == 6 * 9 * 12);
  // Rows 0 to 7, as the ninth begins no window.
  CHECK(read("max_pool", R"("kernel": 2)") == 6 * 8 * 12);
  CHECK(read("avg_pool", R"("kernel": 1, "stride": 2)") == 6 * 5 * 6);
  // Windows of two, three apart: 2 + 2 + 2 of the rows; with padding 1 + 2 + 2 + 1.
  CHECK(read("avg_pool", R"("kernel": 2, "stride": 3)") == 6 * 6 * 8);
  CHECK(read("avg_pool", R"("kernel": 2, "stride": 3, "padding": 1)") == 6 * 6 * 8);
  CHECK(read("avg_pool", R"("kernel": 4, "stride": 5, "padding": 2)") == 6 * 6 * 10);
  CHECK(read("max_pool", R"("kernel": 2, "stride": 6, "dilation": 3)") == 6 * 2 * 4);
  CHECK(read("upsample_nearest", R"("size": [3, 24])") == 6 * 3 * 12);
  CHECK(read("upsample_linear", R"("size": [3, 24])") == 6 * 6 * 12);
  CHECK(read("adaptive_avg_pool", R"("size": [2, 5])") == 6 * 9 * 12);
}

TEST_CASE("what windows touch along an axis agrees with their elements, one by one") {
  const auto agrees = [](const WindowAxis& axis) {
    std::set<std::uint64_t> places;
    for (std::int64_t o = 0; o < axis.out; ++o) {
      for (const auto& tap : axis.taps(static_cast<std::uint64_t>(o))) places.insert(tap.place);
    }
    return places.size() == axis.touched();
  };
  for (std::int64_t n = 0; n < 20000; ++n) {
    WindowAxis axis{.in = 1 + n % 23,
                    .kernel = 1 + n / 3 % 5,
                    .stride = 1 + n / 7 % 9,
                    .padding = n / 11 % 7,
                    .dilation = 1 + n / 13 % 8};
    const std::int64_t room = axis.in + 2 * axis.padding - (axis.kernel - 1) * axis.dilation - 1;
    if (room < 0) continue;
    axis.out = room / axis.stride + 1;
    CAPTURE(n);
    REQUIRE(agrees(axis));
  }
  for (std::int64_t in = 1; in < 30; ++in) {
    for (std::int64_t out = 1; out < 70; ++out) {
      CAPTURE(in);
      CAPTURE(out);
      WindowAxis axis{.kind = WindowAxis::Kind::kLinear, .in = in, .out = out};
      axis.per_result = 2 * in;
      axis.start = in - out;
      axis.parts = 2 * out;
      REQUIRE(agrees(axis));
      axis.per_result = in - 1;
      axis.start = 0;
      axis.parts = std::max<std::int64_t>(out - 1, 1);
      REQUIRE(agrees(axis));
      axis.kind = WindowAxis::Kind::kNearest;
      REQUIRE(agrees(axis));
    }
  }
  // Every third of two in six, of as many as a file may state.
  constexpr std::int64_t kMany = std::int64_t{1} << 30U;
  CHECK(WindowAxis{.in = 6 * kMany, .out = kMany, .kernel = 2, .stride = 6, .dilation = 3}
            .touched() == 2 * kMany);
}

TEST_CASE("convolutions read the elements that their windows have, and all weights") {
  const auto read = [](std::string_view shapes, std::string_view attributes) {
    return bytes_read(graph_with("conv2d", shapes,
                                 fmt::format(R"("inputs": ["x", "w"], "output": "y"{}{})",
                                             attributes.empty() ? "" : ", ", attributes)),
                      {}, "x");
  };
  const std::string_view single = R"("x": {"shape": [2, 3, 9, 12]}, "w": {"shape": [4, 3, 1, 1]})";
  const std::string_view square = R"("x": {"shape": [2, 3, 9, 12]}, "w": {"shape": [4, 3, 2, 2]})";
  CHECK(read(single, "") == 4 * 6 * 9 * 12);
  CHECK(read(single, R"("stride": 2)") == 4 * 6 * 5 * 6);
  CHECK(read(single, R"("stride": [1, 3])") == 4 * 6 * 9 * 4);
  // From -1 on, every second: 1, 3, 5, 7 of the rows, and 1, 3 ... 11.
  CHECK(read(single, R"("stride": 2, "padding": 1)") == 4 * 6 * 4 * 6);
  // Rows 0 1 3 4 6 7; the same of columns, and 9 10.
  CHECK(read(square, R"("stride": 3)") == 4 * 6 * 6 * 8);
  // Rows 0 and 3, 6 and 9: beyond. Columns 0 and 3, 6 and 9.
  CHECK(read(square, R"("stride": 6, "dilation": 3)") == 4 * 6 * 2 * 4);
  CHECK(read(square, R"("stride": 1, "dilation": 3)") == 4 * 6 * 9 * 12);
  // The last row begins no window.
  CHECK(read(square, R"("stride": 2)") == 4 * 6 * 8 * 12);
  const OpGraph graph =
      graph_with("conv2d", single, R"("inputs": ["x", "w"], "output": "y", "stride": 2)");
  CHECK(bytes_read(graph, {}, "w") == 4 * 12);
}

TEST_CASE("what makes the input of a strided convolution in its kernel is not needed whole") {
  const OpGraph graph = graph_of(R"({"tensors": {"x": {"shape": [2, 3, 9, 12]},
      "w": {"shape": [4, 3, 1, 1]}},
    "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
            {"op": "conv2d", "inputs": ["h", "w"], "output": "y", "stride": 2}]})");
  CHECK(limit_bytes(graph) == Bytes{4 * (6 * 5 * 6 + 12), 4 * 2 * 4 * 5 * 6});
  CHECK(unfused_bytes(graph) ==
        Bytes{4 * (6 * 9 * 12 + 6 * 5 * 6 + 12), 4 * (6 * 9 * 12 + 2 * 4 * 5 * 6)});
}

TEST_CASE("gradients of a convolution read what makes them") {
  const auto read = [](std::string_view gradients, std::string_view outputs,
                       std::string_view tensor) {
    return bytes_read(
        graph_with("conv2d_backward",
                   R"("dy": {"shape": [2, 4, 5, 6]}, "x": {"shape": [2, 3, 9, 12]},
                      "w": {"shape": [4, 3, 1, 1]})",
                   fmt::format(R"("inputs": ["dy", "x", "w"], "outputs": [{}], "stride": 2,
                                  "gradients": [{}])",
                               outputs, gradients)),
        {}, tensor);
  };
  CHECK(read("0, 1, 2", R"("dx", "dw", "db")", "x") == 4 * 6 * 5 * 6);
  CHECK(read("0, 1, 2", R"("dx", "dw", "db")", "w") == 4 * 12);
  CHECK(read("0", R"("dx")", "x") == 0);
  CHECK(read("0", R"("dx")", "w") == 4 * 12);
  CHECK(read("1", R"("dw")", "x") == 4 * 6 * 5 * 6);
  CHECK(read("1", R"("dw")", "w") == 0);
  CHECK(read("2", R"("db")", "dy") == 4 * 2 * 4 * 5 * 6);
}

TEST_CASE("convolutions over one and three axes, and transposed ones") {
  const auto convolved = [](std::string_view op, std::string_view x, std::string_view w,
                            std::string_view attributes) {
    return made(op, fmt::format(R"("x": {{"shape": [{}]}}, "w": {{"shape": [{}]}})", x, w),
                fmt::format(R"("inputs": ["x", "w"], "output": "y"{}{})",
                            attributes.empty() ? "" : ", ", attributes));
  };
  CHECK(convolved("conv1d", "2, 4, 10", "6, 4, 3", R"("stride": 2)") == "f32 [2, 6, 4]");
  CHECK(convolved("conv3d", "2, 4, 5, 6, 7", "6, 2, 3, 3, 3", R"("groups": 2, "padding": 1)") ==
        "f32 [2, 6, 5, 6, 7]");
  CHECK(convolved("conv_transpose1d", "2, 4, 10", "4, 3, 5", "") == "f32 [2, 3, 14]");
  CHECK(convolved("conv_transpose2d", "2, 4, 10, 8", "4, 3, 3, 3",
                  R"("groups": 2, "stride": 2, "padding": 1, "output_padding": 1)") ==
        "f32 [2, 6, 20, 16]");
  CHECK(convolved("conv_transpose3d", "1, 2, 3, 3, 3", "2, 5, 2, 2, 2", R"("stride": [1, 2, 2])") ==
        "f32 [1, 5, 4, 6, 6]");
  // 2 * 8 places * 4 channels * 3 channels * 9 taps.
  const OpGraph graph = graph_with("conv_transpose2d",
                                   R"("x": {"shape": [1, 4, 2, 4]}, "w": {"shape": [4, 3, 3, 3]})",
                                   R"("inputs": ["x", "w"], "output": "y")");
  CHECK(graph.ops[0].flops == 2 * 8 * 4 * 3 * 9);
  CHECK(fault_of(list_of("conv_transpose1d",
                         R"("x": {"shape": [2, 4, 10]}, "w": {"shape": [4, 3, 5]})",
                         R"("inputs": ["x", "w"], "output": "y", "output_padding": 1)")) ==
        "/ops/0/output_padding: must be less than the stride or the dilation");
}

TEST_CASE("statistics as further outputs") {
  const std::string_view rows = R"("x": {"shape": [2, 3, 8], "dtype": "bf16"})";
  CHECK(made("layer_norm", rows, R"("inputs": ["x"], "outputs": ["y", "m", "r"])") ==
        "bf16 [2, 3, 8], f32 [2, 3, 1], f32 [2, 3, 1]");
  CHECK(made("rms_norm", rows, R"("inputs": ["x"], "outputs": ["y", "r"])") ==
        "bf16 [2, 3, 8], f32 [2, 3, 1]");
  CHECK(made("group_norm", R"("x": {"shape": [2, 6, 8]})",
             R"("inputs": ["x"], "outputs": ["y", "m", "r"], "groups": 3)") ==
        "f32 [2, 6, 8], f32 [2, 3], f32 [2, 3]");
  CHECK(made("batch_norm", R"("x": {"shape": [2, 6, 8]}, "c": {"shape": [6]})",
             R"("inputs": ["x", "c", "c", "c", "c"], "outputs": ["y", "m", "r", "n", "v"],
                "mode": "training")") == "f32 [2, 6, 8], f32 [6], f32 [6], f32 [6], f32 [6]");
  CHECK(made("attention", R"("q": {"shape": [2, 4, 5, 16], "dtype": "bf16"})",
             R"("inputs": ["q", "q", "q"], "outputs": ["y", "s"])") ==
        "bf16 [2, 4, 5, 16], f32 [2, 4, 5]");
}

TEST_CASE("gradients move what they read and write, and no more") {
  const auto bytes = [](std::string_view op, std::string_view tensors, std::string_view rest) {
    return unfused_bytes(graph_with(op, tensors, rest));
  };
  // The log-probabilities give their shape alone: 1 + 4 elements, and 4 classes of i64.
  const Bytes loss = bytes("nll_loss_backward",
                           R"("d": {"shape": []}, "x": {"shape": [4, 100]},
                              "t": {"shape": [4], "dtype": "i64"})",
                           R"("inputs": ["d", "x", "t"], "output": "y")");
  CHECK(loss == Bytes{4 + 4 * 8, 400 * 4});
  const Bytes pool = bytes("max_pool_backward",
                           R"("d": {"shape": [2, 3, 4, 4]}, "x": {"shape": [2, 3, 8, 8]},
                              "i": {"shape": [2, 3, 4, 4], "dtype": "i64"})",
                           R"("inputs": ["d", "x", "i"], "output": "y")");
  CHECK(pool == Bytes{96 * (4 + 8), 384 * 4});
  const std::string_view convolved = R"("d": {"shape": [2, 6, 8, 8]},
      "x": {"shape": [2, 4, 8, 8]}, "w": {"shape": [6, 4, 3, 3]})";
  CHECK(bytes("conv2d_backward", convolved,
              R"("inputs": ["d", "x", "w"], "outputs": ["a", "b", "c"], "padding": 1)") ==
        Bytes{4 * (768 + 512 + 216), 4 * (512 + 216 + 6)});
  CHECK(made("conv2d_backward", convolved,
             R"("inputs": ["d", "x", "w"], "outputs": ["b", "c"], "padding": 1,
                "gradients": [1, 2])") == "f32 [6, 4, 3, 3], f32 [6]");
  CHECK(made("layer_norm_backward",
             R"("x": {"shape": [2, 3, 8]}, "m": {"shape": [2, 3, 1]}, "w": {"shape": [8]})",
             R"("inputs": ["x", "x", "m", "m", "w"], "outputs": ["a", "b"],
                "gradients": [0, 2])") == "f32 [2, 3, 8], f32 [8]");
  CHECK(made("attention_backward",
             R"("q": {"shape": [2, 4, 5, 16]}, "k": {"shape": [2, 2, 7, 16]},
                "s": {"shape": [2, 4, 5]})",
             R"("inputs": ["q", "q", "k", "k", "q", "s"], "outputs": ["a", "b", "c"])") ==
        "f32 [2, 4, 5, 16], f32 [2, 2, 7, 16], f32 [2, 2, 7, 16]");
  CHECK(made("embedding_backward",
             R"("d": {"shape": [3, 5, 8]}, "i": {"shape": [3, 5], "dtype": "i32"})",
             R"("inputs": ["d", "i"], "output": "y", "size": 100)") == "f32 [100, 8]");
  CHECK(fault_of(list_of("conv2d_backward", convolved,
                         R"("inputs": ["d", "x", "w"], "outputs": ["a"], "padding": 1,
                            "gradients": [3])")) ==
        "/ops/0/gradients: must list numbers from 0 to 2, in order");
}
