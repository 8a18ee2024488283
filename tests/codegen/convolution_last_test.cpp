#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/convolution.hpp"
#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "plan/channels_last.hpp"
#include "plan/last_bands.hpp"
#include "plan/last_down.hpp"
#include "plan/legality.hpp"
#include "support/devices.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::all_ops;
using testing::contains;
using testing::generated;
using testing::graph_of;
using testing::tensor_named;

// A convolution of `groups`, and what follows it: `more` takes h. Its input
// has its channels last in memory, and so have its weights where these are so listed.
struct Last {
  std::string x;  // shapes
  std::string weight;
  std::string groups = "1";
  bool weights_last = false;
  std::string tensors{};
  std::string more =
      R"({"name": "z", "op": "transpose", "inputs": ["h"], "output": "y", "perm": [0, 2, 3, 1]})";
  std::string dtype = "bf16";
  int padding = 1;

  OpGraph graph() const {
    constexpr const char* kView =
        R"({{"op": "permute_view", "inputs": ["{}"], "output": "{}t", "perm": [0, 3, 1, 2]}}, )";
    return graph_of(fmt::format(
        R"({{"dtype": "{}", "tensors": {{"x": {{"shape": {}}}, "w": {{"shape": {}}}{}}},
            "ops": [{}{}{{"name": "c", "op": "conv2d", "inputs": ["xt", "{}"], "output": "h",
                     "padding": {}, "groups": {}}}, {}], "outputs": ["y"]}})",
        dtype, x, weight, tensors, fmt::format(kView, "x", "x"),
        weights_last ? fmt::format(kView, "w", "w") : "", weights_last ? "wt" : "w", padding,
        groups, more));
  }
};

// Single elements of so many images of 14 x 14 pixels.
Last of_single(std::uint64_t images, const std::string& weight) {
  const std::string channels = weight.substr(weight.find(' ') + 1);
  return {.x = fmt::format("[{}, 14, 14, {}]", images, channels.substr(0, channels.find(','))),
          .weight = weight,
          .padding = 0};
}

// A residual in memory as N x H x W x C, or in another order.
Last with_residual(const std::string& perm, bool stores_last) {
  Last last{.x = "[2, 8, 8, 64]", .weight = "[64, 64, 3, 3]"};
  last.tensors = R"(, "r": {"shape": [2, 8, 8, 64]})";
  last.more = fmt::format(
      R"({{"op": "permute_view", "inputs": ["r"], "output": "rt", "perm": {}}},
         {{"name": "a", "op": "add", "inputs": ["h", "rt"], "output": "{}"}})",
      perm, stores_last ? "s" : "y");
  if (stores_last) {
    last.more += R"(, {"op": "transpose", "inputs": ["s"], "output": "y", "perm": [0, 2, 3, 1]})";
  }
  return last;
}

TEST_CASE("windows of few channels that lie last, over two axes at most") {
  const auto schedule_of = [](const std::string& x, const std::string& weight,
                              const std::string& to_first, const std::string& to_last) {
    const OpGraph graph = graph_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": {}}}, "w": {{"shape": {}}}}},
            "ops": [{{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": {}}},
                    {{"op": "conv{}d", "inputs": ["t", "w"], "output": "h", "padding": 1}},
                    {{"op": "transpose", "inputs": ["h"], "output": "y", "perm": {}}}]}})",
        x, weight, to_first, std::ranges::count(to_last, ',') - 1, to_last));
    return generated(graph, all_ops(graph)).schedule;
  };
  constexpr const char* kFew = "mma from registers, windows of few channels";
  CHECK(schedule_of("[2, 9, 9, 16]", "[24, 16, 3, 3]", "[0, 3, 1, 2]", "[0, 2, 3, 1]")
            .starts_with(kFew));
  CHECK(schedule_of("[2, 9, 16]", "[24, 16, 3]", "[0, 2, 1]", "[0, 2, 1]").starts_with(kFew));
  CHECK(!schedule_of("[2, 5, 9, 9, 16]", "[24, 16, 3, 3, 3]", "[0, 4, 1, 2, 3]", "[0, 2, 3, 4, 1]")
             .starts_with(kFew));
  CHECK(!schedule_of("[2, 9, 9, 48]", "[24, 48, 3, 3]", "[0, 3, 1, 2]", "[0, 2, 3, 1]")
             .starts_with(kFew));
  CHECK(schedule_of("[2, 9, 9, 144]", "[24, 144, 1, 1]", "[0, 3, 1, 2]", "[0, 2, 3, 1]")
            .starts_with(kFew));
  CHECK(!schedule_of("[2, 9, 9, 144]", "[40, 144, 1, 1]", "[0, 3, 1, 2]", "[0, 2, 3, 1]")
             .starts_with(kFew));
  CHECK(!schedule_of("[2, 9, 9, 12]", "[24, 12, 3, 3]", "[0, 3, 1, 2]", "[0, 2, 3, 1]")
             .starts_with(kFew));
}

