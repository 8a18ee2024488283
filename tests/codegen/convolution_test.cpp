#include "codegen/convolution.hpp"

#include <doctest/doctest.h>

#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "plan/tiling.hpp"
#include "support/devices.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;
using testing::generated;
using testing::graph_of;
using testing::op_called;

std::string list(const std::string& x, const std::string& weight, const std::string& attributes,
                 const std::string& more = {}, const std::string& op = "conv2d",
                 const std::string& dtype = "bf16") {
  return R"({"dtype": ")" + dtype + R"(", "tensors": {"x": {"shape": )" + x +
         R"(}, "w": {"shape": )" + weight + R"(}}, "ops": [{"name": "c", "op": ")" + op +
         R"(", "inputs": ["x", "w"], "output": "h")" + attributes + "}" + more + "]}";
}

TEST_CASE("axes that a convolution lacks come first and have extent 1") {
  const OpGraph graph =
      graph_of(list("[2, 6, 20]", "[8, 3, 5]",
                    R"(, "stride": 2, "padding": 1, "dilation": 3, "groups": 2)", "", "conv1d"));
  const Convolution made = convolution_of(graph, graph.ops[0]);
  CHECK(made.images == 2);
  CHECK(made.groups == 2);
  CHECK(made.channels == 3);
  CHECK(made.filters == 4);
  CHECK(made.axes[0].in == 1);
  CHECK(made.axes[1].kernel == 1);
  // Five taps three apart cover 13 of 22 elements: five places, two apart.
  CHECK(made.axes[2].out == 5);
  CHECK(made.pixels() == 5);
  CHECK(made.taps() == 5);
  // Five pixels are filled up to eight in each image.
  CHECK(made.columns() == 16);
  REQUIRE(made.strides);
  CHECK(made.strides->image == 120);
  CHECK(made.strides->channel == 20);
  CHECK(made.strides->at[2] == 1);
  CHECK(made.strides->at[1] == 0);
  CHECK(made.alignment(8) == 4);
}

TEST_CASE("an input that a view reorders has the strides of its memory") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16",
      "tensors": {"x": {"shape": [2, 9, 7, 16]}, "w": {"shape": [8, 16, 3, 3]}},
      "ops": [{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]},
              {"name": "c", "op": "conv2d", "inputs": ["t", "w"], "output": "y"}]})");
  const Convolution made = convolution_of(graph, graph.ops[op_called(graph, "c")]);
  REQUIRE(made.strides);
  CHECK(made.strides->channel == 1);
  CHECK(made.strides->at[1] == 7 * 16);
  CHECK(made.strides->at[2] == 16);
  CHECK(made.alignment(8) == 1);
}

