#include "measure/verify.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "backend/device_buffer.hpp"
#include "backend/fake_backend.hpp"
#include "graph/graph_text.hpp"
#include "measure/inputs.hpp"
#include "measure/samples.hpp"
#include "plan/random_graph.hpp"
#include "support/named_input.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A graph, and a device that holds its f32 outputs: right ones, as far as f32 goes, unless changed.
struct Bench {
  OpGraph graph;
  std::vector<GraphInput> inputs;
  Verifier verifier;
  FakeBackend gpu{};
  std::map<TensorId, Buffer> buffers{};

  explicit Bench(std::string_view json)
      : graph(graph_of(json)),
        inputs(random_inputs(graph, 1)),
        verifier(graph, inputs, whole_of(graph).results, 1) {
    buffers = outputs();
  }

  // Buffers with right values.
  std::map<TensorId, Buffer> outputs() {
    std::map<TensorId, Buffer> made;
    const Reference reference(graph, inputs);
    for (const ExpectedOutput& output : verifier.outputs()) {
      const Tensor& tensor = graph.tensor(output.tensor);
      std::vector<std::uint64_t> all(tensor.elements);
      for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = i;
      std::vector<double> values;
      for (const Expected& e : reference.evaluate(output.tensor, all).elements) {
        values.push_back(e.value);
      }
      const Buffer buffer = gpu.allocate(tensor.bytes);
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        write(buffer, tensor.type.dtype, i, values[i]);
      }
      made[output.tensor] = buffer;
    }
    return made;
  }

  void write(const Buffer& buffer, DType dtype, std::uint64_t element, double value) {
    const auto single = static_cast<float>(value);
    std::array<std::byte, 8> bytes{};
    if (is_float(dtype)) {
      REQUIRE(dtype == DType::kF32);
      std::memcpy(bytes.data(), &single, 4);
    } else {
      const auto whole = static_cast<std::int64_t>(value);
      std::memcpy(bytes.data(), &whole, 8);
    }
    const std::uint64_t size = bytes_of(dtype, 1);
    gpu.upload({buffer, element * size}, std::span(bytes).first(size));
  }

  void set(std::string_view name, std::uint64_t element, double value) {
    const Tensor& tensor = testing::tensor_named(graph, name);
    write(buffers.at(static_cast<TensorId>(&tensor - graph.tensors.data())), tensor.type.dtype,
          element, value);
  }

  static Verifier::Places at(const std::map<TensorId, Buffer>& held) {
    return [&held](TensorId id) { return BufferAt{held.at(id)}; };
  }
  Verification check() { return verifier.check(gpu, at(buffers)); }
  // With what another plan computed.
  Verification compare(const std::map<TensorId, Buffer>& others) {
    return verifier.compare(gpu, at(buffers), at(others));
  }

  const InputData& input(std::string_view name) const {
    return testing::input_called(graph, inputs, name);
  }
};

constexpr std::string_view kNorm = R"({"format": "fusecalc.ops/1",
  "tensors": {"x": {"shape": [40, 50]}, "b": {"shape": [50]}},
  "ops": [{"op": "add", "inputs": ["x", "b"], "output": "h"},
          {"op": "layer_norm", "inputs": ["h"], "output": "y"}]})";

TEST_CASE("samples hold the ends, the ends of rows, and no element twice") {
  const OpGraph graph = graph_of(kNorm);
  const Tensor& y = testing::tensor_named(graph, "y");
  const auto samples = samples_of(y, 5, 64);
  CHECK(samples.size() > 56);
  CHECK(samples.front() == 0);
  CHECK(samples.back() == 1999);
  CHECK(std::ranges::is_sorted(samples));
  CHECK(std::ranges::adjacent_find(samples) == samples.end());
  CHECK(std::ranges::count_if(samples, [](std::uint64_t i) { return i % 50 == 49; }) >= 8);
  CHECK(samples == samples_of(y, 5, 64));
  CHECK(samples != samples_of(y, 6, 64));
  CHECK(samples_of(y, 5, 1) == std::vector<std::uint64_t>{1999});
}

