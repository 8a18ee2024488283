#include "kernel_checks.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"
#include "cuda/compiler.hpp"
#include "plan/legality.hpp"

namespace fusecalc::cuda {
namespace {

const KernelCache kNoCache{std::nullopt};

// Bytes that a thread may store and load for want of registers, by the words of the schedule. The
// first that fits counts.
struct KnownSpills {
  std::string_view schedule;
  std::uint64_t bytes;
  std::string_view why;
};
constexpr std::array kKnownSpills = {
    KnownSpills{"wgmma, tiles of 128 x 256", 464,
                "a residual that is loaded beside the products, behind it a dropout's random bits"},
    KnownSpills{"windows, tiles of 128 x 160", 320,
                "parameters of channels and a residual, beside 160 sums a thread"},
    KnownSpills{"windows, tiles of 128 x 320", 192, "the same"},
    KnownSpills{"pixels, tiles of 128 x 160", 320, "the same"},
    KnownSpills{"pixels, tiles of 128 x 320", 192, "the same"},
    KnownSpills{"3 x 1 in clusters", 384, "what the warps park that copy shares of a third"},
    KnownSpills{
        "wgmma, tiles of 128 x 64", 384,
        "all steps of a short k, unrolled in the warps that copy: 1 % faster than in turns"},
    KnownSpills{"mma, tiles", 256,
                "f32 operands that lie across k are read in words, beside 128 sums a thread"},
    KnownSpills{
        "rows of 128 x 256", 640,
        "128 sums a thread beside what is done with them, and no narrower tile holds the row"},
    KnownSpills{"wgmma", 128, "what the copying warps park; accumulators would be kilobytes"},
    KnownSpills{"16 elements per thread", 256, "the places of 16 single bytes, worked out at once"},
    KnownSpills{
        "windows without tensor cores", 288,
        "places in three axes of windows, beside those of results that are stored elsewhere"},
    KnownSpills{"", 128, "ptxas gives up some words for one more block on the multiprocessor"},
};

std::uint64_t spills_known_of(std::string_view schedule) {
  return std::ranges::find_if(kKnownSpills,
                              [&](const KnownSpills& known) {
                                return schedule.find(known.schedule) != std::string_view::npos;
                              })
      ->bytes;
}

// Large arguments of sine and cosine are reduced with the help of an array.
constexpr std::uint64_t kTrigonometryBytes = 40;
// What ptxas saves around the slow path of a division, which it does not count as spilled.
constexpr std::uint64_t kCallBytes = 8;
constexpr std::uint64_t kCallBytesInWindows = 32;

unsigned threads_of(const GeneratedKernel& code, std::size_t entry) {
  if (entry == 0) return code.threads;
  if (code.packing && entry + 1 == code.source.entries.size()) return code.packing->threads;
  return code.following.at(entry - 1).threads;
}

std::string description(const OpGraph& graph, const Kernel& kernel) {
  std::vector<std::string> ops;
  for (const OpId id : kernel) {
    const TensorType& type = graph.tensors[graph.ops[id].outputs[0]].type;
    ops.push_back(fmt::format("{} {}{}", graph.ops[id].row->name, name_of(type.dtype),
                              to_string(type.shape)));
  }
  return fmt::format("{}", fmt::join(ops, ", "));
}

}  // namespace

TrafficCounter KernelChecks::counter_of(const OpGraph& graph) const {
  return {graph, device_named(architecture_->device)};
}

void KernelChecks::check(TrafficCounter& counter, const std::vector<Kernel>& plan) {
  for (const Kernel& kernel : plan) check(counter, kernel);
}

void KernelChecks::check(TrafficCounter& counter, const Kernel& kernel) {
  GeneratedKernel code;
  try {
    code = generate(counter, kernel, counter.device());
  } catch (const Error& error) {
    if (error.fault() != Fault::kUnavailable) throw;
    const bool launches =
        check_launch(counter.phases(), kernel, runner_rules(counter.device())).legal();
    CAPTURE(error.what());
    CHECK((kernel.size() == 1 || !launches));
    ++left_out_;
    return;
  }
  check(counter.graph(), kernel, code);
  // Of the ways to run it, the last one is furthest from the first. Of the architectures without
  // wgmma the ways differ less.
  if (!code.others.empty() && device_named(architecture_->device).capability == kHopper)
    check(counter.graph(), kernel, code.others.back());
}

void KernelChecks::check(const OpGraph& graph, const Kernel& kernel, const GeneratedKernel& code) {
  // wgmma and what goes with it are sm_90a's alone.
  CHECK((device_named(architecture_->device).capability == kHopper ||
         !code.source.architecture_bound));
  // The library's own products have no source.
  if (code.source.text.empty() || !is_new(code.source.text)) return;
  CAPTURE(architecture_->name);
  CAPTURE(description(graph, kernel));
  CAPTURE(code.schedule);
  try {
    const CompiledImage image = compile_image(code.source, architecture_->name, kNoCache);
    for (std::size_t entry = 0; entry < code.source.entries.size(); ++entry) {
      check_entry(graph, kernel, code, entry, image.log);
    }
    CHECK(code.shared_bytes <= device_named(architecture_->device).on_chip_bytes);
  } catch (const Error& error) {
    CAPTURE(code.source.text);
    FAIL_CHECK(std::string(error.what()));
  }
}

bool KernelChecks::is_new(const std::string& text) {
  const ComputeCapability capability = device_named(architecture_->device).capability;
  if (capability < kFirstWithCopies) return done_[0].insert(text).second;
  if (capability == kHopper) return done_[1].insert(text).second;
  return !done_[1].contains(text) && done_[2].insert(text).second;
}

void KernelChecks::check_entry(const OpGraph& graph, const Kernel& kernel,
                               const GeneratedKernel& code, std::size_t entry,
                               const std::string& log) const {
  CAPTURE(log);
  const std::optional<EntryReport> report = report_of(log, code.source.entries[entry]);
  REQUIRE(report);
  // A multiprocessor has 64 Ki registers, dealt out to warps by eights.
  const unsigned registers = (report->registers + 7) / 8 * 8;
  const unsigned threads = (threads_of(code, entry) + 31) / 32 * 32;
  CHECK(registers * threads <= 64 * 1024);
  CHECK(report->shared_bytes + (entry == 0 ? code.shared_bytes : 0) <=
        device_named(architecture_->device).on_chip_bytes);
  CHECK(report->spill_bytes <= spills_known_of(code.schedule));
  const bool trigonometry = std::ranges::any_of(kernel, [&](OpId id) {
    const std::string_view name = graph.ops[id].row->name;
    return name == "sin" || name == "cos" || name == "tan";
  });
  // Beside what is spilled, nothing lives in local memory.
  const bool in_windows = code.schedule.find("windows without tensor") != std::string::npos;
  CHECK(report->stack_bytes <= report->spill_bytes + (trigonometry ? kTrigonometryBytes
                                                      : in_windows ? kCallBytesInWindows
                                                                   : kCallBytes));
}

}  // namespace fusecalc::cuda