TEST_CASE("single elements, channels last: all pixels are rows of a product") {
  const auto product_of = [](const std::string& x, const std::string& weight,
                             const std::string& perm, const std::string& more = "") {
    const OpGraph graph = graph_of(fmt::format(
        R"({{"dtype": "bf16", "tensors": {{"x": {{"shape": {}}}, "w": {{"shape": {}}}}},
            "ops": [{{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": {}}},
                    {{"op": "conv2d", "inputs": ["t", "w"], "output": "y"{}}}]}})",
        x, weight, perm, more));
    return product_of_pixel_rows(graph, graph.ops.back());
  };
  constexpr const char* kLast = "[0, 3, 1, 2]";
  const auto found = product_of("[5, 7, 9, 24]", "[40, 24, 1, 1]", kLast);
  REQUIRE(found);
  CHECK(found->m == 5 * 7 * 9);
  CHECK(found->n == 40);
  CHECK(found->k == 24);
  CHECK(found->a.line == 24);
  CHECK(found->b.line == 24);
  CHECK(!found->b.across);
  // Lines before columns of pixels, windows, strides, groups, and channels that come first.
  CHECK(!product_of("[5, 7, 9, 24]", "[40, 24, 1, 1]", "[0, 3, 2, 1]"));
  CHECK(!product_of("[5, 7, 9, 24]", "[40, 24, 3, 1]", kLast));
  CHECK(!product_of("[5, 7, 9, 24]", "[40, 24, 1, 1]", kLast, R"(, "stride": 2)"));
  CHECK(!product_of("[5, 7, 9, 24]", "[40, 12, 1, 1]", kLast, R"(, "groups": 2)"));
  CHECK(!product_of("[5, 24, 7, 9]", "[40, 24, 1, 1]", "[0, 1, 2, 3]"));
}

TEST_CASE("elements with their channels last are counted pixel by pixel") {
  // Two images of three channels and four pixels: the second pixel's first channel is element 1.
  const StridedMap map = channels_last({2, 3, 2, 2});
  CHECK(map(0) == 0);
  CHECK(map(1) == 4);
  CHECK(map(3) == 1);
  CHECK(map(12) == 12);
  CHECK(map(13) == 16);
  const OpGraph graph =
      Last{.x = "[2, 8, 8, 64]", .weight = "[64, 3, 3, 64]", .weights_last = true}.graph();
  CHECK(lies_channels_last(tensor_named(graph, "xt")));
  CHECK(lies_channels_last(tensor_named(graph, "wt")));
  CHECK(!lies_channels_last(tensor_named(graph, "h")));
}