TEST_CASE("the kernel depends on filters, channels and windows") {
  const auto schedule = [](const std::string& text) {
    return generated(graph_of(text), {0}).schedule;
  };
  // The copy engine gathers windows of many channels, and tiles are as high as the filters need.
  CHECK(schedule(list("[200, 64, 14, 14]", "[64, 64, 3, 3]", R"(, "padding": 1)")) ==
        "wgmma over windows, tiles of 64 x 256");
  CHECK(schedule(list("[200, 64, 14, 14]", "[256, 64, 3, 3]", "")) ==
        "wgmma over windows, tiles of 128 x 128");
  // Tiles for less than half of the multiprocessors are small, and blocks have three steps of k or
  // more, of 9 and of 36; four have a multiprocessor each for 28 tiles.
  CHECK(schedule(list("[2, 64, 14, 14]", "[64, 64, 3, 3]", R"(, "padding": 1)")) ==
        "wgmma over windows, tiles of 64 x 64, 2 blocks share k");
  CHECK(schedule(list("[2, 256, 14, 14]", "[256, 256, 3, 3]", R"(, "padding": 1)")) ==
        "wgmma over windows, tiles of 64 x 64, 4 blocks share k");
  // 128 filters of many pixels leave enough tiles that are wide, and stored in words.
  CHECK(schedule(list("[64, 64, 32, 32]", "[128, 64, 3, 3]", R"(, "padding": 1)")) ==
        "wgmma over windows, tiles of 128 x 256");
  CHECK(schedule(list("[64, 64, 31, 31]", "[128, 64, 3, 3]", R"(, "padding": 1)")) ==
        "wgmma over windows, tiles of 128 x 128");
  // Where it has none of those, all taps of 32 channels are fetched at once.
  const auto older = [](const std::string& text) {
    const OpGraph graph = graph_of(text);
    TrafficCounter counter(graph, known_devices().front());
    return generate(counter, {0}, testing::device_of({8, 0})).schedule;
  };
  CHECK(older(list("[2, 64, 14, 14]", "[64, 64, 3, 3]", R"(, "padding": 1)")) ==
        "mma over patches, tiles of 64 x 256");
  CHECK(older(list("[2, 64, 14, 14]", "[256, 64, 3, 3]", "")) ==
        "mma over patches, tiles of 128 x 128");
  // Five lines of 2000 elements do not fit.
  CHECK(older(list("[2, 32, 8, 2000]", "[64, 32, 3, 3]", "")) ==
        "mma over windows, tiles of 64 x 256");
  // Three channels share no tap.
  CHECK(schedule(list("[2, 3, 32, 32]", "[64, 3, 7, 7]", R"(, "stride": 2)")) ==
        "mma over windows, tiles of 64 x 256");
  // A channel for each filter: planes that a block holds (two of 14 x 14 results are whole 16
  // bytes), or lines of large ones and of whole 16 bytes. Tensor cores take lines of even numbers
  // of 16-bit elements.
  CHECK(schedule(list("[2, 64, 22, 20]", "[64, 1, 5, 5]", R"(, "groups": 64)")) ==
        "mma with bands of weights, 4 planes of 1 image per block");
  CHECK(schedule(list("[2, 64, 16, 16]", "[64, 1, 3, 3]", R"(, "groups": 64)", "", "conv2d",
                      "f32")) == "1 plane per block, strips of 2 x 14 per thread");
  CHECK(schedule(list("[2, 64, 130, 130]", "[64, 1, 3, 3]", R"(, "groups": 64)")) ==
        "windows without tensor cores, 1 filter x 8 pixels per thread");
  CHECK(schedule(list("[2, 64, 16, 16]", "[64, 1, 3, 3]", R"(, "padding": 1, "groups": 64)", "",
                      "conv2d", "f32")) ==
        "windows without tensor cores, 1 filter x 8 pixels per thread");
  CHECK(schedule(list("[2, 64, 16, 16]", "[64, 64, 3, 3]", "", "", "conv2d", "f64")) ==
        "windows without tensor cores, 4 filters x 8 pixels per thread");
}

TEST_CASE("windows of 32-bit floats are gathered where tiles of 128 filters fill the chip") {
  const auto kernel = [](const std::string& x, const std::string& w, const std::string& type,
                         const std::string& more = R"(, "padding": 1)") {
    return generated(graph_of(list(x, w, more, "", "conv2d", type)), {0});
  };
  const GeneratedKernel exact = kernel("[56, 256, 14, 14]", "[256, 256, 3, 3]", "f32");
  CHECK(exact.schedule == "wgmma over windows, tiles of 128 x 128, three products each");
  // The filters, the windows and what tf32 misses of those; half of the windows for each block.
  CHECK(exact.shared_bytes == 4 * (3 * 16384 + 24));
  CHECK(exact.maps[0].box == std::array<std::uint32_t, 4>{32, 128, 1, 1});
  CHECK(exact.maps[1].box == std::array<std::uint32_t, 4>{32, 64, 1, 1});
  CHECK(exact.maps[1].dtype == DType::kF32);
  CHECK(exact.maps[1].strides[0] == 256 * 4);
  // Both copies: the filters in steps of 32 channels, and the input with its channels last.
  CHECK(exact.packing);
  CHECK(exact.workspace_bytes >= (256 * 256 * 9 + 56 * 196 * 256) * 4);

  const GeneratedKernel once = kernel("[56, 256, 14, 14]", "[256, 256, 3, 3]", "tf32");
  CHECK(once.schedule == "wgmma over windows, tiles of 128 x 128");
  CHECK(once.maps[1].dtype == DType::kTf32);
  CHECK(once.maps[1].box == std::array<std::uint32_t, 4>{32, 64, 1, 1});

  // 13 x 2 tiles for 132 multiprocessors: four blocks share the depth of each. 64 filters would
  // leave half of a tile empty.
  CHECK(kernel("[8, 256, 14, 14]", "[256, 256, 3, 3]", "f32").schedule ==
        "mma over windows, tiles of 128 x 128, 4 blocks share k");
  CHECK(kernel("[17, 256, 14, 14]", "[256, 256, 3, 3]", "f32").schedule == exact.schedule);
  CHECK(kernel("[56, 64, 56, 56]", "[64, 64, 3, 3]", "f32").schedule ==
        "mma over windows, tiles of 64 x 256");
}

