#include "codegen/generate.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "core/error.hpp"
#include "graph/graph_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;
using testing::generated;
using testing::graph_of;

TEST_CASE("a chain accesses 16 bytes per thread, and only its ends") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [1000]}},
      "ops": [{"op": "add", "inputs": ["x", 1], "output": "a"},
              {"op": "relu", "inputs": ["a"], "output": "y"}]})");
  const GeneratedKernel kernel = generated(graph);
  CHECK(kernel.storages.size() == 2);
  CHECK(kernel.threads == 256);
  CHECK(kernel.blocks == 1);  // 250 groups of 4
  CHECK(contains(kernel, "load_pack<kV>(p0 + i)"));
  CHECK(contains(kernel, "store_pack<kV>(p1 + i"));
  CHECK(kernel.workspace_bytes == 0);
}

TEST_CASE("numbers next to integers are as wide as they must be") {
  const auto source = [](const std::string& op) {
    return generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "i32",
        "tensors": {"x": {"shape": [1000]}}, "ops": [)" +
                              op + R"(]})"));
  };
  CHECK(contains(source(R"({"op": "add", "inputs": ["x", -5], "output": "y"})"), "+ (-5)"));
  // 3e9 and 2^40 need 64 bits; 1e300 and a fraction are floating point.
  CHECK(contains(source(R"({"op": "lt", "inputs": ["x", 3e9], "output": "y"})"), "3000000000ll"));
  CHECK(contains(source(R"({"op": "add", "inputs": ["x", 1099511627776], "output": "y"})"),
                 "+ 1099511627776ll"));
  CHECK(contains(source(R"({"op": "add", "inputs": ["x", -1e300], "output": "y"})"),
                 "+ lowest<f32>()"));
  CHECK(contains(source(R"({"op": "lt", "inputs": ["x", 0.5], "output": "y"})"), "f32(0.5)"));
  // A result that is declared an integer is computed as one.
  CHECK(contains(generated(graph_of(R"({"tensors": {"x": {"shape": [1000], "dtype": "i32"},
                                                    "y": {"dtype": "i32"}},
                     "ops": [{"op": "clamp", "inputs": ["x"], "min": -1e300, "max": 9.5,
                              "output": "y"}]})")),
                 "lowest<i32>()), 9)"));
}

TEST_CASE("no name of the op list reaches the source") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "name": "zzname",
      "tensors": {"zztensor": {"shape": [64], "dtype": "f32"}},
      "ops": [{"name": "zzop", "op": "exp", "inputs": ["zztensor"], "output": "zzresult"}]})");
  CHECK(!contains(generated(graph), "zz"));
}

TEST_CASE("a row that is needed again stays on chip if it fits, and is read again if not") {
  const auto softmax = [](const std::string& length) {
    return graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
        "tensors": {"x": {"shape": [512, )" +
                    length + R"(]}},
        "ops": [{"op": "softmax", "inputs": ["x"], "output": "y"}]})");
  };
  const GeneratedKernel small = generated(softmax("4096"));
  CHECK(small.schedule.find("held in registers") != std::string::npos);
  CHECK(small.gaps.fewer_reads.empty());
  const GeneratedKernel large = generated(softmax("1000000"));
  CHECK(large.schedule.find("held") == std::string::npos);
  CHECK(!large.gaps.fewer_reads.empty());
}

TEST_CASE("one long row is shared by many blocks, which leave room for partial results") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [100000000]}},
      "ops": [{"op": "sum", "inputs": ["x"], "output": "y"}]})");
  const GeneratedKernel kernel = generated(graph);
  CHECK(kernel.blocks > 132);
  CHECK(kernel.workspace_bytes > 0);
  CHECK(!kernel.gaps.more_writes.empty());
}