TEST_CASE("a result that leaves with its channels last is a matrix of pixels") {
  Last last{.x = "[40, 14, 14, 64]", .weight = "[136, 64, 3, 3]"};
  last.tensors = R"(, "s": {"shape": [136], "dtype": "f32"})";
  last.more = R"({"op": "batch_norm", "inputs": ["h", "s", "s", "s", "s"], "output": "n",
                  "mode": "inference"},
                 {"op": "transpose", "inputs": ["n"], "output": "y", "perm": [0, 2, 3, 1]})";
  const GeneratedKernel kernel = generated(last.graph());
  CHECK(contains(kernel, "WindowsA<Geometry, false>"));
  // Tiles end beyond the last filter, and nothing is read there.
  CHECK(contains(kernel, "column = min(column, (i64)128);"));
  CHECK(contains(kernel, "const i64 i = q * 136 + column;"));
  CHECK(contains(kernel, " + i, valid, "));
  // Parameters of channels are loaded without regard to the pixel.
  CHECK(contains(kernel, "load_neighbours<8, 8>("));
  CHECK(!contains(kernel, "load_columns<8>("));
  CHECK(contains(kernel, "prefetch_eight(p2 + 0 + column);"));
  CHECK(contains(kernel, "kReadsOwn = false;"));
}

TEST_CASE("few filters are the rows of tiles, many and single elements their columns") {
  const auto kernel = [](const std::string& filters) {
    return generated(
        Last{.x = "[80, 14, 14, 128]", .weight = fmt::format("[{}, 128, 3, 3]", filters)}.graph());
  };
  CHECK(contains(kernel("64"), "WindowsB<Geometry, 64, false, true>"));
  CHECK(contains(kernel("72"), "WindowsA<Geometry, false>"));
  CHECK(!contains(kernel("256"), "column = min("));
  // A padding of 1 makes windows of single elements; without one, pixels are lines of a matrix.
  const Last padded{.x = "[80, 14, 14, 128]", .weight = "[64, 128, 1, 1]"};
  CHECK(contains(generated(padded.graph()), "WindowsA<Geometry, true>"));
  const GeneratedKernel single = generated(of_single(400, "[64, 128, 1, 1]").graph());
  CHECK(single.schedule.starts_with("wgmma over pixels, tiles of 128 x "));
  CHECK(contains(single, "LinesOfB::kInOrder, Epilogue>"));
  REQUIRE(single.maps.size() == 2);
  CHECK(single.maps[0].extents == std::array<std::uint64_t, 4>{128, 400 * 196, 1, 1});
  CHECK(!single.maps[0].windows);
}

TEST_CASE("few pixels have small tiles, a block each, and wide ones are another way") {
  const GeneratedKernel kernel = generated(of_single(64, "[160, 960, 1, 1]").graph());
  CHECK(kernel.schedule == "wgmma over windows, tiles of 128 x 160");
  CHECK(contains(kernel,
                 "ConvolveFewSm90<bf16, 128, 160, 1, 6, Epilogue, WindowsA<Geometry, true>>"));
  CHECK(kernel.blocks == 98);
  CHECK(std::ranges::any_of(kernel.others, [](const GeneratedKernel& other) {
    return other.schedule.starts_with("wgmma over pixels, tiles of 128 x ");
  }));
  // With a copy before it, there is one way.
  CHECK(generated(Last{.x = "[64, 14, 14, 960]", .weight = "[160, 960, 3, 3]"}.graph())
            .others.empty());
}

TEST_CASE("what is the same for all pixels is found once for a tile") {
  const std::string parameters = R"(, "s": {"shape": [160], "dtype": "f32"})";
  const std::string norm =
      R"({"op": "batch_norm", "inputs": ["h", "s", "s", "s", "s"], "output": "n",
          "mode": "inference"}, {"op": "transpose", "inputs": ["n"], "output": "y",
          "perm": [0, 2, 3, 1]})";
  Last last = of_single(64, "[160, 960, 1, 1]");
  last.tensors = parameters, last.more = norm;
  const GeneratedKernel kernel = generated(last.graph());
  CHECK(contains(kernel, "static constexpr int kTerms = 2;"));
  CHECK(contains(kernel, "v[j] * t"));
  // Of a tile, too, that lies beyond all channels.
  CHECK(contains(kernel, "column = min(column, (i64)152);"));
  CHECK(kernel.shared_bytes == 6 * ((128 + 160) * 128 + 16) + 2 * 160 * 4);
}

