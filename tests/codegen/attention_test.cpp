// Which building block an attention kernel uses, and how it is launched.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "plan/attention_tiling.hpp"
#include "support/devices.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;

GeneratedKernel attention(const std::string& q, const std::string& k, const std::string& more = "",
                          ComputeCapability capability = kHopper,
                          const std::string& rest = R"("output": "y")",
                          const std::string& dtype = "bf16") {
  const bool masked = !more.empty();
  const OpGraph graph = testing::graph_of(fmt::format(
      R"({{"dtype": "{5}", "tensors": {{"q": {{"shape": [{0}]}}, "k": {{"shape": [{1}]}},
          "v": {{"shape": [{1}]}}{2}}},
          "ops": [{{"op": "attention", "inputs": ["q", "k", "v"{3}], {4}}}]}})",
      q, k, masked ? ", \"m\": " + more : "", masked ? ", \"m\"" : "", rest, dtype));
  TrafficCounter counter(graph, known_devices().front());
  Device device = testing::device_of(capability);
  device.multiprocessors = 132;
  return generate(counter, {0}, device);
}

TEST_CASE("keys are split over as many blocks as run at once") {
  // 64 key heads x 4 parts fill 256 of 264 places; 8 parts would need two rounds.
  CHECK(key_split(64, 4, 512, 264).parts == 4);
  CHECK(key_split(64, 4, 512, 264).tiles == 128);
  // 512 key heads fill two rounds by themselves.
  CHECK(key_split(512, 4, 32, 264).parts == 1);
  // Parts of whole tiles: 33 of 4 tiles are more than the 128 that there are.
  CHECK(key_split(8, 4, 128, 264).parts == 32);
  CHECK(key_split(8, 4, 128, 264).tiles == 4);
  CHECK(key_split(1, 1, 1, 264).parts == 1);
}

TEST_CASE("few queries share their key head's loads, and keys are split") {
  const GeneratedKernel kernel = attention("8, 32, 1, 128", "8, 8, 32768, 128");
  CHECK(contains(kernel, "AttentionFew<bf16, 128, 1, 3, 4, false"));
  CHECK(kernel.blocks == 4);
  CHECK(kernel.blocks_y == 8);
  CHECK(kernel.blocks_z == 8);
  CHECK(kernel.threads == 128);
  // Three tiles of 64 keys and values of 256 bytes; a maximum and a sum for 16 rows of 4 warps.
  CHECK(kernel.shared_bytes == 3 * 64 * 2 * 256 + 16 * 4 * 8);
  // For each of 256 rows four parts of 128 sums and two numbers; a count for each of 64 key heads.
  CHECK(kernel.workspace_bytes == 256 * 4 * (128 + 2) * 4 + 64 * 4);
  CHECK(contains(kernel, ", u8* work) {\n  Attention::run("));
  CHECK(!kernel.gaps.more_writes.empty());
}

TEST_CASE("a block that has all of its keys needs no workspace") {
  const GeneratedKernel kernel = attention("64, 32, 1, 128", "64, 8, 2048, 128");
  CHECK(kernel.blocks == 1);
  CHECK(kernel.workspace_bytes == 0);
  CHECK(!contains(kernel, "u8* work) {\n  Attention::run("));
  CHECK(kernel.gaps.more_writes.empty());
}

TEST_CASE("up to 32 rows of a key head are few, on every GPU with tensor cores for bf16") {
  CHECK(contains(attention("1, 32, 8, 64", "1, 8, 512, 64"), "AttentionFew<bf16, 64, 2,"));
  CHECK(contains(attention("1, 32, 9, 64", "1, 8, 512, 64"), "AttentionSm90<"));
  CHECK(contains(attention("1, 32, 8, 64", "1, 8, 512, 64", "", {8, 0}), "AttentionFew<"));
  CHECK(contains(attention("1, 32, 9, 64", "1, 8, 512, 64", "", {8, 0}), "AttentionSm80<"));
}