TEST_CASE("windows of single elements are products of matrices, which the library has, too") {
  const OpGraph graph = graph_of(list("[4, 64, 16, 16]", "[128, 32, 1, 1]", R"(, "groups": 2)"));
  const auto product = product_of_pixels(graph, graph.ops[0]);
  REQUIRE(product);
  CHECK(product->m == 64);
  CHECK(product->n == 256);
  CHECK(product->k == 32);
  CHECK(product->outer == 4);
  CHECK(product->inner == 2);
  CHECK(product->a.outer == 0);
  CHECK(product->a.inner == 64 * 32);
  CHECK(product->b.across);
  CHECK(product->b.outer == 64 * 256);
  CHECK(product->b.inner == 32 * 256);
  const GeneratedKernel kernel = generated(graph, {0});
  CHECK(kernel.library);
  CHECK(kernel.schedule.starts_with("wgmma"));
  // Of 49 pixels, lines are not aligned, and most of a tile would be empty: the tiles of windows
  // have pixels of several images.
  const OpGraph few = graph_of(list("[4, 64, 7, 7]", "[128, 64, 1, 1]", ""));
  CHECK(generated(few, {0}).schedule == "wgmma over windows, tiles of 128 x 128");
  const OpGraph strided = graph_of(list("[4, 64, 32, 32]", "[128, 64, 1, 1]", R"(, "stride": 2)"));
  CHECK(!product_of_pixels(strided, strided.ops[0]));
}

TEST_CASE("single elements of few channels are products of a short k") {
  const auto schedule = [](const std::string& text) {
    return generated(graph_of(text), {0}).schedule;
  };
  CHECK(schedule(list("[64, 24, 56, 56]", "[144, 24, 1, 1]", "")) ==
        "mma from registers, short k, tiles of 80 x 64");
  CHECK(schedule(list("[64, 24, 14, 14]", "[144, 24, 1, 1]", "")) ==
        "mma from registers, short k, tiles of 16 x 32");
  // Rows of three pixels more than whole fours, and groups, whose weights differ.
  CHECK(!schedule(list("[64, 24, 57, 31]", "[144, 24, 1, 1]", "")).starts_with("mma from"));
  CHECK(!schedule(list("[64, 64, 56, 56]", "[64, 32, 1, 1]", R"(, "groups": 2)"))
             .starts_with("mma from"));
}

TEST_CASE("weights are packed by an entry that runs first, and an epilogue follows its channels") {
  const std::string tail =
      R"(, {"op": "batch_norm", "inputs": ["h", "s", "s", "s", "s"], "output": "n", "mode": "inference"},
         {"op": "relu", "inputs": ["n"], "output": "r"},
         {"op": "add", "inputs": ["r", "h2"], "output": "y"})";
  std::string text = list("[2, 24, 9, 11]", "[72, 24, 3, 3]", R"(, "padding": 1)", tail);
  text.insert(text.find("\"w\""),
              R"("s": {"shape": [72], "dtype": "f32"}, "h2": {"shape": [2, 72, 9, 11]}, )");
  const GeneratedKernel kernel = generated(graph_of(text), {0, 1, 2, 3});
  REQUIRE(kernel.source.entries.size() == 2);
  CHECK(kernel.source.entries.back() == "pack");
  // 9 taps of 24 channels in steps of 32, for 72 filters, of two bytes.
  CHECK(kernel.workspace_bytes == 72 * 224 * 2);
  CHECK(kernel.packing->blocks == 72 * 224 / 256);
  // The row counts images and channels.
  CHECK(contains(kernel, "q32 % 72"));
  // What is the same for all pixels is multiplied once, and relu takes no instruction beside the
  // conversion that follows it.
  CHECK(contains(kernel, "* (rsqrt("));
  CHECK(contains(kernel, "= quick_relu("));
  CHECK(contains(kernel, "q * 99 + column"));
}

TEST_CASE("the copy engine gathers windows from a copy with channels last") {
  const OpGraph graph = graph_of(
      list("[2, 72, 9, 11]", "[80, 72, 3, 5]", R"(, "padding": [1, 2], "stride": [2, 1])"));
  const GeneratedKernel kernel = generated(graph, {0});
  // 15 taps of two boxes of 64 channels for each filter, then two images of 99 pixels.
  const std::uint64_t weights = 80 * 15 * 128 * 2;
  CHECK(kernel.workspace_bytes == weights + 2 * 99 * 72 * 2);
  // Channels of filters, and an image of one tile of pixels, in two boxes.
  CHECK(kernel.packing->blocks == 80 * 128 / 256 + 2 * 2);
  REQUIRE(kernel.maps.size() == 2);
  CHECK(kernel.maps[0].extents == std::array<std::uint64_t, 4>{15 * 128, 80, 1, 1});
  const MappedTensor& input = kernel.maps[1];
  CHECK(input.storage == kNone);
  CHECK(input.offset == weights);
  CHECK(input.extents == std::array<std::uint64_t, 4>{72, 11, 9, 2});
  CHECK(input.strides == std::array<std::uint64_t, 3>{144, 11 * 144, 99 * 144});
  REQUIRE(input.windows);
  CHECK(input.windows->first == std::array<std::int32_t, 2>{-2, -1});
  // Windows reach four columns and two lines further.
  CHECK(input.windows->last == std::array<std::int32_t, 2>{-2, -1});
  CHECK(input.windows->strides == std::array<std::uint32_t, 2>{1, 2});
}