TEST_CASE("a residual may lie with its channels last where the result does") {
  const auto legal = [](const std::string& perm, bool stores_last) {
    const OpGraph graph = with_residual(perm, stores_last).graph();
    TrafficCounter counter(graph, known_devices().front());
    return check_launch(counter.phases(), all_ops(graph), runner_rules(known_devices().front()))
        .legal();
  };
  CHECK(legal("[0, 3, 1, 2]", true));
  CHECK(!legal("[0, 3, 1, 2]", false));
  CHECK(!legal("[0, 3, 2, 1]", true));
  const GeneratedKernel kernel = generated(with_residual("[0, 3, 1, 2]", true).graph());
  CHECK(contains(kernel, " + i, valid, x"));
  CHECK(contains(kernel, "kReadsOwn = true;"));
}

TEST_CASE("weights that lie as the tiles take them are not copied") {
  const Last last{.x = "[80, 14, 14, 128]", .weight = "[72, 3, 3, 128]", .weights_last = true};
  const OpGraph graph = last.graph();
  const GeneratedKernel kernel = generated(graph);
  CHECK(contains(kernel, "WindowsA<Geometry, true>"));
  REQUIRE(kernel.maps.size() == 2);
  CHECK(kernel.maps[1].storage == tensor_named(graph, "w").storage);
  CHECK(kernel.maps[1].extents == std::array<std::uint64_t, 4>{9 * 128, 2, 72 / 8, 4});
  CHECK(kernel.workspace_bytes == 0);
  CHECK(!kernel.packing);
  const auto copied = [](const Last& other) {
    return generated(other.graph()).packing.has_value();
  };
  CHECK(copied({.x = "[80, 14, 14, 128]", .weight = "[72, 128, 3, 3]"}));
  // Of several taps, channels are whole boxes of 64.
  CHECK(copied({.x = "[80, 14, 14, 72]", .weight = "[72, 3, 3, 72]", .weights_last = true}));
  CHECK(!copied({.x = "[80, 14, 14, 72]", .weight = "[72, 72, 1, 1]"}));
  CHECK(copied({.x = "[80, 14, 14, 68]", .weight = "[72, 68, 1, 1]"}));
}

TEST_CASE("groups of few channels are multiplied as one of 64") {
  const GeneratedKernel kernel =
      generated(Last{.x = "[20, 28, 28, 128]", .weight = "[256, 4, 3, 3]", .groups = "32"}.graph());
  // 16 groups of four channels and eight filters, twice.
  REQUIRE(kernel.maps.size() == 2);
  CHECK(kernel.maps[1].extents == std::array<std::uint64_t, 4>{9 * 64, 2, 2 * 128 / 8, 4});
  CHECK(contains(kernel, "ConvolvePack<Geometry, bf16, 16, "));
  CHECK(kernel.workspace_bytes == 256 * 9 * 64 * 2);
  const auto gathers = [](const std::string& x, const std::string& weight,
                          const std::string& groups) {
    return generated(Last{.x = x, .weight = weight, .groups = groups}.graph())
        .schedule.starts_with("wgmma over windows");
  };
  CHECK(!gathers("[20, 28, 28, 96]", "[96, 12, 3, 3]", "8"));    // 64 are no multiple of 12
  CHECK(!gathers("[20, 28, 28, 32]", "[64, 4, 3, 3]", "8"));     // too few groups
  CHECK(!gathers("[20, 28, 28, 128]", "[128, 2, 3, 3]", "64"));  // mostly products of zeros
}

GeneratedKernel of_single_channels(const std::string& x, const std::string& weight,
                                   const std::string& groups, const std::string& dtype = "bf16",
                                   ComputeCapability capability = kHopper) {
  const OpGraph graph = Last{.x = x, .weight = weight, .groups = groups, .dtype = dtype}.graph();
  return generated(graph, all_ops(graph), capability);
}