TEST_CASE("a long row is copied on chip whole before any of it is read") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [4096, 32768]}},
      "ops": [{"op": "softmax", "inputs": ["x"], "output": "y"}]})");
  const GeneratedKernel kernel = generated(graph);
  CHECK(kernel.threads == 512);
  CHECK(kernel.blocks == 4096);
  CHECK(kernel.shared_bytes == 65536);
  const std::string& text = kernel.source.text;
  const std::size_t last_copy = text.rfind("copy_async(h0[k * 512 + threadIdx.x], p0");
  const std::size_t first_wait = text.find("wait_for_copies<1>();");
  REQUIRE(last_copy != std::string::npos);
  REQUIRE(first_wait != std::string::npos);
  CHECK(last_copy < first_wait);
  CHECK(!contains(kernel, "@"));  // every place was filled in
}

TEST_CASE("a sum of losses runs fewer blocks than rows, and prefetches the scores that it picks") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [8192, 32000]}, "t": {"shape": [8192], "dtype": "i64"}},
      "ops": [{"op": "cross_entropy", "inputs": ["x", "t"], "output": "loss"}]})");
  const GeneratedKernel kernel = generated(graph);
  CHECK(kernel.blocks == 2112);  // four at once on each of 132 multiprocessors, four times
  CHECK(contains(kernel, "for (u32 block = blockIdx.x; block < 8192; block += 2112)"));
  const std::string& text = kernel.source.text;
  CHECK(text.rfind("fetch(p0, ") < text.find("merge_block<512>(s"));
  // The number of the class is loaded once.
  REQUIRE(contains(kernel, "fetch(p1, q)"));
  CHECK(text.find("fetch(p1, q)") == text.rfind("fetch(p1, q)"));
  // Seven rounds lie in the row for all threads and do not ask.
  CHECK(contains(kernel, "for (u32 k = 0; k < 7; ++k)"));
  CHECK(contains(kernel, "if (r < 32000)"));
}

TEST_CASE("blocks that sum losses have all of a short row on its way before they look at it") {
  const auto loss = [](const std::string& columns) {
    return generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
        "tensors": {"x": {"shape": [79946, )" +
                              columns + R"(]}, "t": {"shape": [79946], "dtype": "i64"}},
        "ops": [{"op": "cross_entropy", "inputs": ["x", "t"], "output": "loss"}]})"));
  };
  const GeneratedKernel odd = loss("777");
  const std::string& text = odd.source.text;
  const std::size_t rows = text.find("for (u32 block");
  REQUIRE(rows != std::string::npos);
  CHECK(text.rfind("copy_now(h0") < text.find("take(", rows));
  // What some threads skip comes first: the row's ends, then the round beyond the whole ones.
  CHECK(text.find("= h0_end;") < text.rfind("for (u32 k = 6; k < 7; ++k)"));
  CHECK(text.rfind("for (u32 k = 6; k < 7; ++k)") < text.rfind("for (u32 k = 0; k < 6; ++k)"));
  CHECK(contains(odd, "merge_blocks_left<128, "));
  // Nothing keeps loads of whole rounds back, and blocks of long rows have no registers for it.
  CHECK_FALSE(contains(loss("768"), "copy_now(h0"));
  CHECK_FALSE(contains(loss("32001"), "copy_now(h0"));
}

TEST_CASE("a row that is read again only by way of what is computed late is held") {
  const auto scaled = [](const std::string& last) {
    return generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
        "tensors": {"x": {"shape": [4096, 1000]}},
        "ops": [{"op": "sum", "inputs": ["x"], "output": "s", "axes": [1], "keepdim": true},
                {"op": "mul", "inputs": ["x", 3], "output": "a"},
                {"op": "mul", "inputs": [)" +
                              last + R"(, "s"], "output": "y"}]})"));
  };
  CHECK(contains(scaled(R"("a")"), "h0_own["));
  CHECK(contains(scaled(R"("x")"), "h0_own["));
}

