// How the threads and blocks that share rows merge their accumulators, and store the results: one
// for each row, or one for all rows.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/elements.hpp"
#include "codegen/memory_access.hpp"
#include "codegen/movement.hpp"
#include "codegen/row_results.hpp"
#include "codegen/rows.hpp"
#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

// Bytes in the workspace, rounded up so that no two users share a sector.
std::uint64_t room(std::uint64_t bytes) {
  constexpr std::uint64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// How the threads of a team merge their accumulators.
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
  for (const OpId id : kernel_.ops()) {
    if (!kernel_.takes_rows(id) || kernel_.runs_in(id) != phase) continue;
    ops.push_back(id);
    if (schedule_.lines > 0) continue;
    const std::string type = accumulator_class(kernel_, kernel_.op(id));
    const unsigned states = schedule_.columns ? schedule_.threads / 2 * schedule_.width
                                              : std::max(1U, schedule_.threads / 32);
    scratch_users_.push_back(fmt::format("sizeof({}) * {}", type, states));
    body_ += team_merge(code_.accumulator(id));
  }
  if (ops.empty()) return;
  if (schedule_.lines > 0) {
    merge_lines(phase, ops);
  } else if (schedule_.splits > 1) {
    merge_blocks(ops, loops_after(phase));
  }
  for (const OpId id : ops) {
    body_ += fmt::format(
        "#pragma unroll\n  for (int j = 0; j < {}; ++j) {}[j].finish({}, {:.17g});\n", lanes(),
        code_.accumulator(id), rows_.row_length(), kernel_.op(id).attributes->eps);
  }
}

// The blocks of a row leave their states in the workspace. If another pass follows, they all wait
// and continue with the merged state; else only the last block to arrive continues.
void RowWriter::merge_blocks(const std::vector<OpId>& ops, bool more_loops) {
  const bool wait = more_loops || !roots_.losses.empty();
  struct StatePlace {
    std::string state;
    std::string type;
    std::string memory;
  };
  std::vector<StatePlace> places;
  for (const OpId id : ops) {
    StatePlace place{code_.accumulator(id), accumulator_class(kernel_, kernel_.op(id)), {}};
    place.memory = code_.fresh("w");
    body_ += fmt::format("  {0}* const {1} = reinterpret_cast<{0}*>(partials + {2});\n", place.type,
                         place.memory, partial_bytes_);
    partial_bytes_ += room(walked_.rows() * schedule_.splits * state_bytes_);
    body_ += fmt::format(
        "  if (t == 0 && active) {{\n    for (int j = 0; j < {}; ++j) {}[(u64)split * {} + q + j] "
        "= {}[j];\n  }}\n",
        lanes(), place.memory, walked_.rows(), place.state);
    places.push_back(std::move(place));
  }
  if (schedule_.cluster) {
    body_ += "  wait_for_cluster();\n";
  } else if (wait) {
    waits_ = true;
    body_ += "  wait_for_grid(gates);\n";
  } else {
    done_ = true;
    body_ += fmt::format("  if (!last_of(gates + 1 + blockIdx.x / {0}, {0})) return;\n",
                         schedule_.splits);
  }
  for (const StatePlace& place : places) {
    // Other blocks wrote these: they must not come from the read-only cache.
    body_ += fmt::format(
        "#pragma unroll\n  for (int j = 0; j < {4}; ++j) {{\n    {0}[j].reset();\n"
        "    for (u32 i = t; i < {2}; i += {3}) {0}[j].merge(*({1}*)({5} + ((u64)i * {6} + q + "
        "j)));\n"
        "  }}\n",
        place.state, place.type, schedule_.splits, schedule_.team, lanes(), place.memory,
        walked_.rows());
    body_ += team_merge(place.state);
  }
}

// Each block leaves what it has of each column. When all have, each block merges what they left of
// a few, and adds the lines that are no whole number of those taken as one.
void RowWriter::merge_lines(std::uint8_t phase, const std::vector<OpId>& ops) {
  const std::uint64_t columns = rows_.rows();
  const std::uint64_t wide = ceil_div(columns, schedule_.splits);
  const std::uint64_t most =
      std::min(schedule_.room * columns, std::uint64_t{schedule_.threads} * schedule_.width);
  std::string merged;
  for (const OpId id : ops) {
    const std::string& state = code_.accumulator(id);
    const std::string type = accumulator_class(kernel_, kernel_.op(id));
    const std::string memory = code_.fresh("w");
    scratch_users_.push_back(
        fmt::format("sizeof({}) * {}", type, std::max(most, std::uint64_t{schedule_.threads})));
    body_ += fmt::format(
        "  {0}* const {1} = reinterpret_cast<{0}*>(partials + {2});\n"
        "  leave_columns<{3}, {4}, {5}>({1} + split * {4}, {6}, scratch);\n",
        type, memory, partial_bytes_, schedule_.threads, columns, schedule_.room, state);
    merged += fmt::format("  merge_left<{}, {}>({}[0], {}, {}, {}, q, scratch);\n",
                          schedule_.threads, wide, state, memory, columns, schedule_.splits);
    partial_bytes_ += room(columns * schedule_.splits * state_bytes(kernel_, kernel_.op(id)));
  }
  waits_ = done_ = apart_ = true;
  body_ += "  wait_for_grid(gates);\n  {\n";
  body_ += fmt::format(
      "  const idx q = min(split * {0} + threadIdx.x % {0}, {1});\n{2}"
      "  const bool mine = threadIdx.x < {0} && split * {0} + threadIdx.x <= {1};\n",
      wide, columns - 1, merged);
  write_pivots(phase);
  const std::uint64_t whole = walked_.row_length() * schedule_.lines;
  if (whole < rows_.row_length()) {
    const Round single = write_groups(phase, 1);
    body_ += fmt::format("#pragma unroll\n  for (idx r = {}; r < {}; ++r) {{\n{}{}  }}\n", whole,
                         rows_.row_length(), single.row_results, single.text);
  }
}