TEST_CASE("single channels that lie last are summed by threads that go down lines") {
  const GeneratedKernel kernel = of_single_channels("[64, 28, 28, 96]", "[96, 1, 3, 3]", "96");
  CHECK(contains(kernel, "typedef ConvolveLastDown<Geometry, bf16, "));
  CHECK(kernel.maps.empty());
  // Two channels of a pixel leave together.
  CHECK(contains(kernel, "f32 (&v)[2], Valid valid"));
  CHECK(contains(kernel, "store_columns<8>("));
  const auto goes_down = [](const GeneratedKernel& other) {
    return contains(other, "ConvolveLastDown<");
  };
  const ComputeCapability ampere{8, 0};
  CHECK(goes_down(of_single_channels("[64, 28, 28, 96]", "[96, 1, 3, 3]", "96", "bf16", ampere)));
  CHECK(goes_down(of_single_channels("[64, 28, 28, 96]", "[96, 1, 7, 7]", "96", "f32")));
  // Copies are of 16 bytes.
  CHECK(goes_down(of_single_channels("[64, 28, 28, 100]", "[100, 1, 3, 3]", "100", "f32")));
  CHECK(!goes_down(of_single_channels("[64, 28, 28, 100]", "[100, 1, 3, 3]", "100")));
  CHECK(!goes_down(of_single_channels("[64, 28, 28, 96]", "[192, 1, 3, 3]", "96")));
  CHECK(!goes_down(of_single_channels("[64, 28, 28, 96]", "[96, 1, 3, 3]", "96", "f64")));
  // A result with its pixels last is none of a matrix of channels.
  Last first{.x = "[64, 28, 28, 96]", .weight = "[96, 1, 3, 3]", .groups = "96"};
  first.more = R"({"op": "relu", "inputs": ["h"], "output": "y"})";
  CHECK(!goes_down(generated(first.graph())));
}

TEST_CASE("single channels of many taps that lie last are multiplied by bands of weights") {
  const GeneratedKernel kernel = of_single_channels("[64, 28, 28, 96]", "[96, 1, 7, 7]", "96");
  CHECK(contains(kernel, "typedef ConvolveLastBands<Geometry, bf16, 8, 2, "));
  // Eight pixels of a channel, whose places in the result the block knows.
  CHECK(contains(kernel, "f32 (&v)[8], Valid valid, Pack<"));
  CHECK(!contains(kernel, "store_columns<"));
  CHECK(kernel.maps.empty());
  const auto by_bands = [](const GeneratedKernel& other) {
    return contains(other, "ConvolveLastBands<");
  };
  CHECK(by_bands(of_single_channels("[64, 28, 28, 96]", "[96, 1, 7, 7]", "96", "f16", {8, 0})));
  CHECK(by_bands(of_single_channels("[64, 28, 28, 96]", "[96, 1, 11, 11]", "96")));
  CHECK(!by_bands(of_single_channels("[64, 28, 28, 96]", "[96, 1, 5, 5]", "96")));
  CHECK(!by_bands(of_single_channels("[64, 28, 28, 96]", "[96, 1, 7, 7]", "96", "f32")));
  CHECK(!by_bands(of_single_channels("[64, 28, 28, 100]", "[100, 1, 7, 7]", "100")));
  CHECK(!by_bands(of_single_channels("[64, 40, 40, 96]", "[96, 1, 31, 31]", "96")));
}

TEST_CASE("threads that go down lines fill the multiprocessors evenly") {
  // 14 x 14: two halves of a line, and 264 blocks at a time.
  const LastShape shape{.images = 114, .channels = 512, .out = {14, 14}, .taps = {3, 3}};
  const auto down = last_down(shape, known_devices().front());
  REQUIRE(down.has_value());
  CHECK(down->beside == 7);
  CHECK(down->lines == 14);
  CHECK(down->units(shape) == 114 * 2 * 256);
  CHECK(down->blocks(shape) <= down->resident * 132);
  CHECK(down->shared_bytes == down->stages * 9 * (down->threads * 4 + 32));
  // Few results have threads of few lines.
  const auto one = last_down({.images = 1, .channels = 64, .out = {14, 14}, .taps = {3, 3}},
                             known_devices().front());
  REQUIRE(one.has_value());
  CHECK(one->lines < 14);
  // Strides of several lines have fewer sums open at a time, and large windows too many weights.
  CHECK(last_down({.channels = 64, .out = {40, 40}, .taps = {7, 7}}, known_devices().front())
            .has_value());
  CHECK(!last_down({.channels = 64, .out = {40, 40}, .taps = {11, 11}}, known_devices().front()));
  CHECK(!last_down({.channels = 36, .out = {40, 40}, .taps = {3, 3}}, known_devices().front()));
}