TEST_CASE("what is made of a row takes its place, where the row is not needed again") {
  const std::string text = R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [4811, 12345]}},
      "ops": [{"op": "max", "inputs": ["x"], "output": "m", "axes": [1], "keepdim": true},
              {"op": "sub", "inputs": ["x", "m"], "output": "d"},
              {"op": "exp", "inputs": ["d"], "output": "e"},
              {"op": "sum", "inputs": ["e"], "output": "s", "axes": [1], "keepdim": true},
              {"op": "div", "inputs": ["e", "s"], "output": "y"})";
  const GeneratedKernel one = generated(graph_of(text + "]}"));
  CHECK(one.shared_bytes == 7 * 512 * 16);  // rounds of a block's threads, 16 bytes each
  CHECK(contains(one, "copy_async("));
  // The row's value is divided by what all of it has in common.
  CHECK(contains(one, "divide_rough("));
  const GeneratedKernel both =
      generated(graph_of(text + R"(, {"op": "mul", "inputs": ["x", "y"], "output": "z"}]})"));
  CHECK(both.shared_bytes > one.shared_bytes);
  // Neither where it is needed by way of something that is computed late.
  const GeneratedKernel late =
      generated(graph_of(text + R"(, {"op": "neg", "inputs": ["x"], "output": "n"},
                                  {"op": "add", "inputs": ["n", "y"], "output": "z"}]})"));
  CHECK(late.shared_bytes > one.shared_bytes);
  const GeneratedKernel rounded =
      generated(graph_of(text + R"(, {"op": "round", "inputs": ["y"], "output": "z"}]})"));
  CHECK_FALSE(contains(rounded, "= divide_rough("));
}

TEST_CASE("short rows of odd length are looked through in groups of rounds") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [1000000, 77]}},
      "ops": [{"op": "argmax", "inputs": ["x"], "output": "y", "axes": [1]}]})");
  const GeneratedKernel kernel = generated(graph);
  // Four threads have a row: 19 rounds that all of them take part in, and one more for the first.
  CHECK(contains(kernel, "for (u32 first = 0; first < 18; first += 9)"));
  CHECK(contains(kernel, "for (u32 first = 18; first < 19; first += 1)"));
  CHECK(contains(kernel, "for (u32 first = 19; first < 20; first += 1)"));
  CHECK(contains(kernel, "first * 4 + t);"));
  CHECK(contains(kernel, "if (r < 77)"));
}

TEST_CASE("functions are as exact as the type of their results asks for") {
  const auto text_of = [](const std::string& dtype) {
    return generated(graph_of(fmt::format(R"({{"format": "fusecalc.ops/1", "dtype": "{}",
        "tensors": {{"x": {{"shape": [1000]}}}},
        "ops": [{{"op": "gelu", "inputs": ["x"], "output": "a"}},
                {{"op": "sin", "inputs": ["a"], "output": "b"}},
                {{"op": "tanh", "inputs": ["b"], "output": "y"}}]}})",
                                          dtype)));
  };
  const GeneratedKernel exact = text_of("f32");
  CHECK(contains(exact, "= gelu_exact(v"));
  CHECK(contains(exact, "= sin(v"));
  CHECK(contains(exact, "= tanh(v"));
  const GeneratedKernel narrow = text_of("bf16");
  CHECK(contains(narrow, "= gelu_narrow(v"));
  CHECK(contains(narrow, "= sin_narrow(v"));
  CHECK(contains(narrow, "= tanh_rough(v"));
  // f16 tells four times as many numbers apart.
  CHECK(contains(text_of("f16"), "= tanh(v"));
}