// A picked score takes two dependent loads, of its class and of the score: they are started ahead
// of the code that would wait for them.
void RowWriter::write_picks() {
  for (const OpId id : kernel_.ops()) {
    const Op& op = kernel_.op(id);
    if (op.row->family != OpFamily::kLoss) continue;
    if (op.row->accumulator == Accumulator::kNone && kernel_.takes_rows(id)) continue;
    if (kernel_.tensor(op.operands[1].tensor).elements != rows_.rows()) continue;
    if (kernel_.makes(kernel_.tensor(op.operands[0].tensor).value)) continue;
    const Loop loop = this->loop();
    CodeBlock block = block_of(lanes());
    const Scope scope{code_, loop, block};
    const Value score = picked_score(scope, id, row_index());
    const std::string name = code_.fresh("pick");
    block.lanes += fmt::format("{}[j] = {};\n", name, score.text);
    body_ += block.row_results + fmt::format("  {} {}[{}];\n  {{\n{}  }}\n", name_of(score.type),
                                             name, lanes(), block.text("    "));
    picked_[id] = {.text = fmt::format("{}[{}]", name, loop.row.lane()),
                   .type = score.type,
                   .uniform = lanes() == 1};
  }
}

// Results that have one element per row: the first thread of the row's team stores them.
void RowWriter::write_row_results() {
  if (roots_.rows.empty()) return;
  const Loop loop = this->loop();
  CodeBlock block = block_of(lanes());
  const Scope scope{code_, loop, block};
  const Index q{.name = "q", .pattern = lanes() > 1 ? LanePattern::kUnit : LanePattern::kUniform};
  for (const TensorId tensor : roots_.rows) store(scope, tensor, q, row_result(scope, tensor));
  body_ += block.row_results;
  const bool one_of_many = schedule_.splits > 1 && !done_;
  const std::string chosen =
      apart_ ? "mine" : fmt::format("t == 0 && active{}", one_of_many ? " && split == 0" : "");
  body_ +=
      fmt::format("  if ({}) {{\n{}  }}\n{}", chosen, block.text("    "), apart_ ? "  }\n" : "");
}

void RowWriter::write_losses() {
  if (roots_.losses.empty()) return;
  std::string by_last;
  for (const OpId id : roots_.losses) by_last += write_loss(id);
  // Blocks are counted once, when the partial sums of all losses are in the workspace.
  ending_ += fmt::format("  if (last_of(gates + 1, {})) {{\n{}  }}\n", blocks(), by_last);
}

// A loss is summed over rows, then threads, then blocks. Returns the code of the last block.
std::string RowWriter::write_loss(OpId id) {
  const Op& op = kernel_.op(id);
  const Loop loop = this->loop();
  CodeBlock block = block_of(lanes());
  const std::string total = code_.fresh("total");
  const Value loss = row_loss({code_, loop, block}, id);
  block.lanes += fmt::format("{}.add({}, 0);\n", total, loss.text);
  const std::string type = fmt::format("Sum<{}>", name_of(loss.type));
  CodeBlock final;
  const Value sum{.text = op.attributes->reduction == LossReduction::kMean
                              ? fmt::format("{}.sum / {}", total,
                                            literal(static_cast<double>(rows_.rows()), loss.type))
                              : total + ".sum",
                  .type = loss.type};
  store({code_, loop, final}, op.outputs[0], {.name = "0"}, sum);
  body_ += block.row_results;
  scratch_users_.push_back(
      fmt::format("sizeof({}) * {}", type, std::max(1U, schedule_.threads / 32)));
  totals_ += fmt::format("  {} {};\n", type, total);
  body_ += fmt::format("  if (t == 0 && active{}) {{\n{}  }}\n",
                       schedule_.splits > 1 ? " && split == 0" : "", block.text("    "));
  // Only the first threads of teams have sums.
  if (schedule_.teams() > 1 || schedule_.columns) {
    ending_ += fmt::format("  merge_block<{}>({}, scratch);\n", schedule_.threads, total);
  }
  const std::string memory = code_.fresh("w");
  ending_ += fmt::format(
      "  {0}* const {1} = reinterpret_cast<{0}*>(partials + {2});\n"
      "  if (threadIdx.x == 0) {1}[blockIdx.x] = {3};\n",
      type, memory, partial_bytes_, total);
  partial_bytes_ += room(blocks() * sizeof(double));
  return fmt::format(
      "    merge_blocks_left<{0}, {3}>({1}, {2}, scratch);\n"
      "    if (threadIdx.x == 0) {{\n{4}    }}\n",
      schedule_.threads, total, memory, blocks(), final.text("      "));
}

}  // namespace fusecalc