TEST_CASE("right results pass, far within the tolerance") {
  Bench bench(kNorm);
  const Verification result = bench.check();
  CHECK(result.ok);
  CHECK(result.checked > 56);
  CHECK(result.max_rel_err > 0);
  CHECK(result.max_rel_err < result.tolerance / 2);
  // f32 works to 2^-24, of which a function may lose three bits.
  CHECK(result.tolerance == 3.5 * 8 * 0x1p-24);
  CHECK(result.unchecked.empty());
}

TEST_CASE("one wrong element is found, and named") {
  Bench bench(kNorm);
  bench.set("y", 1999, 0.5);
  const Verification result = bench.check();
  CHECK_FALSE(result.ok);
  CHECK(result.max_rel_err > result.tolerance);
  CHECK(result.worst.starts_with("y[39, 49] is 0.5, expected "));
}

TEST_CASE("poison, infinities and NaN are wrong where the reference has a number") {
  for (const double wrong : {kNan, kInfinity, -kInfinity}) {
    Bench bench(kNorm);
    bench.set("y", 0, wrong);
    const Verification result = bench.check();
    CHECK_FALSE(result.ok);
    CHECK(result.max_rel_err == kInfinity);
  }
}

TEST_CASE("infinities and NaN are right where the reference has them") {
  Bench bench(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [30]}},
    "ops": [{"op": "mul", "inputs": ["x", 0], "output": "zero"},
            {"op": "reciprocal", "inputs": ["zero"], "output": "huge"},
            {"op": "mul", "inputs": ["huge", 0], "output": "none"},
            {"op": "add", "inputs": ["huge", 1], "output": "huger"}]})");
  CHECK(bench.check().ok);
  bench.set("none", 0, 1);
  CHECK_FALSE(bench.check().ok);
}

TEST_CASE("an error within the bound of cancelled terms is accepted") {
  // (x + 1000) - 1000: the sum is good to 1000 * 2^-24, and so is the difference.
  constexpr std::string_view kText = R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [100]}},
    "ops": [{"op": "add", "inputs": ["x", 1000], "output": "s"},
            {"op": "sub", "inputs": ["s", 1000], "output": "d"}]})";
  Bench bench(kText);
  const double right = bench.inputs[0].data.value(99);
  bench.set("d", 99, right + 1000 * 0x1p-24);
  CHECK(bench.check().ok);
  bench.set("d", 99, right + 1000 * 0x1p-17);
  CHECK_FALSE(bench.check().ok);
}

TEST_CASE("an integer must be exact, unless rounding can decide a tie") {
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [60]}},
    "ops": [{"op": "lt", "inputs": ["x", 0], "output": "certain"},
            {"op": "add", "inputs": ["x", 1], "output": "up"},
            {"op": "sub", "inputs": ["up", 1], "output": "back"},
            {"op": "lt", "inputs": ["back", "x"], "output": "tie"}]})");
  CHECK(bench.check().ok);
  bench.set("tie", 0, 1);  // as rounding may have it
  CHECK(bench.check().ok);
  bench.set("certain", 59, bench.inputs[0].data.value(59) < 0 ? 0 : 1);
  const Verification result = bench.check();
  CHECK_FALSE(result.ok);
  CHECK(result.max_rel_err == 1);
  CHECK(result.tolerance == 0.5);
}

TEST_CASE("argmax may name any of the largest that rounding cannot tell apart") {
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [1, 1000]}},
    "ops": [{"op": "mul", "inputs": ["x", 0], "output": "z"},
            {"op": "add", "inputs": ["z", 0.3], "output": "flat"},
            {"op": "argmax", "inputs": ["flat"], "axes": [1], "output": "any"},
            {"op": "argmax", "inputs": ["x"], "axes": [1], "output": "one"}]})");
  CHECK(bench.check().ok);
  bench.set("any", 0, 617);
  CHECK(bench.check().ok);
  bench.set("one", 0, 1001);
  CHECK_FALSE(bench.check().ok);
}