TEST_CASE("columns that no whole groups divide are those of several lines, merged in the end") {
  const auto lines_as_one = [](const std::string& lines, const std::string& columns,
                               const std::string& ops) {
    const OpGraph graph =
        graph_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": [)" + lines + ", " + columns +
                 R"(]}, "w": {"shape": [)" + columns + R"(]}}, "ops": [)" + ops + "]}");
    return generated(graph);
  };
  const std::string sum = R"({"op": "sum", "inputs": ["x"], "output": "y", "axis": 0})";
  const GeneratedKernel odd = lines_as_one("80005", "77", sum);
  CHECK(odd.schedule.find(", 8 lines as one") != std::string::npos);
  // Ten thousand times eight lines, and five by themselves.
  CHECK(contains(odd, "load_pack<8>"));
  CHECK(contains(odd, "(idx r = 80000; r < 80005; ++r)"));
  CHECK(contains(odd, "finish(80005"));
  CHECK_FALSE(contains(lines_as_one("80000", "77", sum), "r < 80000; ++r"));
  // Two lines of 12 columns are whole groups.
  CHECK(lines_as_one("800000", "12", sum).schedule.find(", 2 lines") != std::string::npos);
  // Not where a tensor has an element for each column, or the matrix is small.
  const auto apart = [](const GeneratedKernel& kernel) {
    return kernel.schedule.find("as one") == std::string::npos;
  };
  CHECK(apart(lines_as_one("805", "77", sum)));
  CHECK(apart(lines_as_one("80005", "77",
                           R"({"op": "mul", "inputs": ["x", "w"], "output": "m"},
                              {"op": "sum", "inputs": ["m"], "output": "y", "axis": 0})")));
  // One line is whole groups: others may have an element for each column, too.
  const GeneratedKernel even = lines_as_one("80005", "80",
                                            R"({"op": "mul", "inputs": ["x", "w"], "output": "m"},
                      {"op": "var", "inputs": ["m"], "output": "y", "axis": 0})");
  CHECK(apart(even));
  CHECK(contains(even, "leave_columns<1020, 80, "));
  CHECK(even.cooperative);
  // A pivot is its column's, whichever of the lines it begins.
  CHECK(contains(
      lines_as_one("80005", "77", R"({"op": "var", "inputs": ["x"], "output": "y", "axis": 0})"),
      "% 77"));
}

TEST_CASE("blocks are counted once for all losses of a kernel") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [8192, 1000]}, "t": {"shape": [8192], "dtype": "i64"},
                  "u": {"shape": [8192], "dtype": "i64"}},
      "ops": [{"op": "cross_entropy", "inputs": ["x", "t"], "output": "first"},
              {"op": "cross_entropy", "inputs": ["x", "u"], "output": "second"}]})");
  const GeneratedKernel kernel = generated(graph);
  const std::string& text = kernel.source.text;
  const std::size_t counted = text.find("if (last_of(gates");
  REQUIRE(counted != std::string::npos);
  CHECK(text.find("if (last_of(gates", counted + 1) == std::string::npos);
  // The parts of both are in memory before.
  CHECK(text.rfind("[blockIdx.x] = ") < counted);
}

TEST_CASE("more than 2^31 elements are counted in 64 bits") {
  const auto copy = [](const std::string& rows) {
    return graph_of(R"({"format": "fusecalc.ops/1", "dtype": "i8",
        "tensors": {"x": {"shape": [)" +
                    rows + R"(, 1024]}},
        "ops": [{"op": "neg", "inputs": ["x"], "output": "y"}]})");
  };
  CHECK(contains(generated(copy("1024")), "typedef u32 idx;"));
  CHECK(contains(generated(copy("2097153")), "typedef u64 idx;"));
}

// x - m and its product are f32, x is bf16: two ops before the value that both passes read.
TEST_CASE("rows are held as the narrowest value that they can be computed from again") {
  const auto rows = [](const std::string& op) {
    return generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [512, 2048]}, "m": {"shape": [512, 1], "dtype": "f32"}},
      "ops": [{"op": "sub", "inputs": ["x", "m"], "output": "c"}, )" +
                              op + R"(,
              {"op": "sum", "inputs": ["n"], "output": "s", "axes": [-1], "keepdim": true},
              {"op": "div", "inputs": ["n", "s"], "output": "d"},
              {"op": "cast", "inputs": ["d"], "output": "y", "to": "bf16"}]})"));
  };
  const GeneratedKernel product = rows(R"({"op": "mul", "inputs": ["c", "m"], "output": "n"})");
  CHECK(contains(product, "Pack<bf16, 8> h"));
  CHECK(!contains(product, "Pack<f32, 8> h"));
  // The exponential takes longer than its registers are worth.
  const GeneratedKernel power = rows(R"({"op": "exp", "inputs": ["c"], "output": "n"})");
  CHECK(contains(power, "Pack<f32, 8> h"));
}