// 49 pixels: neither is an image's first pixel of a filter at a whole word, nor eight neighbours
// always of one image.
TEST_CASE("lines of pixels that are no whole words leave through shared memory") {
  const auto kernel = [](const std::string& filters, const std::string& operand) {
    const OpGraph graph = graph_of(R"({"dtype": "bf16",
        "tensors": {"x": {"shape": [400, 64, 7, 7]}, "w": {"shape": [)" +
                                   filters + R"(, 64, 3, 3]}, "o": {"shape": )" + operand + R"(}},
        "ops": [{"name": "c", "op": "conv2d", "inputs": ["x", "w"], "output": "h", "padding": 1},
                {"name": "add", "op": "add", "inputs": ["h", "o"], "output": "t"},
                {"name": "relu", "op": "relu", "inputs": ["t"], "output": "y"}]})");
    return generated(graph, {0, 1, 2});
  };
  const auto leaves = [](const GeneratedKernel& made) {
    return contains(made, "Made* result() const {");
  };
  const GeneratedKernel of_filters = kernel("160", "[160, 1, 1]");
  CHECK(leaves(of_filters));
  CHECK(of_filters.shared_bytes == 6 * (256 * 128 + 16) + 32768);
  CHECK(leaves(kernel("160", "[1]")));
  // What differs between pixels or images is read for each element.
  CHECK(!leaves(kernel("160", "[400, 160, 1, 1]")));
  const GeneratedKernel of_pixels = kernel("160", "[7, 7]");
  CHECK(!leaves(of_pixels));
  CHECK(contains(of_pixels, "load_columns<1>("));
  // But where it lies as the result, it is brought to the place of that.
  const GeneratedKernel residual = kernel("160", "[400, 160, 7, 7]");
  CHECK(leaves(residual));
  CHECK(contains(residual, "const Beside* operand() const {"));
  CHECK(!contains(of_filters, "operand() const {"));
  CHECK(!leaves(kernel("168", "[168, 1, 1]")));  // warps have 16 filters each
}

// The copy engine takes lines of whole 16 bytes; 196 pixels have 392.
TEST_CASE("pixels of single elements are copied to the tiles where it takes no line of them") {
  const auto kernel = [](const std::string& x, const std::string& weight,
                         const std::string& attributes = {}) {
    return generated(graph_of(list(x, weight, attributes)), {0});
  };
  // Two tiles an image, of 98 pixels each: the next width is 104.
  const GeneratedKernel two = kernel("[70, 1024, 14, 14]", "[512, 1024, 1, 1]");
  CHECK(two.schedule == "wgmma over pixels, tiles of 128 x 104");
  CHECK(contains(two, "104, 1, 0, LinesOfB::kAcross, Epilogue, PixelsB<Geometry, 128, 4>>"));
  // The filters lie as the product takes them, and nothing is copied first.
  REQUIRE(two.maps.size() == 1);
  CHECK(two.maps[0].extents == std::array<std::uint64_t, 4>{1024, 512, 1, 1});
  CHECK(two.workspace_bytes == 0);
  CHECK(!two.packing);
  // Boxes of 64 columns: 128 lines of B in a stage.
  CHECK(two.shared_bytes == 6 * ((128 + 128) * 128 + 16));
  CHECK(two.blocks == 132);
  // Two images of 64 pixels share a tile; few filters have low ones.
  const GeneratedKernel small = kernel("[5, 72, 8, 8]", "[64, 72, 1, 1]");
  CHECK(contains(small, "128, 1, 0, LinesOfB::kAcross, Epilogue, PixelsB<Geometry, 64, 8>>"));
  CHECK(small.shared_bytes == 5 * ((64 + 128) * 128 + 16));
  CHECK(small.blocks == 3);
  CHECK(contains(kernel("[4, 64, 9, 10]", "[96, 64, 1, 1]"), "PixelsB<Geometry, 128, 2>>"));

  const auto copies = [&](const std::string& x, const std::string& weight,
                          const std::string& attributes = {}) {
    return contains(kernel(x, weight, attributes), "PixelsB<Geometry, ");
  };
  CHECK(copies("[4, 64, 14, 14]", "[1280, 64, 1, 1]"));
  CHECK(!copies("[4, 64, 14, 14]", "[1288, 64, 1, 1]"));  // more filters repay to copy first
  CHECK(!copies("[4, 64, 7, 7]", "[128, 64, 1, 1]"));     // of two bytes nothing is copied
  CHECK(!copies("[4, 60, 14, 14]", "[128, 60, 1, 1]"));   // a filter's line has whole 16 bytes
  CHECK(!copies("[4, 64, 16, 16]", "[128, 64, 1, 1]"));   // the copy engine takes these
  CHECK(!copies("[4, 64, 5, 6]", "[128, 64, 1, 1]"));     // more than half of a tile is empty
  CHECK(!copies("[4, 64, 14, 14]", "[128, 32, 1, 1]", R"(, "groups": 2)"));
  CHECK(!copies("[4, 64, 14, 14]", "[128, 64, 1, 1]", R"(, "stride": 2)"));
  CHECK(!copies("[4, 64, 14, 14]", "[128, 64, 3, 3]", R"(, "padding": 1)"));
}

TEST_CASE("channels that are copied to the tiles have no gaps") {
  const auto copies = [](const std::string& shape, const std::string& view) {
    const OpGraph graph = graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": )" + shape +
                                   R"(}, "w": {"shape": [128, 64, 1, 1]}}, "ops": [{"op": )" +
                                   view + R"(, "inputs": ["x"], "output": "t"},
           {"name": "c", "op": "conv2d", "inputs": ["t", "w"], "output": "y"}]})");
    return contains(generated(graph, {op_called(graph, "c")}), "PixelsB<Geometry, ");
  };
  CHECK(copies("[4, 72, 14, 14]", R"("slice_view", "axis": 1, "end": 64)"));
  CHECK(!copies("[4, 64, 15, 14]", R"("slice_view", "axis": 2, "end": 14)"));
  CHECK(!copies("[4, 14, 14, 64]", R"("permute_view", "perm": [0, 3, 1, 2])"));
}

