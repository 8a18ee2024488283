// The loops over rows: what each phase accumulates and stores, and where held values are.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/indices.hpp"
#include "codegen/row_results.hpp"
#include "codegen/rows.hpp"

namespace fusecalc {
namespace {

// How many rounds of a loop are unrolled: all of a short loop that does little but read, else a
// number that divides them, if one is near the usual.
std::uint64_t unrolled(std::uint64_t rounds, bool light, std::uint64_t usual) {
  constexpr std::uint64_t kShort = 8;
  if (usual == 1) return 1;
  if (light && rounds <= kShort) return rounds;
  for (const std::uint64_t together : {usual, usual + 1, usual - 1}) {
    if (rounds % together == 0) return together;
  }
  return std::min(rounds, usual);
}

// Whether it adds a group of elements in less time than one after another (rows.cuh).
bool takes_groups(Accumulator accumulator) {
  return accumulator == Accumulator::kExponentialSum || accumulator == Accumulator::kLargestPlace ||
         accumulator == Accumulator::kSmallestPlace;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), by);
    at += by.size();
  }
}

}  // namespace

// Where all of them look for places: what is read twice (write_column_rounds) changes none.
bool RowWriter::gathers_columns(std::uint8_t phase) const {
  if (!schedule_.columns || schedule_.holds() || windows_ || !roots_.full.empty()) return false;
  return std::ranges::all_of(kernel_.ops(), [&](OpId id) {
    return !kernel_.takes_rows(id) || kernel_.runs_in(id) != phase || finds_place(kernel_.op(id));
  });
}

// Adds what the round reads to the accumulators of the reductions that run in the phase.
void RowWriter::accumulate(const Scope& scope, std::uint8_t phase) {
  CodeBlock& block = scope.block;
  const bool gathers = gathers_columns(phase);
  for (const OpId id : kernel_.ops()) {
    if (!kernel_.takes_rows(id) || kernel_.runs_in(id) != phase) continue;
    const Value taken = accumulator_input(scope, id, scope.loop.element);
    if (schedule_.columns && !gathers) {
      block.lanes += fmt::format("{}[j].add({}, r);\n", code_.accumulator(id), taken.text);
      continue;
    }
    const std::string group = code_.fresh("g");
    if (gathers) {
      gathered_.push_back({std::string(name_of(taken.type)), group, code_.accumulator(id)});
      block.lanes += fmt::format("{}[j][u] = {};\n", group, taken.text);
      continue;
    }
    if (schedule_.in_runs && takes_groups(kernel_.op(id).row->accumulator)) {
      gathered_.push_back({std::string(name_of(taken.type)), group, code_.accumulator(id)});
      block.lanes += fmt::format("{}[u] = {};\n", group, taken.text);
      continue;
    }
    block.before += fmt::format("{} {}[{}];\n", name_of(taken.type), group, block.width);
    block.lanes += fmt::format("{}[j] = {};\n", group, taken.text);
    block.after += fmt::format("take({}[0], {}, r);\n", code_.accumulator(id), group);
  }
}

RowWriter::Round RowWriter::write_round(std::uint8_t phase) {
  if (!schedule_.shifted) return write_groups(phase, schedule_.width);
  // What the phase holds of the ends is ready when the rest is. What comes from memory is on its
  // way while the groups are worked on.
  const std::vector<HeldValue> before = held_;
  for (HeldValue& held : held_) {
    held.copied = !kernel_.makes(held.tensor) && kernel_.tensor(held.tensor).value == held.tensor;
  }
  const Round ends = write_groups(phase, 1);
  held_ = before;
  Round round = write_groups(phase, schedule_.width);
  round.row_results = ends.row_results + round.row_results;
  round.ends = ends.text;
  round.end_copies = ends.copies;
  return round;
}

RowWriter::Round RowWriter::write_groups(std::uint8_t phase, unsigned width) {
  CodeBlock block = block_of(width);
  const Loop before = loop();
  const Index r{.name = "r",
                .pattern = schedule_.columns ? LanePattern::kUniform : LanePattern::kUnit};
  const Scope start{code_, before, block};
  const Index base = mapped(start, row_index(), row_map(false));
  const Index offset = mapped(start, r, row_map(true));
  Index own =
      start.define_index(fmt::format("{} + {}", base.name, offset.name), LanePattern::kUnit, true);
  own.path.emplace();
  Loop over_elements = loop(own);
  if (schedule_.shifted && width > 1) over_elements.row_length = rows_.row_length();
  // Of long rows the addresses of what columns have would be kept in registers.
  if (schedule_.in_runs && rows_.whole_rows()) over_elements.row_period = rows_.row_length();
  const Scope scope{code_, over_elements, block};
  const std::string indices = block.before;
  accumulate(scope, phase);
  std::vector<TensorId> stored;
  for (const TensorId tensor : roots_.full) {
    if (kernel_.stored_in(tensor) == phase) stored.push_back(tensor);
  }
  store_full(scope, stored, "active");
  for (HeldValue& held : held_) {
    held.ready = held.ready || std::ranges::find(block.held, held.tensor) != block.held.end();
  }
  Round round{.text = block.text("      "), .row_results = block.row_results};
  if (!block.copies.empty()) {
    round.copies = CodeBlock{.before = indices + block.copies}.text("      ");
  }
  if (phase == 0) round.text += small_results(base, offset, width);
  return round;
}