TEST_CASE("threads compute fewer elements where each has many slow paths") {
  const auto sines = [](int count) {
    std::string ops;
    for (int i = 0; i < count; ++i) {
      ops += fmt::format(R"({}{{"op": "sin", "inputs": ["t{}"], "output": "t{}"}})",
                         i == 0 ? "" : ", ", i, i + 1);
    }
    return generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"t0": {"shape": [512, 256]}}, "ops": [)" +
                              ops + "]}"))
        .schedule;
  };
  CHECK(sines(5) == "8 elements per thread");
  CHECK(sines(6) == "4 elements per thread");
  CHECK(sines(20) == "2 elements per thread");
  CHECK(sines(50) == "1 element per thread");
}

GeneratedKernel transposed(const std::string& shape, const std::string& perm,
                           const std::string& dtype = "bf16") {
  return generated(graph_of(fmt::format(R"({{"format": "fusecalc.ops/1", "dtype": "{}",
      "tensors": {{"x": {{"shape": [{}]}}}},
      "ops": [{{"op": "transpose", "inputs": ["x"], "output": "y", "perm": [{}]}}]}})",
                                        dtype, shape, perm)));
}

TEST_CASE("rows of odd lengths are transposed in whole groups, from whole sectors on") {
  const GeneratedKernel odd = transposed("1001, 514", "1, 0");
  CHECK(odd.schedule == "tiles of 64 by 128, transposed on chip");
  // 9 of 64 rows, and 8 of 128 columns: a row's first sector may begin 15 elements ahead of it.
  CHECK(odd.blocks == 9 * 8);
  CHECK(transposed("1010, 514", "1, 0").blocks == 9 * 9);  // 1,010 + 15 are more than 8 tiles
  CHECK(contains(odd, "const u32 early = (u32)run % 16;"));
  // Two columns to a word, of 128 and the 16 ahead of them.
  CHECK(contains(odd, "u32 tile0[4608];"));
  CHECK(contains(odd, "inside ? fill_words<8, false, true>(tile0, q, b, p0, at, 514, c"));
  CHECK(contains(odd, "take_group<8, false, bf16>(tile0, x, b)"));
  CHECK(contains(odd, "take_one<8, bf16>(tile0, x, b)"));  // at a row's ends
  CHECK(contains(odd, "store_pack<8>(p1 + i"));
  // Of two groups a thread may load both at once.
  REQUIRE(odd.others.size() == 1);
  CHECK(odd.others[0].schedule == odd.schedule + ", 2 loads at once");
  CHECK(odd.others[0].blocks == odd.blocks);
  CHECK(transposed("1024, 512", "1, 0").others.empty());
}

TEST_CASE("tiles are as high and as wide as leaves few of them empty") {
  const auto tiles = [](const std::string& shape, const std::string& dtype) {
    return transposed(shape, "1, 0", dtype).schedule;
  };
  // 72 rows are one tile of 96, or two of 64.
  CHECK(tiles("50000, 72", "f32") == "tiles of 96 by 64, transposed on chip");
  CHECK(tiles("50000, 128", "f32") == "tiles of 64 by 64, transposed on chip");
  CHECK(tiles("8192, 16384", "fp8_e4m3") == "tiles of 256 by 64, transposed on chip");
  // Rows of 33 that begin anywhere are stored as a run.
  CHECK(tiles("33, 20000", "bf16") == "tiles of 64 by 33, transposed on chip");
  CHECK(tiles("32, 20000", "bf16") == "tiles of 64 by 32, transposed on chip");
  // 300 columns, and as many as a row may begin early, are three tiles.
  CHECK(tiles("300, 20001", "bf16") == "tiles of 64 by 128, transposed on chip");
  CHECK(tiles("257, 20001", "bf16") == "tiles of 64 by 96, transposed on chip");
}

