// Random groups of random op lists, as far as it goes without a compiler: each becomes source or a
// reason why not. tests/cuda/random_code_test.cpp compiles such groups.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "codegen/generate.hpp"
#include "codegen/random_groups.hpp"
#include "codegen/random_ops.hpp"
#include "core/error.hpp"
#include "core/random_bits.hpp"
#include "graph/graph_text.hpp"
#include "graph/inference.hpp"
#include "planner/plans.hpp"
#include "support/devices.hpp"
#include "support/plans.hpp"
#include "support/sanitizers.hpp"

namespace fusecalc::testing {
namespace {

struct Seen {
  std::set<std::string_view> ops;  // that became code
  std::set<DType> types;
  std::map<std::string, int> reasons;  // why others did not
  int sources = 0;
  std::uint64_t hash = 0;  // of all their text: a refactoring leaves it as it is
};

// The default device as if it had another compute capability, and no more shared memory than a
// known device of that generation.
Device smallest_of(ComputeCapability capability) {
  Device device = testing::device_of(capability);
  for (const Device& known : known_devices()) {
    if (known.capability.major != capability.major) continue;
    device.on_chip_bytes = std::min(device.on_chip_bytes, known.on_chip_bytes);
  }
  return device;
}

void generate_one(TrafficCounter& counter, const Kernel& kernel, ComputeCapability capability,
                  Seen& seen) {
  const OpGraph& graph = counter.graph();
  try {
    const Device device = smallest_of(capability);
    const GeneratedKernel code = generate(counter, kernel, device);
    CHECK(code.shared_bytes <= device.on_chip_bytes);
    CHECK(code.source.text.find(kNameMark) == std::string::npos);
    CHECK((capability == kHopper || !code.source.architecture_bound));
    ++seen.sources;
    seen.hash = random_bits(seen.hash, std::hash<std::string>{}(code.source.text));
    for (const OpId id : kernel) seen.ops.insert(graph.ops[id].row->name);
    for (const TensorId id : code.storages) seen.types.insert(graph.tensors[id].type.dtype);
  } catch (const Error& error) {
    if (error.fault() != Fault::kUnavailable) throw;
    const std::string what = error.what();
    const std::size_t at = what.find("cannot be generated: ");
    REQUIRE_MESSAGE(at != std::string::npos, what);
    ++seen.reasons[what.substr(at)];
  }
}

TEST_CASE(
    "random groups become source without any name of the input, or are refused with a reason") {
  const char* const longer = std::getenv("FUSECALC_RANDOM_LISTS");
  const std::size_t lists = longer != nullptr ? std::strtoul(longer, nullptr, 10) : 1000;
  Seen seen;
  for (std::uint64_t seed = 0; seed < lists; ++seed) {
    const RandomOps list = random_ops(seed, 2 + seed % 9);
    CAPTURE(seed);
    CAPTURE(list.text);
    TrafficCounter counter(list.graph, known_devices().front());
    for (const std::vector<Kernel>& plan : random_plans(counter, seed)) {
      for (const Kernel& kernel : plan) {
        for (const ComputeCapability capability : testing::kCapabilities) {
          generate_one(counter, kernel, capability, seen);
        }
      }
    }
  }
  MESSAGE(seen.sources, " sources, hash ", seen.hash);
  for (const OpRow& row : op_table()) {
    // Views are tensors; the others are what generate() refuses by name.
    const bool has_code = row.op_class != OpClass::kView && row.has_kernel;
    CAPTURE(row.name);
    CHECK(seen.ops.contains(row.name) == has_code);
  }
  CHECK(seen.types.size() == dtype_names().size());
  if (longer == nullptr) return;
  for (const auto& [reason, count] : seen.reasons) fmt::print("{:6} {}\n", count, reason);
}

bool has_code(TrafficCounter& counter, const Kernel& kernel, ComputeCapability capability) {
  try {
    generate(counter, kernel, testing::device_of(capability));
    return true;
  } catch (const Error& error) {
    if (error.fault() != Fault::kUnavailable) throw;
    return false;
  }
}

// What the planner is told and what the generator does agree: what can be launched has code,
// nothing else has, and auto fuses only what can.
TEST_CASE("what can be launched is what has code") {
  std::size_t contractions = 0;
  std::size_t refused = 0;
  const std::uint64_t lists = testing::kSanitized ? 500 : 3000;
  for (std::uint64_t seed = 5000; seed < 5000 + lists; ++seed) {
    const RandomOps list = random_ops(seed, 2 + seed % 9);
    CAPTURE(seed);
    CAPTURE(list.text);
    TrafficCounter counter(list.graph, known_devices().front());
    const auto check = [&](const Kernel& kernel) {
      for (const ComputeCapability capability : testing::kCapabilities) {
        CAPTURE(to_string(capability));
        const Rules rules = runner_rules(testing::device_of(capability));
        const Verdict verdict = check_launch(counter.phases(), kernel, rules);
        if (!verdict.legal()) CHECK_FALSE(explain(list.graph, verdict).empty());
        CHECK(has_code(counter, kernel, capability) == verdict.legal());
      }
      const bool legal =
          check_launch(counter.phases(), kernel, runner_rules(counter.device())).legal();
      if (!legal) ++refused;
      return legal;
    };
    if (seed % 4 == 0) {
      for (const std::vector<Kernel>& plan : random_plans(counter, seed)) {
        for (const Kernel& kernel : plan) check(kernel);
      }
    }
    for (const Kernel& kernel : make_plan(counter, PlanKind::kAuto).kernels) {
      if (kernel.size() < 2) continue;
      CHECK(check(kernel));
      const bool contracts = std::ranges::any_of(
          kernel, [&](OpId id) { return list.graph.ops[id].op_class == OpClass::kContract; });
      if (contracts) ++contractions;
    }
  }
  CHECK(contractions > lists / 30);
  CHECK(refused > lists / 30);
}

TEST_CASE("what is larger than a launch covers is refused by the planner, not by the generator") {
  struct Case {
    std::string tensors;
    std::string op;
    bool fits;
  };
  const auto rows = [&](std::string_view op, std::uint64_t count, std::uint64_t length, bool fits) {
    return Case{fmt::format(R"("x": {{"shape": [{}, {}], "dtype": "bf16"}})", count, length),
                fmt::format(R"({{"op": "{}", "inputs": ["x"], "output": "y"}})", op), fits};
  };
  const auto linear = [](std::uint64_t count, bool fits) {
    return Case{fmt::format(R"("x": {{"shape": [{}, 8]}}, "w": {{"shape": [8, 8]}})", count),
                R"({"op": "linear", "inputs": ["x", "w"], "output": "y"})", fits};
  };
  const auto attention = [](std::uint64_t heads, std::uint64_t queries, bool fits) {
    const std::string shape = fmt::format(R"({{"shape": [1, {}, {}, 64]}})", heads, queries);
    return Case{fmt::format(R"("q": {0}, "k": {0}, "v": {0})", shape),
                R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y"})", fits};
  };
  constexpr std::uint64_t kMost = std::uint64_t{1} << 38U;
  constexpr std::uint64_t kExtent = std::uint64_t{1} << 30U;
  const std::vector<Case> cases = {rows("relu", kMost / 8, 8, true),
                                   rows("relu", kMost / 8 + 1, 8, false),
                                   rows("softmax", kMost / 8, 8, true),
                                   rows("softmax", kMost / 8 + 1, 8, false),
                                   rows("softmax", kMost / 256, 256, true),
                                   rows("softmax", kMost, 1, true),
                                   rows("layer_norm", kMost, 1, true),
                                   rows("softmax", 1, kMost, true),
                                   linear(kExtent, true),
                                   linear(kExtent + 1, false),
                                   attention(64, 4096, true),
                                   attention(kExtent / 64 + 1, 4096, false)};
  for (const Case& each : cases) {
    for (const std::string_view tail : {"", R"(, {"op": "neg", "inputs": ["y"], "output": "z"})"}) {
      const OpGraph graph =
          graph_of(fmt::format(R"({{"format": "fusecalc.ops/1", "dtype": "bf16", "tensors": {{{}}},
                                   "ops": [{}{}]}})",
                               each.tensors, each.op, tail));
      CAPTURE(each.tensors);
      CAPTURE(each.op);
      TrafficCounter counter(graph, known_devices().front());
      bool fits = true;
      for (const Kernel& kernel : make_plan(counter, PlanKind::kAuto).kernels) {
        const Verdict verdict =
            check_launch(counter.phases(), kernel, runner_rules(counter.device()));
        fits = fits && verdict.legal();
        if (!verdict.legal()) CHECK(verdict.obstacle == Obstacle::kTooLarge);
        for (const ComputeCapability capability : testing::kCapabilities) {
          CHECK(has_code(counter, kernel, capability) == verdict.legal());
        }
      }
      CHECK(fits == each.fits);
    }
  }
}

}  // namespace
}  // namespace fusecalc::testing
