// How the threads and the blocks that share rows put their states together, and what is stored of
// them: one for each row, or one out of all.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/rows.hpp"

namespace fusecalc {
namespace {

// Room in the workspace, with none of it shared with what comes next.
std::uint64_t room(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::uint64_t kMostStateBytes = 112;

}  // namespace

// How the threads of a team put a state together.
std::string RowWriter::team_merge(const std::string& state) const {
  if (schedule_.team == 1) return {};
  if (schedule_.columns) {
    return fmt::format("  merge_columns<{}, {}, {}>({}, scratch);\n", schedule_.teams(),
                       schedule_.team, schedule_.width, state);
  }
  if (schedule_.team <= 32)
    return fmt::format("  merge_lanes<{}>({}[0]);\n", schedule_.team, state);
  return fmt::format("  merge_block<{}>({}[0], scratch);\n", schedule_.threads, state);
}

void RowWriter::merge_states(std::uint8_t phase) {
  std::vector<OpId> ops;
  for (const OpId id : emitter_.kernel()) {
    if (!emitter_.takes_rows(id) || emitter_.runs_in(id) != phase) continue;
    ops.push_back(id);
    const std::string type = emitter_.state_class(emitter_.op(id));
    const unsigned states = schedule_.columns ? schedule_.threads / 2 * schedule_.width
                                              : std::max(1U, schedule_.threads / 32);
    scratch_users_.push_back(fmt::format("sizeof({}) * {}", type, states));
    body_ += team_merge(emitter_.state_of(id));
  }
  if (ops.empty()) return;
  if (schedule_.splits > 1) merge_blocks(ops, loops_after(phase));
  for (const OpId id : ops) {
    body_ += fmt::format(
        "#pragma unroll\n  for (int j = 0; j < {}; ++j) {}[j].finish({}, {:.17g});\n", lanes(),
        emitter_.state_of(id), rows_.row_length(), emitter_.op(id).attributes->eps);
  }
}

// The blocks of a row leave their states in the workspace. Where more is to be looked at they all
// wait and go on with the whole; else the last one to come goes on alone.
void RowWriter::merge_blocks(const std::vector<OpId>& ops, bool more_loops) {
  const bool wait = more_loops || !roots_.losses.empty();
  struct Place {
    std::string state;
    std::string type;
    std::string memory;
  };
  std::vector<Place> places;
  for (const OpId id : ops) {
    Place place{emitter_.state_of(id), emitter_.state_class(emitter_.op(id)), {}};
    place.memory = emitter_.fresh("w");
    body_ += fmt::format("  {0}* const {1} = reinterpret_cast<{0}*>(partials + {2});\n", place.type,
                         place.memory, partial_bytes_);
    partial_bytes_ += room(rows_.rows() * schedule_.splits * kMostStateBytes);
    body_ += fmt::format(
        "  if (t == 0 && active) {{\n    for (int j = 0; j < {}; ++j) {}[(u64)split * {} + q + j] "
        "= {}[j];\n  }}\n",
        lanes(), place.memory, rows_.rows(), place.state);
    places.push_back(std::move(place));
  }
  if (wait) {
    waits_ = true;
    body_ += "  wait_for_grid(gates);\n";
  } else {
    done_ = true;
    body_ += fmt::format("  if (!last_of(gates + 1 + blockIdx.x / {0}, {0})) return;\n",
                         schedule_.splits);
  }
  for (const Place& place : places) {
    // Other blocks wrote these: no read-only cache may answer.
    body_ += fmt::format(
        "#pragma unroll\n  for (int j = 0; j < {4}; ++j) {{\n    {0}[j].reset();\n"
        "    for (u32 i = t; i < {2}; i += {3}) {0}[j].merge(*({1}*)({5} + ((u64)i * {6} + q + "
        "j)));\n"
        "  }}\n",
        place.state, place.type, schedule_.splits, schedule_.team, lanes(), place.memory,
        rows_.rows());
    body_ += team_merge(place.state);
  }
}

// A picked score lies where two numbers lead, one after the other: both are asked for ahead of what
// would wait for them. The class's is there before the row is read; the score, when it was.
void RowWriter::write_picks(bool scores) {
  for (const OpId id : emitter_.kernel()) {
    const Op& op = emitter_.op(id);
    if (op.row->family != OpFamily::kLoss) continue;
    if (op.row->state.empty() && emitter_.takes_rows(id)) continue;
    if (emitter_.graph().tensors[op.operands[1].tensor].elements != rows_.rows()) continue;
    const TensorId tensor = op.operands[scores ? 0 : 1].tensor;
    const OpId producer = emitter_.graph().value_of(tensor).producer;
    if (producer != kNone && emitter_.contains(producer)) continue;
    CodeBlock piece{.width = lanes(), .width_text = std::to_string(lanes())};
    emitter_.enter(piece, 0);
    const Value value =
        scores ? emitter_.picked(op, row_index()) : emitter_.value(tensor, row_index());
    const std::string name = emitter_.fresh("pick");
    piece.lanes += fmt::format("{}[j] = {};\n", name, value.text);
    body_ += fmt::format("  {} {}[{}];\n  {{\n{}  }}\n", name_of(value.type), name, lanes(),
                         piece.text("    "));
    const Value known{.text = fmt::format("{}[{}]", name, lanes() > 1 ? "j" : "0"),
                      .type = value.type,
                      .uniform = lanes() == 1};
    if (scores) {
      emitter_.set_picked(id, known);
    } else {
      emitter_.set_row_value(tensor, known);
    }
  }
}

// What there is one of for each row: the first thread of its team stores it.
void RowWriter::write_row_results() {
  if (roots_.rows.empty()) return;
  CodeBlock piece{.width = lanes(), .width_text = std::to_string(lanes())};
  emitter_.enter(piece, last_);
  const Index q{.name = "q", .pattern = lanes() > 1 ? LanePattern::kUnit : LanePattern::kUniform};
  for (const TensorId tensor : roots_.rows) {
    emitter_.store(tensor, q, emitter_.row_value(tensor));
  }
  body_ += emitter_.take_row_code();
  const bool one_of_many = schedule_.splits > 1 && !done_;
  body_ += fmt::format("  if (t == 0 && active{}) {{\n{}  }}\n",
                       one_of_many ? " && split == 0" : "", piece.text("    "));
}

void RowWriter::write_losses() {
  if (roots_.losses.empty()) return;
  std::string by_last;
  for (const OpId id : roots_.losses) by_last += write_loss(id);
  // The blocks are counted once, when the parts of all losses are there.
  ending_ += fmt::format("  if (last_of(gates + 1, {})) {{\n{}  }}\n", blocks(), by_last);
}

// A loss: rows, then threads, then blocks add up. Returns what the last block does.
std::string RowWriter::write_loss(OpId id) {
  const Op& op = emitter_.op(id);
  CodeBlock piece{.width = lanes(), .width_text = std::to_string(lanes())};
  emitter_.enter(piece, last_);
  const std::string total = emitter_.fresh("total");
  const Value loss = emitter_.row_loss(id);
  piece.lanes += fmt::format("{}.add({}, 0);\n", total, loss.text);
  const std::string type = fmt::format("Sum<{}>", name_of(loss.type));
  CodeBlock final;
  emitter_.enter(final, last_);
  const Value sum{.text = op.attributes->reduction == LossReduction::kMean
                              ? fmt::format("{}.sum / {}", total,
                                            literal(static_cast<double>(rows_.rows()), loss.type))
                              : total + ".sum",
                  .type = loss.type};
  emitter_.store(op.outputs[0], {.name = "0"}, sum);
  body_ += emitter_.take_row_code();
  scratch_users_.push_back(
      fmt::format("sizeof({}) * {}", type, std::max(1U, schedule_.threads / 32)));
  totals_ += fmt::format("  {} {};\n", type, total);
  body_ += fmt::format("  if (t == 0 && active{}) {{\n{}  }}\n",
                       schedule_.splits > 1 ? " && split == 0" : "", piece.text("    "));
  // Only the first thread of a team has something.
  if (schedule_.teams() > 1 || schedule_.columns) {
    ending_ += fmt::format("  merge_block<{}>({}, scratch);\n", schedule_.threads, total);
  }
  const std::string memory = emitter_.fresh("w");
  ending_ += fmt::format(
      "  {0}* const {1} = reinterpret_cast<{0}*>(partials + {2});\n"
      "  if (threadIdx.x == 0) {1}[blockIdx.x] = {3};\n",
      type, memory, partial_bytes_, total);
  partial_bytes_ += room(blocks() * sizeof(double));
  return fmt::format(
      "    {1}.reset();\n"
      "    for (u32 i = threadIdx.x; i < {3}; i += {0}) {1}.merge({2}[i]);\n"
      "    merge_block<{0}>({1}, scratch);\n    if (threadIdx.x == 0) {{\n{4}    }}\n",
      schedule_.threads, total, memory, blocks(), final.text("      "));
}

}  // namespace fusecalc