TEST_CASE("bands have tiles of whole lines, and as many as fill the multiprocessors") {
  const auto of = [](std::uint64_t images, std::uint64_t channels, std::uint64_t side) {
    return LastShape{.images = images,
                     .channels = channels,
                     .in = {side, side},
                     .out = {side, side},
                     .taps = {7, 7},
                     .padding = {3, 3}};
  };
  const LastShape shape = of(128, 192, 28);
  const auto bands = last_bands(shape, false, known_devices().front());
  REQUIRE(bands.has_value());
  CHECK(bands->channels() == 16);
  CHECK(bands->lines == 28);
  CHECK(bands->columns == 28);
  // Four lines of the result take ten of the input, whose loads bring eight times as many.
  CHECK(bands->reused == 4);
  CHECK(bands->resident == 2);
  CHECK(bands->blocks(shape) <= bands->resident * 132);
  CHECK(bands->blocks(shape) * bands->each >= 12 * 128);
  // 34 lines of 32 columns; the words between lines and planes keep these in other banks.
  CHECK(bands->shared_bytes == 16 * (34 * (16 + 1) + 2) * 4 + 16 * 34 * 32 * 2);
  // Small planes share a tile, and a single image is parted.
  const auto small = last_bands(of(128, 768, 7), false, known_devices().front());
  REQUIRE(small.has_value());
  CHECK(small->together > 1);
  const auto one = last_bands(of(1, 64, 14), false, known_devices().front());
  REQUIRE(one.has_value());
  CHECK(one->lines < 14);
  CHECK(!last_bands({.channels = 36, .in = {40, 40}, .out = {40, 40}, .taps = {7, 7}}, false,
                    known_devices().front()));
  CHECK(!last_bands({.channels = 64, .in = {40, 40}, .out = {10, 10}, .taps = {31, 31}}, false,
                    known_devices().front()));
}

TEST_CASE("kernels of single channels fit in the shared memory of every GPU") {
  constexpr const char* kLast =
      R"({"op": "transpose", "inputs": ["h"], "output": "y", "perm": [0, 2, 3, 1]})";
  for (const std::string dtype : {"bf16", "f32"}) {
    for (const unsigned side : {7U, 28U, 56U, 112U}) {
      for (const unsigned taps : {3U, 5U, 7U, 9U, 11U}) {
        const std::string text = fmt::format(
            R"({{"dtype": "{0}", "tensors": {{"x": {{"shape": [64, {1}, {1}, 96]}},
                 "w": {{"shape": [96, 1, {2}, {2}]}}, "p": {{"shape": [64, 96, {1}, {1}]}}}},
                "ops": [{{"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]}},
                        {{"name": "c", "op": "conv2d", "inputs": ["t", "w"], "output": "h",
                          "padding": {3}, "groups": 96}}, {4},
                        {{"name": "d", "op": "conv2d", "inputs": ["p", "w"], "output": "z",
                          "padding": {3}, "groups": 96}}], "outputs": ["y", "z"]}})",
            dtype, side, taps, taps / 2, kLast);
        const OpGraph graph = graph_of(text);
        for (const Device& device : known_devices()) {
          CAPTURE(device.name);
          CAPTURE(text);
          TrafficCounter counter(graph, device);
          CHECK(generate(counter, {0, 1}, device).shared_bytes <= device.on_chip_bytes);
          CHECK(generate(counter, {2}, device).shared_bytes <= device.on_chip_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fusecalc