TEST_CASE("what the reference cannot evaluate is reported, and is not a failure") {
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [4]}, "c": {"shape": [4]}},
    "ops": [{"name": "mine", "op": "custom", "inputs": ["x"], "output": "c"},
            {"op": "neg", "inputs": ["c"], "output": "d"},
            {"op": "neg", "inputs": ["x"], "output": "e"}]})");
  const Verification result = bench.check();
  CHECK(result.ok);
  CHECK(result.checked == 4);
  REQUIRE(result.unchecked.size() == 1);
  CHECK(result.unchecked[0] == "d: \"mine\" is a custom op: its computation is unknown");
}

TEST_CASE("two plans are compared over every element") {
  Bench bench(kNorm);
  const auto others = bench.outputs();
  CHECK(bench.compare(others).ok);
  CHECK(bench.compare(others).max_rel_err == 0);
  CHECK(bench.compare(others).checked == 2000);
  // An element that no sample sees.
  const auto& samples = bench.verifier.outputs()[0].elements;
  std::uint64_t unseen = 0;
  while (std::ranges::find(samples, unseen) != samples.end()) ++unseen;
  bench.set("y", unseen, 5);
  CHECK(bench.check().ok);
  const Verification result = bench.compare(others);
  CHECK_FALSE(result.ok);
  CHECK(result.worst.find("is 5, and ") != std::string::npos);
  CHECK(result.worst.ends_with("(1 of 2000 elements exceed the tolerance)"));
}

TEST_CASE("half of the samples of a scatter are in rows that it writes") {
  // 4 rows of 5000 are written: samples of the whole would hardly ever contain one.
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"t": {"shape": [5000, 3]}, "at": {"shape": [4], "dtype": "i64"},
                "u": {"shape": [4, 3]}},
    "ops": [{"op": "neg", "inputs": ["u"], "output": "n"},
            {"op": "scatter_update", "inputs": ["t", "at", "n"], "output": "y"}]})");
  CHECK(bench.check().ok);
  const InputData& at = bench.input("at");
  // As if the scatter had not run: u's negatives lie in none of the rows.
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto row = static_cast<std::uint64_t>(at.value(i));
    for (std::uint64_t column = 0; column < 3; ++column) bench.set("y", row * 3 + column, 7);
  }
  CHECK_FALSE(bench.check().ok);
}

TEST_CASE("of several updates of one row any may remain, and nothing else") {
  // 12 indices name 5 rows; the updates are transposed, so no two are equal.
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"t": {"shape": [5, 3]}, "at": {"shape": [12], "dtype": "i64"},
                "u": {"shape": [3, 12]}},
    "ops": [{"op": "transpose", "inputs": ["u"], "output": "n"},
            {"op": "scatter_update", "inputs": ["t", "at", "n"], "output": "y"}]})");
  CHECK(bench.check().ok);
  const auto row = static_cast<std::uint64_t>(bench.input("at").value(0));
  for (std::uint64_t update = 0; update < 12; ++update) {
    if (static_cast<std::uint64_t>(bench.input("at").value(update)) != row) continue;
    for (std::uint64_t column = 0; column < 3; ++column) {
      bench.set("y", row * 3 + column, bench.input("u").value(column * 12 + update));
    }
    CHECK(bench.check().ok);
  }
  for (std::uint64_t column = 0; column < 3; ++column) bench.set("y", row * 3 + column, 70);
  CHECK_FALSE(bench.check().ok);
}

TEST_CASE("a row that a scatter leaves alone is compared with the other plan") {
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [1000, 3]}, "at": {"shape": [1000], "dtype": "i64"},
                "u": {"shape": [1000, 3]}},
    "ops": [{"op": "neg", "inputs": ["x"], "output": "h"},
            {"op": "scatter_update", "inputs": ["h", "at", "u"], "output": "y"}]})");
  const InputData& at = bench.input("at");
  std::vector<bool> named(1000, false);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    named[static_cast<std::uint64_t>(at.value(i))] = true;
  }
  const auto row = static_cast<std::uint64_t>(std::ranges::find(named, false) - named.begin());
  REQUIRE(row < 1000);
  const auto others = bench.outputs();
  CHECK(bench.compare(others).ok);
  bench.set("y", row * 3, kNan);  // as if nothing had written it
  CHECK_FALSE(bench.compare(others).ok);
}