TEST_CASE("planes of one channel come as a stream, whatever the length of a line") {
  const auto kernel = [](const std::string& x, const std::string& attributes) {
    return generated(graph_of(list(x, "[512, 1, 3, 3]", attributes)), {0});
  };
  // Seven strips of two lines a plane: 18 of them are 126 strips. A multiple of four planes of 364
  // bytes begins at multiples of 16.
  const GeneratedKernel many = kernel("[256, 512, 14, 13]", R"(, "padding": 1, "groups": 512)");
  CHECK(contains(many, "ConvolvePlanes<Geometry, bf16, 16, 2, 13, 1,"));
  CHECK(contains(many, "Made* result() const {"));
  CHECK(many.shared_bytes == 16 * (364 + 364));
  CHECK(many.threads == 128);
  CHECK(many.blocks == 8192);  // of 131072 planes
  // 98 bytes: eight at a time.
  const GeneratedKernel odd = kernel("[256, 512, 7, 7]", R"(, "padding": 1, "groups": 512)");
  CHECK(contains(odd, "ConvolvePlanes<Geometry, bf16, 64, 4, 7, 1,"));
  CHECK(odd.shared_bytes == 64 * (98 + 98));
  // 450 bytes and 128 of results, eight planes at a time: 40 leave room for eight blocks.
  CHECK(contains(kernel("[256, 512, 15, 15]", R"(, "padding": 1, "stride": 2, "groups": 512)"),
                 "ConvolvePlanes<Geometry, bf16, 40, 4, 8, 1,"));
  // Lines begin at multiples of four elements, strips of 14 do not.
  const std::string wide = list("[8, 512, 28, 28]", "[512, 1, 3, 3]",
                                R"(, "padding": 1, "groups": 512)", "", "conv2d", "f32");
  CHECK(contains(generated(graph_of(wide), {0}), "ConvolvePlanes<Geometry, f32, 4, 2, 14, 2,"));
}