TEST_CASE("32-bit floats are multiplied by tensor cores, in smaller tiles") {
  const auto of = [](const char* q, const char* k, ComputeCapability capability = kHopper) {
    return attention(q, k, "", capability, R"("output": "y")", "f32");
  };
  const GeneratedKernel many = of("2, 8, 640, 64", "2, 2, 640, 64");
  CHECK(contains(many, "AttentionWordsSm90<64, false, PlainScores, Epilogue>"));
  CHECK(many.blocks == 10);
  CHECK(many.threads == 128);
  CHECK(many.shared_bytes == 7 * 64 * 64 * 4 + 128);
  CHECK(contains(of("2, 8, 640, 120", "2, 2, 640, 120"), "AttentionWordsSm90<128, "));
  CHECK(contains(of("2, 8, 640, 136", "2, 2, 640, 136"), "AttentionAny<"));
  const GeneratedKernel elsewhere = of("2, 8, 640, 64", "2, 2, 640, 64", {8, 0});
  CHECK(contains(elsewhere, "AttentionSm80<f32, 64, "));
  CHECK(elsewhere.shared_bytes == (64 + 2 * 32) * 64 * 4);
  // Three tiles of 64 keys and values of 512 bytes are all that fits beside each other.
  CHECK(contains(of("8, 32, 1, 128", "8, 8, 32768, 128"), "AttentionFew<f32, 128, 1, 3, "));
  CHECK(contains(of("8, 32, 1, 136", "8, 8, 32768, 136"), "AttentionAny<"));
  CHECK(contains(of("2, 8, 640, 60", "2, 2, 640, 60"), "AttentionAny<"));
  CHECK(contains(of("2, 8, 640, 64", "2, 2, 640, 64", {7, 5}), "AttentionAny<"));
}

TEST_CASE("a block has fewer queries where queries see few keys, or blocks are few") {
  const GeneratedKernel few = attention("2, 8, 640, 64", "2, 2, 640, 64");
  CHECK(contains(few, "AttentionAloneSm90<bf16, 128, false, PlainScores, Epilogue>"));
  CHECK(few.blocks == 10);
  CHECK(few.threads == 128);
  const GeneratedKernel many = attention("8, 16, 4096, 64", "8, 16, 4096, 64");
  CHECK(contains(many, "AttentionSm90<bf16, 64, 3, 128, "));
  CHECK(many.blocks == 22);
  // Longer heads: 8 x 8 blocks of 64 run at once, 8 x 64 do not.
  CHECK(
      contains(attention("1, 8, 512, 128", "1, 8, 512, 128"), "AttentionSm90<bf16, 128, 1, 128, "));
  CHECK(contains(attention("1, 8, 4096, 128", "1, 8, 4096, 128"),
                 "AttentionSm90<bf16, 128, 2, 128, "));
}

TEST_CASE("causal attention has heads in groups whose keys the L2 holds") {
  constexpr std::uint64_t kL2 = std::uint64_t{60} << 20U;
  constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20U;
  CHECK(heads_together(128, 1, kMegabyte, kL2) == 15);      // 9 groups, of 15 and of 8
  CHECK(heads_together(16, 1, kMegabyte, kL2) == 8);        // 2 of 8, not of 15 and 1
  CHECK(heads_together(12, 1, kMegabyte, kL2) == 12);       // all
  CHECK(heads_together(64, 4, 4 * kMegabyte, kL2) == 12);   // of 3 key heads
  CHECK(heads_together(32, 8, 100 * kMegabyte, kL2) == 8);  // those of one key head at least
  CHECK(heads_together(0, 1, 0, kL2) == 0);
  const GeneratedKernel kernel = attention("8, 16, 2048, 128", "8, 16, 2048, 128", "", kHopper,
                                           R"("output": "y", "causal": true)");
  CHECK(kernel.blocks * kernel.blocks_z >= 128);
  CHECK(kernel.blocks < 16);
  CHECK(kernel.blocks_y == 16);
}

TEST_CASE("tiles cover all keys with as few as they can") {
  CHECK(attention_tile_keys(64, true, 512) == 128);
  CHECK(attention_tile_keys(64, true, 197) == 112);  // two tiles of 98.5
  CHECK(attention_tile_keys(64, true, 257) == 96);   // three of 85.7
  CHECK(attention_tile_keys(64, true, 1) == 16);
  CHECK(attention_tile_keys(96, true, 77) == 80);
  CHECK(attention_tile_keys(128, true, 577) == 128);  // five of 115.4
  CHECK(attention_tile_keys(192, true, 197) == 80);   // three of 65.7
  CHECK(attention_tile_keys(256, true, 81) == 48);    // two of 40.5
  // Aligned masks are loaded for 32 keys at a time.
  CHECK(attention_tile_keys(96, false, 72) == 96);
  CHECK(attention_tile_keys(96, false, 77) == 80);
  CHECK(contains(attention("32, 8, 197, 80", "32, 8, 197, 80"),
                 "AttentionSm90<bf16, 96, 2, 112, false, "));
  const GeneratedKernel kernel = attention("32, 12, 197, 64", "32, 12, 197, 64");
  CHECK(contains(kernel, "AttentionAloneSm90<bf16, 112, false, "));
  // Queries, and two stages of keys and of values, of 128 bytes a line; barriers.
  CHECK(kernel.shared_bytes == (64 + 4 * 112) * 128 + 128);
}