TEST_CASE("the tiles of several tensors fit on chip together") {
  const auto tiles = [](const std::string& shape, const std::string& dtype) {
    return generated(graph_of(fmt::format(R"({{"format": "fusecalc.ops/1", "dtype": "{0}",
        "tensors": {{"a": {{"shape": [{1}]}}, "b": {{"shape": [{1}]}}}},
        "ops": [{{"op": "transpose", "inputs": ["a"], "output": "s"}},
                {{"op": "transpose", "inputs": ["b"], "output": "t"}},
                {{"op": "add", "inputs": ["s", "t"], "output": "y"}}]}})",
                                          dtype, shape)))
        .schedule;
  };
  CHECK(tiles("512, 256", "f32") == "tiles of 64 by 64, transposed on chip");  // 2 x 16 KiB
  // 128 columns and 16 ahead would take 2 x 18 KiB, those of f32 of any length 2 x 18 KiB, too.
  CHECK(tiles("511, 255", "bf16") == "tiles of 64 by 64, transposed on chip");
  CHECK(tiles("511, 255", "f32") == "tiles of 64 by 64, transposed on chip");
}

TEST_CASE("lines of 4-byte elements that begin anywhere are transposed as they lie") {
  const GeneratedKernel lines = transposed("2001, 501", "1, 0", "f32");
  CHECK(lines.schedule == "tiles of 64 by 64, transposed on chip");
  CHECK(lines.threads == 512);
  // 64 columns and 8 ahead of them; from one to the next 69 elements on chip, which is as far from
  // a multiple of four as 501. Of the last tile 53 rows are there.
  CHECK(contains(lines,
                 "fill_lines<72, 64, 69, 512>(tile0, p0, start, 501, "
                 "b0 + 64 < 501 ? 64 : 501 - b0, 1002501);"));
  CHECK(contains(lines, "const f32 v2 = tile0[(x + j) * 69 + b + near];"));
  CHECK(contains(transposed("2001, 512", "1, 0", "i32"), "fill_lines<72, 64, 68, 512>"));

  // Of few rows all follow each other, as one line.
  const GeneratedKernel whole = transposed("5, 3001, 77", "0, 2, 1", "f32");
  CHECK(whole.schedule == "tiles of 77 by 128, transposed on chip");
  CHECK(contains(whole, "fill_lines<1, 10472, 77, 512>(tile0, p0, start, 77, 10472, 1155385);"));
  CHECK(contains(whole, "n < 2560;"));  // of 80 rows, as four are stored at a time
  CHECK(transposed("3001, 281", "1, 0", "f32").schedule ==
        "tiles of 281 by 32, transposed on chip");
  CHECK(transposed("3001, 309", "1, 0", "f32").schedule == "tiles of 64 by 64, transposed on chip");
  // Of three tensors 32 columns of 96 rows are too much.
  CHECK(contains(transposed("129, 283", "1, 0", "f32"), "fill_lines<1, 11320, 283, 512>"));
  CHECK(contains(transposed("129, 286", "1, 0", "f32"), "fill_lines<72, 96, 102, 512>"));
  const GeneratedKernel three = generated(graph_of(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [129, 283]}, "y": {"shape": [129, 283]}, "z": {"shape": [129, 283]}},
      "ops": [{"op": "transpose", "inputs": ["x"], "output": "a"},
              {"op": "transpose", "inputs": ["y"], "output": "b"},
              {"op": "transpose", "inputs": ["z"], "output": "c"},
              {"op": "add", "inputs": ["a", "b"], "output": "d"},
              {"op": "add", "inputs": ["d", "c"], "output": "e"}]})"));
  CHECK(three.schedule == "tiles of 64 by 32, transposed on chip");
  CHECK(contains(three, "fill_lines<40, 64, 71, 512>(tile2, p2"));
  // Those of other sizes, and those that begin at whole groups, are parted into words.
  CHECK(contains(transposed("2001, 501", "1, 0", "f64"), "fill_words<2, false, true>"));
  CHECK(contains(transposed("2000, 512", "1, 0", "f32"), "fill_words<4, true, false>"));
}