TEST_CASE("NaN is accepted where roundings decide whether an argument is negative") {
  // Element 499 is the root of x + 1 - 1 - x.
  Bench bench(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [1]}, "u": {"shape": [499]}, "v": {"shape": [500]}},
    "ops": [{"op": "add", "inputs": ["x", 1], "output": "up"},
            {"op": "sub", "inputs": ["up", 1], "output": "back"},
            {"op": "sub", "inputs": ["back", "x"], "output": "nothing"},
            {"op": "sqrt", "inputs": ["nothing"], "output": "root"},
            {"op": "concat", "inputs": ["u", "root", "v"], "output": "y"}]})");
  REQUIRE(std::ranges::count(bench.verifier.outputs()[0].elements, 499) == 0);
  const auto others = bench.outputs();
  bench.set("y", 499, kNan);
  CHECK(bench.compare(others).ok);
  bench.set("y", 498, kNan);
  CHECK_FALSE(bench.compare(others).ok);
}

TEST_CASE("at a discontinuity another number is accepted, but not NaN") {
  // Whether x + 1 - 1 is below x is up to roundings; what follows from it may be either.
  Bench bench(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", 1], "output": "up"},
            {"op": "sub", "inputs": ["up", 1], "output": "back"},
            {"op": "lt", "inputs": ["back", "x"], "output": "tie"},
            {"op": "where", "inputs": ["tie", "x", 9], "output": "y"}],
    "outputs": ["y"]})");
  const auto others = bench.outputs();
  bench.set("y", 500, 5);
  CHECK(bench.compare(others).ok);
  bench.set("y", 500, kNan);
  CHECK_FALSE(bench.compare(others).ok);
}

TEST_CASE("a function that jumps may give few elements the next number, but not many") {
  // A sum that two plans round differently may be on either side of a half.
  Bench bench(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", 0.3], "output": "s"},
            {"op": "round", "inputs": ["s"], "output": "y"}],
    "outputs": ["y"]})");
  const auto others = bench.outputs();
  bench.set("y", 500, 7);
  CHECK(bench.compare(others).ok);
  for (std::uint64_t i = 0; i < 20; ++i) bench.set("y", i, 7);
  CHECK_FALSE(bench.compare(others).ok);
}

TEST_CASE("a rounded input has no rounding before it") {
  Bench bench(R"({"format": "fusecalc.ops/1", "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "round", "inputs": ["x"], "output": "y"}]})");
  const auto others = bench.outputs();
  bench.set("y", 500, 7);
  CHECK_FALSE(bench.compare(others).ok);
}

TEST_CASE("if the reference fails, plans are compared only with each other") {
  Bench bench(kNorm);
  const auto others = bench.outputs();
  const Verifier verifier(bench.graph, bench.inputs, whole_of(bench.graph).results, 1, 64, 1);
  REQUIRE(!verifier.outputs()[0].answer.reason.empty());
  const Verification alone = verifier.check(bench.gpu, Bench::at(bench.buffers));
  CHECK(!alone.complete);
  CHECK(alone.checked == 0);
  const auto compared = [&] {
    return verifier.compare(bench.gpu, Bench::at(bench.buffers), Bench::at(others));
  };
  CHECK(compared().ok);
  // However large a wrong number is, it does not make itself allowed.
  for (const double wrong : {3e38, kNan}) {
    bench.set("y", 77, wrong);
    CHECK_FALSE(compared().ok);
  }
}