TEST_CASE("the log-sum-exp of scores is stored where it is needed") {
  const std::string heads = "1, 8, 2048, 64";
  const std::string both = R"("outputs": ["y", "l"])";
  CHECK(contains(attention(heads, heads), "kSums = false;"));
  const GeneratedKernel kernel = attention(heads, heads, "", kHopper, both);
  CHECK(contains(kernel, "kSums = true;"));
  CHECK(contains(kernel, "i64 row, T sum) const {\n    const i64 q = ((i64)batch * 8 + head) *"));
  CHECK(contains(attention(heads, heads, "", {8, 0}, both), "kSums = true;"));
}

TEST_CASE("blocks of few queries share the keys of the window") {
  // 1,000 of 32,768 keys, from 31,768 on: tiles of 64 from the 496th to the 512th.
  const GeneratedKernel kernel = attention("64, 32, 1, 128", "64, 8, 32768, 128", "", kHopper,
                                           R"("output": "y", "causal": true, "window": 1000)");
  CHECK(contains(kernel, "{64, 32, 8, 1, 32768, 32767, 1000, "));
  CHECK(kernel.blocks == 1);
  CHECK(contains(kernel, "}, kShape, 16, "));
}

// Keys and values in pages of [rows, 2 heads, 128], two batches of 63 pages. `keys`: of both.
GeneratedKernel paged_attention(const std::string& pages, const std::string& keys) {
  const auto gathered = [&](const std::string& name) {
    return fmt::format(R"({{"op": "gather", "inputs": ["{0}", "t"], "output": "g{0}"}},
        {{"op": "reshape", "inputs": ["g{0}"], "output": "r{0}", "shape": [2, {1}, 2, 128]}},
        {{"op": "permute_view", "inputs": ["r{0}"], "output": "p{0}", "perm": [0, 2, 1, 3]}},)",
                       name, keys);
  };
  const OpGraph graph = testing::graph_of(fmt::format(
      R"({{"dtype": "bf16", "tensors": {{"q": {{"shape": [2, 8, 1, 128]}}, "k": {{"shape": [{0}]}},
          "v": {{"shape": [{0}]}}, "t": {{"shape": [2, 63], "dtype": "i32"}}}},
          "ops": [{1}{2}{{"op": "attention", "inputs": ["q", "pk", "pv"], "output": "y"}}]}})",
      pages, gathered("k"), gathered("v")));
  TrafficCounter counter(graph, known_devices().front());
  Device device = testing::device_of(kHopper);
  device.multiprocessors = 132;
  return generate(counter, {0, 1, 2}, device);
}

TEST_CASE("few queries find keys and values in pages that a table lists") {
  const GeneratedKernel kernel = paged_attention("200, 16, 2, 128", "1008");
  // A page is 16 rows of 2 x 128 elements; each batch has 63 entries.
  CHECK(contains(kernel, "PagedRows<bf16, i32, 16>{p"));
  CHECK(contains(kernel, ", 4096, 256, 128, 63}, "));
  CHECK(contains(kernel, "AttentionFew<bf16, 128, 1, "));
  CHECK(kernel.gaps.more_reads.starts_with("rows that several indices name"));
  CHECK(kernel.storages.size() == 5);  // the gathered copies are not among them
  CHECK(contains(paged_attention("200, 64, 2, 128", "4032"), "PagedRows<bf16, i32, 64>{p"));
}

TEST_CASE("masks are loaded for as many keys at a time as their alignment allows") {
  const auto of = [](int keys, const std::string& mask) {
    return attention("2, 4, 256, 64", fmt::format("2, 4, {}, 64", keys), mask);
  };
  constexpr const char* kTogether2 = "kTogether = 2;\n  static constexpr bool kEights = ";
  const GeneratedKernel even = of(256, R"({"shape": [256, 256]})");
  CHECK(contains(even, fmt::format("{}true", kTogether2)));
  CHECK(contains(even, "load_neighbours<8, kCount>"));
  CHECK(contains(of(258, R"({"shape": [256, 258]})"), fmt::format("{}false", kTogether2)));
  CHECK(contains(of(258, R"({"shape": [256, 258]})"), "load_neighbours<2, kCount>"));
  CHECK(contains(of(257, R"({"shape": [256, 257]})"), "kTogether = 1;"));
  // The same for all keys of a query: one element.
  CHECK(!contains(of(256, R"({"shape": [256, 1]})"), "load_neighbours<8, kCount>"));
}

}  // namespace
}  // namespace fusecalc