TEST_CASE("bands of weights take planes of even lines, of elements and weights of one type") {
  const auto kernel = [](const std::string& x, const std::string& weight,
                         const std::string& attributes, const std::string& dtype = "bf16") {
    return generated(graph_of(list(x, weight, attributes, "", "conv2d", dtype)), {0});
  };
  // Four planes of 392 bytes for four warps, and four images of them for 6400 bytes; three times as
  // many on their way, each after a line of zeros, and twice as many results. 227 KiB have room for
  // six such blocks, and 792 of them take 44 of 256 images each where 128 have all channels.
  const GeneratedKernel many =
      kernel("[256, 512, 14, 14]", "[512, 1, 5, 5]", R"(, "padding": 2, "groups": 512)");
  CHECK(contains(many, "ConvolvePlanesMma<Geometry, bf16, 4, 2, 1, 44, 4, 3,"));
  CHECK(contains(many, "__launch_bounds__(Convolve::kThreads, 6)"));
  CHECK(many.shared_bytes == 4 * (3 * (128 + 1568) + 2 * 1568));
  CHECK(many.threads == 128);
  CHECK(many.blocks == 768);
  // Seven lines of each eight are 56 of a plane, of whose four tiles a warp has two.
  const GeneratedKernel wide =
      kernel("[64, 96, 56, 56]", "[96, 1, 7, 7]", R"(, "padding": 3, "groups": 96)");
  CHECK(contains(wide, "ConvolvePlanesMma<Geometry, bf16, 1, 7, 2,"));
  const auto in_bands = [&](const std::string& x, const std::string& weight,
                            const std::string& attributes, const std::string& dtype = "bf16") {
    return contains(kernel(x, weight, attributes, dtype), "ConvolvePlanesMma<");
  };
  const std::string groups = R"(, "groups": 64)";
  CHECK(in_bands("[2, 64, 22, 22]", "[64, 1, 5, 5]", groups, "f16"));
  CHECK(in_bands("[2, 64, 40, 40]", "[64, 1, 5, 5]", groups + R"(, "stride": 2, "padding": 2)"));
  CHECK(!in_bands("[2, 64, 20, 20]", "[64, 1, 3, 3]", groups, "f32"));
  CHECK(!in_bands("[2, 64, 20, 21]", "[64, 1, 3, 3]", groups));
  // Two planes of 14 x 14 are whole 16 bytes, of which 63 channels leave half.
  CHECK(!in_bands("[2, 63, 14, 14]", "[63, 1, 5, 5]", R"(, "groups": 63)"));
  CHECK(!in_bands("[2, 64, 20, 22]", "[64, 1, 3, 4]", groups));  // results of 19 columns
  // Windows of 29 columns, and of 31.
  CHECK(in_bands("[2, 64, 20, 40]", "[64, 1, 1, 29]", groups));
  CHECK(!in_bands("[2, 64, 20, 40]", "[64, 1, 1, 31]", groups));
  // Two planes of 25 kB on their way and two of results leave a multiprocessor two blocks.
  CHECK(in_bands("[2, 64, 112, 112]", "[64, 1, 3, 3]", groups + R"(, "padding": 1)"));
  CHECK(!in_bands("[2, 64, 114, 114]", "[64, 1, 3, 3]", groups + R"(, "padding": 1)"));
  CHECK(!in_bands("[2, 64, 112, 112]", "[64, 1, 3, 3]", groups + R"(, "padding": 1, "stride": 2)"));
}

TEST_CASE("sums of planes are left for an epilogue that differs between pixels") {
  std::string text = list("[64, 32, 14, 13]", "[32, 1, 3, 3]", R"(, "padding": 1, "groups": 32)",
                          R"(, {"op": "add", "inputs": ["h", "r"], "output": "y"})");
  text.insert(text.find("\"w\""), R"("r": {"shape": [64, 32, 14, 13]}, )");
  const GeneratedKernel kernel = generated(graph_of(text), {0, 1});
  CHECK(!contains(kernel, "Made* result() const {"));
  // 2048 planes leave a multiprocessor 16, of 364 bytes, and 182 sums each, from a multiple of 16
  // bytes on.
  CHECK(contains(kernel, "ConvolvePlanes<Geometry, bf16, 16, 2, 13, 1,"));
  CHECK(kernel.shared_bytes == 16 * (364 + 736));
}

// 18 planes of 14 x 14 have a strip for nearly every thread; but then 432 times eight sums leave 80
// threads idle while others take a fourth eight.
TEST_CASE("so many planes leave sums that all threads have some to take") {
  const auto planes = [](std::uint64_t result_bytes) {
    return plane_tiles({.images = 256, .groups = 512, .in = {14, 14}, .out = {14, 14}}, 2,
                       result_bytes, 132)
        ->planes;
  };
  CHECK(planes(0) == 16);
  CHECK(planes(2) == 18);
}