TEST_CASE("few channels are transposed as one run of memory") {
  // Pixels of three channels: 1,536 of them are a run of the tensor, behind those of the 16 pixels
  // that a plane's run may begin ahead of them, and with a group for where it begins.
  const GeneratedKernel planes = transposed("2, 100, 100, 3", "0, 3, 1, 2");
  CHECK(planes.schedule == "tiles of 3 by 1536, transposed on chip");
  CHECK(planes.blocks == 2 * 7);
  CHECK(contains(planes, "n < 583;"));
  const GeneratedKernel pixels = transposed("2, 3, 100, 100", "0, 2, 3, 1");
  CHECK(pixels.schedule == "tiles of 1024 by 3, transposed on chip");
  CHECK(pixels.blocks == 2 * 10);
  // More of them where a tile's rows would be loaded in parts otherwise.
  CHECK(transposed("5001, 33", "1, 0").schedule == "tiles of 33 by 128, transposed on chip");
  CHECK(transposed("5001, 40", "1, 0").schedule == "tiles of 64 by 128, transposed on chip");
  CHECK(transposed("5001, 40", "1, 0", "f32").schedule == "tiles of 40 by 64, transposed on chip");
  CHECK(transposed("5001, 47", "1, 0", "i8").schedule == "tiles of 47 by 128, transposed on chip");
  CHECK(transposed("5001, 49", "1, 0", "i8").schedule == "tiles of 64 by 128, transposed on chip");
  CHECK(transposed("283, 31, 16, 17", "1, 3, 0, 2").schedule ==
        "tiles of 64 by 32, transposed on chip");  // 16 columns are too few for it
  // Rows apart from each other are no such run.
  CHECK(transposed("100, 50, 3", "2, 1, 0").schedule == "8 elements per thread");
}

TEST_CASE("8 bytes an element are transposed on chip, too") {
  CHECK(transposed("300, 200", "1, 0", "i64").schedule == "tiles of 64 by 64, transposed on chip");
}

TEST_CASE("a transposition goes through tiles on chip") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [512, 256]}},
      "ops": [{"op": "transpose", "inputs": ["x"], "output": "y"}]})");
  const GeneratedKernel kernel = generated(graph);
  CHECK(kernel.schedule.find("transposed on chip") != std::string::npos);
  CHECK(kernel.blocks == 4 * 8);
}

TEST_CASE("ops without generated code are refused with the reason") {
  const auto refusal = [](const char* ops) {
    try {
      generated(graph_of(ops));
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::kUnavailable);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [8]}, "y": {"shape": [8]}},
      "ops": [{"name": "mine", "op": "custom", "inputs": ["x"], "outputs": ["y"]}]})")
            .find("\"mine\" (custom) cannot be generated") != std::string::npos);
  const std::string sort = R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [LENGTH]}},
      "ops": [{"op": "sort", "inputs": ["x"], "outputs": ["y", "i"]}]})";
  const auto of_length = [&](const char* length) {
    std::string list = sort;
    return refusal(list.replace(list.find("LENGTH"), 6, length).c_str());
  };
  CHECK(of_length("2147483647").empty());
  CHECK(of_length("2147483648").find("is larger than what one launch covers") != std::string::npos);
}

}  // namespace
}  // namespace fusecalc