std::string RowWriter::small_results(const Index& base, const Index& offset, unsigned width) {
  const Loop loop = this->loop();
  std::string text;
  for (const TensorId tensor : roots_.small) {
    const OpId producer = kernel_.tensor(tensor).producer;
    if (kernel_.ready_in(producer) > 0) {
      cannot_generate(kernel_.op(producer),
                      "its result is neither a row's nor as large as the rows");
    }
    CodeBlock block = block_of(width);
    block.before = fmt::format("const idx e = {} + {};\n", base.name, offset.name);
    store_small({code_, loop, block}, tensor, "e");
    text += "      if (active) {\n" + block.text("        ") + "      }\n";
  }
  return text;
}

// Accumulators with a pivot sum distances from the first element of the row.
void RowWriter::write_pivots(std::uint8_t phase) {
  const Loop loop = this->loop();
  for (const OpId id : kernel_.ops()) {
    const bool starts = kernel_.takes_rows(id) && kernel_.runs_in(id) == phase;
    if (!starts || !row_of(kernel_.op(id).row->accumulator).has_pivot) continue;
    CodeBlock block = block_of(lanes());
    const Scope scope{code_, loop, block};
    Index at = mapped(scope, row_index(), row_map(false));
    if (schedule_.lines > 1 && !apart_) {
      at = scope.define_index(fmt::format("({}) % {}", at.lane(), rows_.rows()),
                              LanePattern::kScattered, false);
    }
    const Value value = accumulator_input(scope, id, at);
    block.lanes += fmt::format("{}[j].pivot = {};\n", code_.accumulator(id), value.text);
    body_ += block.row_results + "  {\n" + block.text("    ") + "  }\n";
  }
}

void RowWriter::write_phase(std::uint8_t phase) {
  for (const OpId id : kernel_.ops()) {
    if (!kernel_.takes_rows(id) || kernel_.runs_in(id) != phase) continue;
    state_declarations_ += fmt::format("  {} {}[{}];\n", accumulator_class(kernel_, kernel_.op(id)),
                                       code_.accumulator(id), lanes());
  }
  gathered_.clear();
  if (works_in(phase)) {
    write_loops(write_round(phase), phase);
    if (!loops_after(phase)) write_picks();
  }
  merge_states(phase);
}

// All copies to shared memory are started ahead of the loop, in two groups: the second arrives
// while the first is computed on. Where all copies are to registers, what some threads skip is
// computed on first: ptxas would start a load that only a branch needs right before that branch.
void RowWriter::write_loops(const Round& round, std::uint8_t phase) {
  const std::string& copies = round.copies;
  std::vector<Stretch> stretches;
  const std::uint64_t in_shared = schedule_.in_shared;
  if (copies.empty() || in_shared < 2) {
    if (in_shared > 0) stretches.push_back({.begin = 0, .end = in_shared});
  } else {
    stretches.push_back({.begin = 0, .end = in_shared / 2});
    stretches.push_back({.begin = in_shared / 2, .end = in_shared});
  }
  stretches.push_back({.begin = in_shared, .end = schedule_.rounds, .in_registers = true});
  const std::size_t groups = stretches.size() - 1;
  const bool skipped_first = !copies.empty() && groups == 0;
  if (!round.end_copies.empty()) write_ends(round.end_copies);
  for (std::size_t i = 0; i < stretches.size() && !copies.empty(); ++i) {
    write_loop(stretches[i], copies, true);
    if (i < groups) body_ += "  end_copy_group();\n";
  }
  body_ += round.row_results;
  write_pivots(phase);
  if (schedule_.shifted && skipped_first) write_ends(round.ends);
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    if (!copies.empty() && i < groups) {
      body_ += fmt::format("  wait_for_copies<{}>();\n", groups - 1 - i);
    }
    // A loop that stores results as large as the rows has registers for fewer rounds at once.
    write_loop(stretches[i], round.text, roots_.full.empty(), skipped_first);
  }
  if (schedule_.shifted && !skipped_first) write_ends(round.ends);
}

// The elements before a row's first whole group and after its last, one for each of the team's
// first threads.
void RowWriter::write_ends(const std::string& text) {
  const std::uint64_t length = rows_.row_length();
  std::string placed = text;
  for (const HeldValue& held : held_) {
    replace_all(placed, held.name + kHeldGroup, held.name + "_end");
  }
  replace_all(placed, "copy(", "copy_now(");
  replace_all(placed, "hold_at(", "hold_packed(");
  body_ += fmt::format(
      "  {{\n    const idx r = t < head ? t : ({0} - head) / {1} * {1} + t;\n    if (r < {0}{2}) "
      "{{\n{3}    }}\n  }}\n",
      length, schedule_.width, schedule_.splits > 1 ? " && split == 0" : "", placed);
}