TEST_CASE(
    "planes with gaps, of several channels or without copies to shared memory are no stream") {
  const auto streams = [](const std::string& text, ComputeCapability capability = kHopper) {
    const OpGraph graph = graph_of(text);
    TrafficCounter counter(graph, known_devices().front());
    const Kernel kernel = {op_called(graph, "c")};
    return contains(generate(counter, kernel, testing::device_of(capability)), "ConvolvePlanes");
  };
  const std::string plain = list("[2, 64, 14, 14]", "[64, 1, 3, 3]", R"(, "groups": 64)");
  CHECK(streams(plain));
  CHECK(streams(plain, {8, 0}));
  CHECK(!streams(plain, {7, 5}));
  CHECK(!streams(list("[2, 64, 14, 14]", "[64, 2, 3, 3]", R"(, "groups": 32)")));
  CHECK(
      !streams(list("[2, 64, 14, 14]", "[64, 1, 3, 3]", R"(, "groups": 64)", "", "conv2d", "f64")));
  const auto of_view = [](const std::string& shape, const std::string& view) {
    return R"({"dtype": "bf16", "tensors": {"x": {"shape": )" + shape +
           R"(}, "w": {"shape": [64, 1, 3, 3]}}, "ops": [{"op": )" + view +
           R"(, "inputs": ["x"], "output": "t"},
           {"name": "c", "op": "conv2d", "inputs": ["t", "w"], "output": "y", "groups": 64}]})";
  };
  CHECK(!streams(of_view("[2, 65, 14, 14]", R"("slice_view", "axis": 1, "end": 64)")));
}

TEST_CASE("channels that lie last are put apart first where the result's do not lie last") {
  const auto of = [](const char* more, ComputeCapability capability = kHopper) {
    const OpGraph graph = graph_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"p": {{"shape": [3, 28, 30, 97]}},
                                          "w": {{"shape": [96, 1, 3, 3]}}}},
            "ops": [{{"op": "slice_view", "inputs": ["p"], "output": "x", "axis": 3, "end": 96}},
                    {{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]}},
                    {{"op": "conv2d", "inputs": ["t", "w"], "output": "y", "padding": 1,
                      "groups": 96}}{}]}})",
        more));
    TrafficCounter counter(graph, known_devices().front());
    Kernel kernel;
    for (OpId id = 0; id < graph.ops.size(); ++id) kernel.push_back(id);
    return generate(counter, kernel, testing::device_of(capability));
  };
  const GeneratedKernel kernel = of("");
  CHECK(contains(kernel, "ConvolvePlanesMma<"));
  CHECK(contains(kernel, "TurnPlanes<bf16>::copy(blockIdx.x, p"));
  CHECK(contains(kernel, "reinterpret_cast<bf16*>(work + 0), {96, 840, 30, 81480, 2910, 97});"));
  // Three images of 14 x 2 tiles.
  CHECK(kernel.packing->blocks == 3 * 14 * 2);
  CHECK(kernel.workspace_bytes >= 3 * 96 * 840 * 2);
  CHECK(!kernel.gaps.more_writes.empty());
  CHECK(!contains(of(R"(, {"op": "transpose", "inputs": ["y"], "output": "z",
                           "perm": [0, 2, 3, 1]})"),
                  "TurnPlanes"));
  CHECK(!contains(of("", {7, 5}), "TurnPlanes"));
}

// 66 clusters, 72 steps. 1024 filters: three rounds of 256 pixels where six of 128 take longer; 512
// filters: two rounds of 256 take as long as 3.8 of 128, of which three are enough.
TEST_CASE("tiles of windows are wide where that takes fewer rounds") {
  const auto columns = [](std::uint64_t images, std::uint64_t filters, std::uint64_t pixels) {
    return window_tiles({.images = images,
                         .channels = 512,
                         .filters = filters,
                         .taps = 9,
                         .in = pixels,
                         .out = pixels},
                        true, 132)
        .columns;
  };
  CHECK(columns(244, 1024, 49) == 256);
  CHECK(columns(256, 512, 49) == 128);
  CHECK(columns(61, 1024, 196) == 256);
}

TEST_CASE("an input with its channels last is not copied") {
  const OpGraph graph = graph_of(R"({"dtype": "bf16",
      "tensors": {"x": {"shape": [2, 9, 7, 64]}, "w": {"shape": [128, 64, 3, 3]}},
      "ops": [{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]},
              {"name": "c", "op": "conv2d", "inputs": ["t", "w"], "output": "y"}]})");
  const GeneratedKernel kernel = generated(graph, {op_called(graph, "c")});
  CHECK(kernel.workspace_bytes == 128 * 9 * 64 * 2);
  REQUIRE(kernel.maps.size() == 2);
  CHECK(kernel.maps[1].storage != kNone);
  CHECK(kernel.maps[1].strides == std::array<std::uint64_t, 3>{128, 7 * 128, 63 * 128});
}

