// Short rows that begin anywhere in memory: those of a block are one run there, which passes
// through shared memory in whole groups. The code of the rows finds them under the names of the
// memories.
//
// Traffic: every group is moved once. What a run's first or last group shares with its neighbours
// is theirs: runs begin with a whole group.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/rows.hpp"
#include "core/ceil_div.hpp"

namespace fusecalc {

std::vector<TensorId> RowWriter::runs() const {
  if (!rows_follow()) return {};
  std::vector<TensorId> found = roots_.full;
  for (const Phases::Use& use : kernel_.phases().reads) {
    if (use.size == space_) found.push_back(use.value);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const auto is_memory = [&](TensorId id) { return kernel_.graph().storage_of(id) == id; };
  return std::ranges::all_of(found, is_memory) ? found : std::vector<TensorId>{};
}

std::uint64_t RowWriter::run_bytes() const {
  std::uint64_t bytes = 0;
  for (const TensorId id : runs()) bytes += bytes_of(kernel_.tensor(id).type.dtype, 1);
  return bytes;
}

std::string RowWriter::through_runs(const std::string& inside) {
  if (!schedule_.in_runs) return inside;
  const std::uint64_t run = schedule_.teams() * rows_.row_length();
  std::string text = fmt::format(
      "  const idx begin = (idx){} * {};\n  const u32 count = {} - begin < {} ? {} - begin : {};\n",
      block_number(), run, space_, run, space_, run);
  // The rows of a block before are all stored.
  if (schedule_.stays > 0) text += "  __syncthreads();\n";
  std::string names;
  std::string stores;
  for (const TensorId id : runs()) {
    const bool made = kernel_.makes(id);
    const std::string memory = made ? code_.parameters().output(id) : code_.parameters().input(id);
    const std::string_view type = stored_type(kernel_.tensor(id).type.dtype);
    text += fmt::format("  __shared__ alignas(16) {} run_{}[{}];\n", type, memory, run);
    if (made) {
      stores += fmt::format("  store_run<{}>({} + begin, run_{}, count);\n", schedule_.threads,
                            memory, memory);
    } else {
      text += fmt::format("  fetch_run<{}>(run_{}, {} + begin, count);\n", schedule_.threads,
                          memory, memory);
    }
    names += fmt::format("  {}{}* const {} = run_{} - begin;\n", made ? "" : "const ", type, memory,
                         memory);
  }
  // Loads take constant parts of signed indices into themselves; unsigned ones might wrap.
  text +=
      "  end_copy_group();\n  wait_for_copies<0>();\n  __syncthreads();\n  {\n"
      "  typedef signed_idx idx;\n" +
      names + inside + "  }\n";
  if (!stores.empty()) text += "  __syncthreads();\n" + stores;
  return text;
}

// The loop where accumulators take the elements of many rounds at once, all of it unrolled: a
// thread has few elements of a run, and loads them from shared memory.
void RowWriter::write_gathered(const Stretch& stretch, const std::string& text) {
  constexpr std::uint64_t kMost = 12;
  const std::uint64_t whole = std::clamp(whole_rounds(), stretch.begin, stretch.end);
  const std::uint64_t rounds = whole - stretch.begin;
  const std::uint64_t together = rounds / std::max<std::uint64_t>(1, ceil_div(rounds, kMost));
  if (rounds > 0) {
    const std::uint64_t rest = rounds % together;
    write_gathered_rounds({.begin = stretch.begin, .end = whole - rest}, together, false, text);
    write_gathered_rounds({.begin = whole - rest, .end = whole}, rest, false, text);
  }
  write_gathered_rounds({.begin = whole, .end = stretch.end}, 1, true, text);
}

void RowWriter::write_gathered_rounds(const Stretch& stretch, std::uint64_t together, bool guarded,
                                      const std::string& text) {
  if (stretch.begin >= stretch.end) return;
  std::string takes;
  body_ += fmt::format("#pragma unroll\n  for (u32 first = {}; first < {}; first += {}) {{\n",
                       stretch.begin, stretch.end, together);
  for (const Gathered& each : gathered_) {
    body_ += fmt::format("    {} {}[{}];\n", each.type, each.group, together);
    takes += fmt::format("    take<{0}>({1}[0], {2}, first * {0} + t);\n", schedule_.team,
                         each.state, each.group);
  }
  body_ += fmt::format(
      "#pragma unroll\n    for (u32 u = 0; u < {}; ++u) {{\n    const u32 k = first + u;\n"
      "    const idx r = (idx)k * {} + t;\n",
      together, schedule_.team);
  if (guarded) {
    body_ +=
        fmt::format("    if (r < {}) {{\n{}{}    }}\n    }}\n  }}\n", first_beyond(), text, takes);
  } else {
    body_ += text + "    }\n" + takes + "  }\n";
  }
}

// The same for columns. Rounds beyond the last row read it again, under a place that loses to its
// own.
void RowWriter::write_column_rounds(const Stretch& stretch, const std::string& text) {
  // Of narrow groups, more must be on their way.
  const std::uint64_t most = schedule_.width <= 2 ? 8 : 4;
  const std::uint64_t rest = (stretch.end - stretch.begin) % most;
  const std::string_view start = schedule_.splits > 1 ? "first + " : "";
  const auto write = [&](std::uint64_t begin, std::uint64_t end, std::uint64_t together) {
    if (begin >= end) return;
    body_ += fmt::format("  for (u32 from = {}; from < {}; from += {}) {{\n", begin, end, together);
    std::string takes;
    for (const Gathered& each : gathered_) {
      body_ += fmt::format("    {} {}[{}][{}];\n", each.type, each.group, lanes(), together);
      takes += fmt::format(
          "#pragma unroll\n    for (u32 j = 0; j < {}; ++j) {{\n"
          "      take<{}>({}[j], {}[j], {}(idx)from * {} + t);\n    }}\n",
          lanes(), row_step(), each.state, each.group, start, row_step());
    }
    body_ += fmt::format(
        "#pragma unroll\n    for (u32 u = 0; u < {}; ++u) {{\n"
        "    const idx at = {}(idx)(from + u) * {} + t;\n    const idx r = at < {} ? at : {};\n",
        together, start, row_step(), rows_.row_length(), rows_.row_length() - 1);
    body_ += text + "    }\n" + takes + "  }\n";
  };
  write(stretch.begin, stretch.end - rest, most);
  write(stretch.end - rest, stretch.end, rest);
}

}  // namespace fusecalc
