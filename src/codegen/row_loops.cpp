// The loops over rows: what each phase adds to states and stores, and where it finds what is held.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/rows.hpp"

namespace fusecalc {
namespace {

// Rounds of a loop that are in flight together: of one that does little else than read all, where
// they are few, else as many as leave none over.
std::uint64_t unrolled(std::uint64_t rounds, bool light, std::uint64_t usual) {
  constexpr std::uint64_t kShort = 8;
  if (light && rounds <= kShort) return rounds;
  for (const std::uint64_t together : {usual, usual + 1, usual - 1}) {
    if (rounds % together == 0) return together;
  }
  return std::min(rounds, usual);
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), by);
    at += by.size();
  }
}

}  // namespace

std::string RowWriter::round_text(std::uint8_t phase, std::string& copies) {
  const unsigned width = schedule_.width;
  CodeBlock piece{.width = width, .width_text = std::to_string(width)};
  emitter_.enter(piece, phase);
  const Index r{.name = "r",
                .pattern = schedule_.columns ? LanePattern::kUniform : LanePattern::kUnit};
  const Index base = emitter_.derive(row_index(), row_map(false));
  const Index offset = emitter_.derive(r, row_map(true));
  const Index e =
      emitter_.index(fmt::format("{} + {}", base.name, offset.name), LanePattern::kUnit, true);
  emitter_.set_loop(e);
  const std::string indices = piece.before;
  for (const OpId id : emitter_.kernel()) {
    if (!emitter_.takes_rows(id) || emitter_.runs_in(id) != phase) continue;
    const Value taken = emitter_.row_input(id, e);
    if (schedule_.columns) {
      piece.lanes += fmt::format("{}[j].add({}, r);\n", emitter_.state_of(id), taken.text);
      continue;
    }
    const std::string group = emitter_.fresh("g");
    piece.before += fmt::format("{} {}[{}];\n", name_of(taken.type), group, width);
    piece.lanes += fmt::format("{}[j] = {};\n", group, taken.text);
    piece.after += fmt::format("take({}[0], {}, r);\n", emitter_.state_of(id), group);
  }
  std::vector<TensorId> made;
  for (const TensorId tensor : roots_.full) {
    const OpId producer = emitter_.graph().tensors[tensor].producer;
    if (emitter_.ready_in(producer) == phase) made.push_back(tensor);
  }
  store_full(emitter_, made, e, "active");
  if (!piece.copies.empty()) copies = CodeBlock{.before = indices + piece.copies}.text("      ");
  return piece.text("      ") + (phase == 0 ? small_results(base, offset) : "");
}

std::string RowWriter::small_results(const Index& base, const Index& offset) {
  const unsigned width = schedule_.width;
  std::string text;
  for (const TensorId tensor : roots_.small) {
    if (emitter_.ready_in(emitter_.graph().tensors[tensor].producer) > 0) {
      cannot_generate(emitter_.op(emitter_.graph().tensors[tensor].producer),
                      "its result is neither a row's nor as large as the rows");
    }
    CodeBlock some{.width = width, .width_text = std::to_string(width)};
    some.before = fmt::format("const idx e = {} + {};\n", base.name, offset.name);
    emitter_.enter(some, 0);
    store_small(emitter_, tensor, "e");
    text += "      if (active) {\n" + some.text("        ") + "      }\n";
  }
  return text;
}

// Moments are sums of distances from the first element of the row.
void RowWriter::write_pivots(std::uint8_t phase) {
  for (const OpId id : emitter_.kernel()) {
    const bool starts = emitter_.takes_rows(id) && emitter_.runs_in(id) == phase;
    if (!starts || emitter_.op(id).row->state != "Moments") continue;
    CodeBlock piece{.width = lanes(), .width_text = std::to_string(lanes())};
    emitter_.enter(piece, phase);
    const Value value = emitter_.row_input(id, emitter_.derive(row_index(), row_map(false)));
    piece.lanes += fmt::format("{}[j].pivot = {};\n", emitter_.state_of(id), value.text);
    body_ += emitter_.take_row_code() + "  {\n" + piece.text("    ") + "  }\n";
  }
}

void RowWriter::write_phase(std::uint8_t phase) {
  for (const OpId id : emitter_.kernel()) {
    if (!emitter_.takes_rows(id) || emitter_.runs_in(id) != phase) continue;
    state_declarations_ += fmt::format("  {} {}[{}];\n", emitter_.state_class(emitter_.op(id)),
                                       emitter_.state_of(id), lanes());
  }
  if (works_in(phase)) {
    std::string copies;
    const std::string inside = round_text(phase, copies);
    write_loops(inside, copies, phase);
    if (!loops_after(phase)) write_picks(true);
  }
  merge_states(phase);
}