TEST_CASE("what is read once or twice is not copied first") {
  const auto gathers = [](const std::string& text) {
    return generated(graph_of(text), {0}).schedule.starts_with("wgmma over windows");
  };
  // 64 filters of single elements, of 49 pixels; 9 taps take 9 times as long.
  CHECK(!gathers(list("[4, 64, 7, 7]", "[64, 64, 1, 1]", "")));
  CHECK(gathers(list("[4, 64, 7, 7]", "[64, 64, 3, 3]", R"(, "padding": 1)")));
  // A quarter of the results.
  CHECK(!gathers(list("[4, 64, 8, 8]", "[48, 64, 3, 3]", R"(, "padding": 1, "stride": 2)")));
  // Few channels or filters leave most of a tile empty, and a group's channels fill whole boxes.
  CHECK(!gathers(list("[4, 16, 8, 8]", "[128, 16, 3, 3]", "")));
  CHECK(!gathers(list("[4, 64, 8, 8]", "[32, 64, 3, 3]", "")));
  CHECK(!gathers(list("[4, 192, 8, 8]", "[128, 96, 3, 3]", R"(, "groups": 2)")));
  CHECK(gathers(list("[4, 256, 8, 8]", "[128, 128, 3, 3]", R"(, "groups": 2)")));
}

TEST_CASE("few tiles of 32-bit floats are shared by the blocks of a cluster") {
  const auto made = [](const std::string& x, const std::string& weight,
                       ComputeCapability capability) {
    return generated(graph_of(list(x, weight, R"(, "padding": 1)", "", "conv2d", "f32")), {0},
                     capability);
  };
  // Four tiles of 144 steps.
  const GeneratedKernel eight = made("[1, 256, 14, 14]", "[256, 256, 3, 3]", kHopper);
  CHECK(contains(eight, "BlocksOfCluster<8>"));
  CHECK(contains(eight, "__cluster_dims__(8, 1, 1)"));
  CHECK(eight.blocks == 4 * 8);
  CHECK(eight.shared_bytes == 128 * 128 * 4);
  CHECK(eight.source.architecture_bound);
  CHECK(eight.schedule.ends_with("8 blocks share k"));
  // 49 tiles, of which two blocks each fit the multiprocessors.
  CHECK(made("[4, 64, 56, 56]", "[64, 64, 3, 3]", kHopper).blocks == 49 * 2);
  // Nine steps, which two blocks have four of each at least.
  CHECK(made("[1, 16, 8, 8]", "[64, 16, 3, 3]", kHopper).blocks == 2);
  CHECK(made("[8, 64, 56, 56]", "[64, 64, 3, 3]", kHopper).blocks == 98);
  CHECK(contains(made("[1, 256, 14, 14]", "[256, 256, 3, 3]", {8, 0}), "OneBlock"));
}

TEST_CASE("channels side by side belong to threads side by side") {
  const auto made = [](const std::string& groups) {
    return generated(graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [2, 50, )" + groups +
                              R"(]}, "w": {"shape": [)" + groups + R"(, 1, 4]}},
        "ops": [{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 2, 1]},
                {"op": "conv1d", "inputs": ["t", "w"], "output": "y", "padding": 3,
                 "groups": )" +
                              groups + "}]}"),
                     {0});
  };
  // A line of 53 is computed eight at a time.
  CHECK(contains(made("64"), "ConvolveAny<Geometry, f32, f32, u32, 1, 8, 1, true, "));
  CHECK(contains(made("16"), "ConvolveAny<Geometry, f32, f32, u32, 1, 8, 1, false, "));
}

TEST_CASE("a bias is one number for each channel") {
  std::string text = list("[2, 8, 6, 6]", "[4, 8, 3, 3]", "");
  text.replace(text.find(R"("x", "w"])"), 9, R"("x", "w", "b"])");
  text.insert(text.find("\"w\""), R"("b": {"shape": [4]}, )");
  CHECK(contains(generated(graph_of(text), {0}), "q32 % 4"));
}

TEST_CASE("two convolutions are two kernels, and so are a convolution and a reduction of it") {
  const OpGraph two = graph_of(list("[1, 8, 9, 9]", "[8, 8, 3, 3]", R"(, "padding": 1)",
                                    R"(, {"op": "conv2d", "inputs": ["h", "w"], "output": "y"})"));
  TrafficCounter counter(two, known_devices().front());
  CHECK(!check_launch(counter.phases(), {0, 1}, runner_rules(known_devices().front())).legal());
  const OpGraph sum =
      graph_of(list("[1, 8, 9, 9]", "[8, 8, 3, 3]", "",
                    R"(, {"op": "sum", "inputs": ["h"], "output": "y", "axes": [-1]})"));
  TrafficCounter other(sum, known_devices().front());
  CHECK(!check_launch(other.phases(), {0, 1}, runner_rules(known_devices().front())).legal());
}

}  // namespace
}  // namespace fusecalc