// No whole group begins at this element of a row, or after it.
std::uint64_t RowWriter::first_beyond() const {
  return walked_.row_length() - (schedule_.shifted ? schedule_.width - 1 : 0);
}

// From a thread's place in one round to that in the next, in groups of a row or in lines. Blocks
// that have whole lines take turns.
std::uint64_t RowWriter::row_step() const {
  return schedule_.team * (schedule_.lines > 0 ? schedule_.splits : 1);
}

// Rounds in which no thread is beyond the end of the row: they need no bounds check.
std::uint64_t RowWriter::whole_rounds() const {
  if (schedule_.lines > 0) return walked_.row_length() / row_step();
  const std::uint64_t round =
      std::uint64_t{schedule_.team} * (schedule_.columns ? 1 : schedule_.width);
  const std::uint64_t before = (schedule_.splits - 1) * schedule_.rounds * round;
  const std::uint64_t length = first_beyond();
  return length > before ? std::min<std::uint64_t>(schedule_.rounds, (length - before) / round) : 0;
}

// How many rounds of a long loop have their loads on their way together.
std::uint64_t RowWriter::rounds_together() const {
  // Held values leave fewer registers.
  const bool tight = schedule_.in_shared > 0 && schedule_.in_registers > 0;
  if (windows_ || tight) return windows_ ? 1 : 3;
  // Of columns in narrow groups, more must be on their way.
  const std::uint64_t usual = schedule_.columns && schedule_.width <= 2 ? 8 : 4;
  if (schedule_.lines == 0) return usual;
  // The large blocks of whole lines leave a thread 64 registers, and what columns have stays there.
  constexpr std::uint64_t kMostGroups = 8;
  const auto groups = static_cast<std::uint64_t>(std::ranges::count_if(
      kernel_.phases().reads, [](const Phases::Use& use) { return use.elements > 1; }));
  return std::clamp(kMostGroups / std::max<std::uint64_t>(1, groups), std::uint64_t{1}, usual);
}

void RowWriter::write_loop(const Stretch& stretch, const std::string& text, bool light,
                           bool skipped_first) {
  const std::string placed = with_places(text, stretch.in_registers);
  if (!gathered_.empty()) {
    return schedule_.columns ? write_column_rounds(stretch, placed)
                             : write_gathered(stretch, placed);
  }
  const std::uint64_t whole = whole_rounds();
  const auto rounds = [&](std::uint64_t begin, std::uint64_t end, bool guarded) {
    if (begin >= end) return;
    // Registers have no addresses: an array in them is indexed by constants only.
    const bool named = stretch.in_registers && schedule_.in_registers > 0;
    const std::uint64_t together =
        named ? end - begin : unrolled(end - begin, light, rounds_together());
    write_rounds({.begin = begin, .end = end}, together, guarded, placed);
  };
  if (skipped_first) rounds(std::max(stretch.begin, whole), stretch.end, true);
  rounds(stretch.begin, std::min(stretch.end, whole), false);
  if (!skipped_first) rounds(std::max(stretch.begin, whole), stretch.end, true);
}

void RowWriter::write_rounds(const Stretch& stretch, std::uint64_t unrolled, bool guarded,
                             const std::string& text) {
  body_ += fmt::format("#pragma unroll {}\n  for (u32 k = {}; k < {}; ++k) {{\n", unrolled,
                       stretch.begin, stretch.end);
  body_ += fmt::format("    const idx r = {}{}((idx)k * {} + t) * {};\n",
                       schedule_.shifted ? "head + " : "", schedule_.splits > 1 ? "first + " : "",
                       row_step(), schedule_.columns ? 1 : schedule_.width);
  body_ += guarded ? fmt::format("    if (r < {}) {{\n", first_beyond()) : "    {\n";
  body_ += text + "    }\n  }\n";
}

// Replaces the names of held groups in a round by where they are: in shared memory or registers.
std::string RowWriter::with_places(std::string text, bool in_registers) const {
  if (!schedule_.holds()) return text;
  for (const HeldValue& held : held_) {
    const std::string& name = held.name;
    replace_all(text, name + kHeldGroup,
                in_registers ? fmt::format("{}_own[k - {}]", name, schedule_.in_shared)
                             : fmt::format("{}[k * {} + threadIdx.x]", name, schedule_.threads));
  }
  replace_all(text, "copy(", in_registers ? "copy_now(" : "copy_async(");
  if (in_registers) replace_all(text, "hold_at(", "hold_packed(");
  return text;
}

}  // namespace fusecalc