// What is copied on chip is under way before the first of it is needed, and is taken in two parts:
// the second arrives while the first is looked at.
void RowWriter::write_loops(const std::string& inside, const std::string& copies,
                            std::uint8_t phase) {
  std::vector<Stretch> stretches;
  const std::uint64_t in_shared = schedule_.in_shared;
  if (copies.empty() || in_shared < 2) {
    stretches.push_back({.begin = 0, .end = in_shared});
  } else {
    stretches.push_back({.begin = 0, .end = in_shared / 2});
    stretches.push_back({.begin = in_shared / 2, .end = in_shared});
  }
  stretches.push_back({.begin = in_shared, .end = schedule_.rounds, .in_registers = true});
  const std::size_t groups = stretches.size() - 1;
  for (std::size_t i = 0; i < stretches.size() && !copies.empty(); ++i) {
    write_loop(stretches[i], copies, true);
    if (i < groups) body_ += "  end_copy_group();\n";
  }
  body_ += emitter_.take_row_code();
  write_pivots(phase);
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    if (!copies.empty() && i < groups) {
      body_ += fmt::format("  wait_for_copies<{}>();\n", groups - 1 - i);
    }
    // What stores results as large as the rows has registers for fewer rounds at once.
    write_loop(stretches[i], inside, roots_.full.empty());
  }
}

// Rounds that lie in the row for all threads need not ask.
std::uint64_t RowWriter::whole_rounds() const {
  const std::uint64_t round =
      std::uint64_t{schedule_.team} * (schedule_.columns ? 1 : schedule_.width);
  const std::uint64_t before = (schedule_.splits - 1) * schedule_.rounds * round;
  const std::uint64_t length = rows_.row_length();
  return length > before ? std::min<std::uint64_t>(schedule_.rounds, (length - before) / round) : 0;
}

void RowWriter::write_loop(const Stretch& stretch, const std::string& text, bool light) {
  const std::string placed = with_places(text, stretch.in_registers);
  const std::uint64_t whole = whole_rounds();
  // Registers that hold something are not there for rounds.
  const std::uint64_t usual = schedule_.in_shared > 0 && schedule_.in_registers > 0 ? 3 : 4;
  const auto rounds = [&](std::uint64_t begin, std::uint64_t end, bool guarded) {
    if (begin >= end) return;
    // Registers cannot be told apart by a number: all rounds are spelt out.
    const bool named = stretch.in_registers && schedule_.in_registers > 0;
    const std::uint64_t together = named ? end - begin : unrolled(end - begin, light, usual);
    write_rounds({.begin = begin, .end = end}, together, guarded, placed);
  };
  rounds(stretch.begin, std::min(stretch.end, whole), false);
  rounds(std::max(stretch.begin, whole), stretch.end, true);
}

void RowWriter::write_rounds(const Stretch& stretch, std::uint64_t unrolled, bool guarded,
                             const std::string& text) {
  body_ += fmt::format("#pragma unroll {}\n  for (u32 k = {}; k < {}; ++k) {{\n", unrolled,
                       stretch.begin, stretch.end);
  body_ += fmt::format("    const idx r = {}((idx)k * {} + t) * {};\n",
                       schedule_.splits > 1 ? "first + " : "", schedule_.team,
                       schedule_.columns ? 1 : schedule_.width);
  body_ += guarded ? fmt::format("    if (r < {}) {{\n", rows_.row_length()) : "    {\n";
  body_ += text + "    }\n  }\n";
}

// The text of a round with the places of what it holds filled in.
std::string RowWriter::with_places(std::string text, bool in_registers) const {
  if (!schedule_.holds()) return text;
  for (const TensorId id : held_) {
    const std::string& name = emitter_.held()[id].name;
    replace_all(text, name + kPlace,
                in_registers ? fmt::format("{}_own[k - {}]", name, schedule_.in_shared)
                             : fmt::format("{}[k * {} + threadIdx.x]", name, schedule_.threads));
  }
  replace_all(text, "copy(", in_registers ? "copy_now(" : "copy_async(");
  if (in_registers) replace_all(text, "hold_at(", "hold_packed(");
  return text;
}

}  // namespace fusecalc