TEST_CASE("without a reference, plans may differ by roundings to the coarsest type on the way") {
  const auto differs = [](const std::string& narrow, double by) {
    Bench bench(R"({"tensors": {"x": {"shape": [40, 50]}},
        "ops": [{"op": "cast", "inputs": ["x"], "output": "h", "to": ")" +
                narrow + R"("},
                {"op": "exp", "inputs": ["h"], "output": "e"},
                {"op": "cast", "inputs": ["e"], "output": "y", "to": "f32"}]})");
    const auto others = bench.outputs();
    for (const auto& [id, buffer] : others) bench.write(buffer, DType::kF32, 77, 1);
    bench.set("y", 77, 1 + by);
    const Verifier verifier(bench.graph, bench.inputs, whole_of(bench.graph).results, 1, 64, 1);
    REQUIRE(!verifier.outputs()[0].answer.reason.empty());
    return !verifier.compare(bench.gpu, Bench::at(bench.buffers), Bench::at(others)).ok;
  };
  CHECK(!differs("bf16", 0.01));
  CHECK(differs("bf16", 1));
  CHECK(differs("f32", 0.01));
}

TEST_CASE("a kernel is checked alone, at any depth in the graph") {
  // The reference cannot follow y through the custom op, but it can from c.
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [6]}, "c": {"shape": [6]}, "b": {"shape": [6]}},
    "ops": [{"op": "custom", "inputs": ["x"], "output": "c"},
            {"op": "sub", "inputs": ["c", "b"], "output": "d"},
            {"op": "neg", "inputs": ["d"], "output": "y"}]})");
  const GraphPart part = part_of(graph, std::array<OpId, 2>{1, 2});
  FakeBackend gpu;
  std::map<TensorId, Buffer> buffers;
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    buffers[id] = gpu.allocate(graph.tensor(id).bytes);
  }
  const auto inputs = random_inputs(graph, part, 4);
  for (const bool right : {true, false}) {
    const Work work = [&] {
      const InputData& b = testing::input_called(graph, inputs, "b");
      const InputData& c = testing::input_called(graph, inputs, "c");
      std::array<float, 6> y{};
      for (std::uint64_t i = 0; i < 6; ++i) {
        const double minus_d = b.value(i) - c.value(i);
        y[i] = static_cast<float>(right ? minus_d : -minus_d);
      }
      gpu.upload({buffers.at(part.results[0])}, std::as_bytes(std::span(y)));
    };
    const auto at = [&](TensorId id) { return BufferAt{buffers.at(id)}; };
    const auto place = [&](const GraphInput& input) { place_input(gpu, input, at(input.tensor)); };
    const Verification result = PartVerifier(graph, part, 4).check(gpu, at, place, work);
    CHECK(result.checked == 6);
    CHECK(result.ok == right);
  }
}

TEST_CASE("for any graph, the reference gives values or a reason") {
  std::size_t answered = 0;
  std::size_t refused = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const std::string text = testing::random_op_list(seed, 12);
    if (!testing::fault_of(text).empty()) continue;
    const OpGraph graph = graph_of(text);
    const auto inputs = random_inputs(graph, seed);
    const Verifier verifier(graph, inputs, whole_of(graph).results, seed, 8, 1U << 18U);
    for (const ExpectedOutput& output : verifier.outputs()) {
      const bool whole = output.answer.elements.size() == output.elements.size();
      CHECK(output.answer.reason.empty() == whole);
      CHECK(output.allowed.size() == output.answer.elements.size());
      ++(whole ? answered : refused);
      for (const double allowed : output.allowed) CHECK(allowed > 0);
    }
  }
  CHECK(answered > refused);
  CHECK(answered > 10);
}

TEST_CASE("the worse of two verifications is the result of both") {
  const Verification good{.max_rel_err = 1e-7, .tolerance = 1e-6, .checked = 3};
  const Verification bad{.max_rel_err = 0.9, .tolerance = 0.5, .ok = false, .worst = "y[0]"};
  CHECK(worse_of(good, bad).worst == "y[0]");
  CHECK(worse_of(bad, good).worst == "y[0]");
  CHECK(worse_of(bad, good).checked == 3);
  CHECK(worse_of(good, {}).tolerance == 1e-6);
  CHECK(worse_of({}, good).tolerance == 1e-6);
}

}  // namespace
}  // namespace fusecalc
