// Kernels with reductions: teams of threads look at rows, once for every phase.
//
// Traffic: a row that is needed again stays on chip where the schedule found room for it; else each
// phase reads it from memory anew. States cross threads through shuffles and shared memory, and
// blocks through the workspace, which is small beside the rows.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/row_schedule.hpp"
#include "codegen/schedule.hpp"

namespace fusecalc {
namespace {

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// The bytes of a state, all members counted: no more than eight of the widest.
constexpr std::uint64_t kStateBytes = 28;
constexpr std::uint64_t kWideStateBytes = 56;

class RowWriter {
 public:
  RowWriter(Emitter& emitter, PhaseFinder& finder, bool rows_fit, const Target& target)
      : emitter_(emitter),
        rows_(emitter.phases().rows),
        space_(rows_.rows() * rows_.row_length()),
        roots_(find_roots(emitter, finder, space_)) {
    for (const OpId id : emitter_.kernel()) {
      last_ = std::max(last_, emitter_.ready_in(id));
    }
    plan(rows_fit, target);
  }

  GeneratedKernel write();

 private:
  void plan(bool rows_fit, const Target& target);
  void find_held(std::vector<TensorId>& held, std::uint64_t& bytes) const;
  std::uint64_t held_bytes(TensorId id) const;
  std::optional<TensorId> narrower_source(TensorId id) const;
  bool works_in(std::uint8_t phase) const;
  bool loops_after(std::uint8_t phase) const;
  void write_phase(std::uint8_t phase);
  void write_pivot(OpId id, std::uint8_t phase);
  std::string loop_text(std::uint8_t phase);
  void merge_states(std::uint8_t phase);
  void merge_blocks(const std::vector<OpId>& ops, bool more_loops);
  void write_row_results();
  void write_losses();
  std::string team_merge(const std::string& state) const;
  std::string prologue() const;
  std::string held_declarations() const;
  std::string scratch_declaration() const;
  std::uint64_t blocks_across() const;

  Emitter& emitter_;
  const RowLayout rows_;
  std::uint64_t space_;
  Roots roots_;
  RowSchedule schedule_;
  std::uint8_t last_ = 0;
  std::string body_;
  std::vector<std::string> scratch_users_;
  std::string state_declarations_;
  std::vector<TensorId> held_;
  std::uint64_t partial_bytes_ = 0;  // in the workspace, after the gates
  bool waits_ = false;               // for all blocks, in between
  bool done_ = false;                // only one block of each row goes on
};

bool RowWriter::works_in(std::uint8_t phase) const {
  for (const OpId id : emitter_.kernel()) {
    if (emitter_.takes_rows(id) && emitter_.runs_in(id) == phase) return true;
  }
  const auto made_here = [&](TensorId tensor) {
    return emitter_.ready_in(emitter_.graph().tensors[tensor].producer) == phase;
  };
  return (phase == 0 && !roots_.small.empty()) || std::ranges::any_of(roots_.full, made_here);
}

bool RowWriter::loops_after(std::uint8_t phase) const {
  for (unsigned later = phase + 1U; later <= last_; ++later) {
    if (works_in(static_cast<std::uint8_t>(later))) return true;
  }
  return false;
}

// Full-size values that a later phase needs again: held, they need not be read or made twice.
void RowWriter::find_held(std::vector<TensorId>& held, std::uint64_t& bytes) const {
  const auto add = [&](TensorId id, bool inside, std::uint8_t first) {
    const Tensor& value = emitter_.graph().tensors[id];
    // Two to a byte are looked up again: a place on chip has whole bytes.
    if (value.elements != space_ || is_packed(value.type.dtype)) return;
    std::uint8_t final = inside ? first : 0;
    for (const OpId reader : emitter_.graph().readers[id]) {
      if (!emitter_.contains(reader)) continue;
      const Op& op = emitter_.op(reader);
      const bool again = !op.rows.empty() && op.passes > 1;
      if (!inside) first = std::min(first, emitter_.runs_in(reader));
      final = std::max(final, again ? emitter_.ready_in(reader) : emitter_.runs_in(reader));
    }
    if (final > first) held.push_back(id);
  };
  for (const Phases::Use& use : emitter_.phases().reads) add(use.value, false, last_);
  for (const OpId id : emitter_.kernel()) {
    for (const TensorId output : emitter_.op(id).outputs) {
      if (!emitter_.is_row_result(output)) add(output, true, emitter_.ready_in(id));
    }
  }
  // From the last to the first, so that chains are followed to their beginning.
  for (std::size_t i = held.size(); i-- > 0;) {
    const std::optional<TensorId> narrower = narrower_source(held[i]);
    if (!narrower) continue;
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    if (std::ranges::find(held, *narrower) == held.end()) held.push_back(*narrower);
    i = held.size();
  }
  for (const TensorId id : held) bytes += held_bytes(id);
}

// What a held value takes per element: values made here are kept as they were computed.
std::uint64_t RowWriter::held_bytes(TensorId id) const {
  const Tensor& tensor = emitter_.graph().tensors[id];
  const bool inside = tensor.producer != kNone && emitter_.contains(tensor.producer);
  const std::uint64_t stored = bytes_of(tensor.type.dtype, 1);
  return inside && is_float(tensor.type.dtype) ? std::max<std::uint64_t>(stored, sizeof(float))
                                               : stored;
}

// The one value of full size that a value is computed from, where keeping that takes less room:
// computing it again is cheaper than the registers.
std::optional<TensorId> RowWriter::narrower_source(TensorId id) const {
  const OpId producer = emitter_.graph().tensors[id].producer;
  if (producer == kNone || !emitter_.contains(producer)) return std::nullopt;
  if (emitter_.op(producer).op_class != OpClass::kPointwise) return std::nullopt;
  std::optional<TensorId> source;
  for (const Operand& operand : emitter_.op(producer).operands) {
    if (operand.tensor == kNone) continue;
    const Tensor& value = emitter_.graph().value_of(operand.tensor);
    if (value.elements != space_) continue;
    const bool same_place = emitter_.graph().tensors[operand.tensor].view_perm.empty();
    if (source || !same_place) return std::nullopt;
    source = emitter_.graph().tensors[operand.tensor].value;
  }
  if (!source || held_bytes(*source) >= held_bytes(id)) return std::nullopt;
  return source;
}

void RowWriter::plan(bool rows_fit, const Target& target) {
  std::uint64_t bytes = 0;
  find_held(held_, bytes);
  const unsigned width = group_width(emitter_, roots_, space_);
  bool wide = false;
  for (const OpId id : emitter_.kernel()) {
    if (!emitter_.takes_rows(id)) continue;
    wide = wide || emitter_.state_class(emitter_.op(id)).find("64>") != std::string::npos;
  }
  schedule_ = schedule_rows({.rows = rows_,
                             .widest_bytes = 16 / width,
                             .held_bytes = bytes,
                             .holds = rows_fit && !held_.empty(),
                             .state_bytes = wide ? kWideStateBytes : kStateBytes,
                             .waits = loops_after(0) || !roots_.losses.empty()},
                            target);
  if (schedule_.keep == RowSchedule::Keep::kNothing) held_.clear();
  for (const TensorId id : held_) {
    const OpId producer = emitter_.graph().tensors[id].producer;
    const bool inside = producer != kNone && emitter_.contains(producer);
    const bool computed =
        inside && compute_type(emitter_.graph().tensors[id].type.dtype) == ComputeType::kF32;
    emitter_.held()[id] = {.name = fmt::format("h{}", id), .computed = computed};
  }
}

// Blocks that different rows need.
std::uint64_t RowWriter::blocks_across() const {
  const std::uint64_t units = schedule_.columns ? rows_.rows() / schedule_.width : rows_.rows();
  return ceil_div(units, schedule_.teams());
}

std::string RowWriter::prologue() const {
  const unsigned wide = schedule_.teams();
  const std::uint64_t units = schedule_.columns ? rows_.rows() / schedule_.width : rows_.rows();
  const char* const team = schedule_.columns ? "threadIdx.x % {0}" : "threadIdx.x / {1}";
  const char* const member = schedule_.columns ? "threadIdx.x / {0}" : "threadIdx.x % {1}";
  const std::string block =
      schedule_.splits > 1 ? fmt::format("blockIdx.x / {}", schedule_.splits) : "blockIdx.x";
  std::string text =
      fmt::format("  const u32 t = {};\n", fmt::format(fmt::runtime(member), wide, schedule_.team));
  const std::string unit = wide == 1
                               ? fmt::format("(idx)({})", block)
                               : fmt::format("(idx)({}) * {} + {}", block, wide,
                                             fmt::format(fmt::runtime(team), wide, schedule_.team));
  if (units % wide == 0) {
    text += fmt::format("  const bool active = true;\n  const idx unit = {};\n", unit);
  } else {
    // Threads beyond the last row look at it, too, and store nothing.
    text += fmt::format(
        "  const idx own = {0};\n  const bool active = own < {1};\n"
        "  const idx unit = active ? own : {2};\n",
        unit, units, units - 1);
  }
  text += fmt::format("  const idx q = unit * {};\n", schedule_.columns ? schedule_.width : 1);
  if (schedule_.splits > 1) {
    const std::uint64_t share =
        std::uint64_t{schedule_.looks} * schedule_.team * (schedule_.columns ? 1 : schedule_.width);
    text += fmt::format("  const u32 split = blockIdx.x % {};\n", schedule_.splits);
    text += fmt::format("  const idx first = (idx)split * {};\n", share);
  }
  return text;
}

std::string RowWriter::held_declarations() const {
  std::string text;
  std::uint64_t offset = 0;
  const bool shared = schedule_.keep == RowSchedule::Keep::kShared;
  if (shared && !held_.empty()) text += "  extern __shared__ uint4 on_chip[];\n";
  for (const TensorId id : held_) {
    const Held& held = emitter_.held()[id];
    const DType dtype = emitter_.graph().tensors[id].type.dtype;
    const std::string type =
        fmt::format("Pack<{}, {}>", held.computed ? "f32" : stored_type(dtype), schedule_.width);
    if (shared) {
      text += fmt::format("  {0}* const {1} = reinterpret_cast<{0}*>((u8*)on_chip + {2});\n", type,
                          held.name, offset);
      offset += std::uint64_t{schedule_.looks} * schedule_.threads * schedule_.width *
                (held.computed ? sizeof(float) : bytes_of(dtype, 1));
      offset = ceil_div(offset, 16) * 16;
    } else {
      text += fmt::format("  {} {}[{}];\n", type, held.name, schedule_.looks);
    }
  }
  return text;
}

// The loop of a phase: what it adds to states, and what it stores.
std::string RowWriter::loop_text(std::uint8_t phase) {
  const unsigned width = schedule_.width;
  Piece piece{.width = width, .width_text = std::to_string(width)};
  emitter_.enter(piece, phase);
  const bool columns = schedule_.columns;
  const Index q{.name = "q", .spread = columns ? Spread::kUnit : Spread::kUniform};
  const Index r{.name = "r", .spread = columns ? Spread::kUniform : Spread::kUnit};
  Step kept;
  Step reduced;
  std::uint64_t stride = space_;
  for (const RowLayout::Run& run : rows_.runs) {
    stride /= run.extent;
    (run.reduced ? reduced : kept).append(run.extent, stride);
  }
  const Index base = emitter_.derive(q, kept);
  const Index offset = emitter_.derive(r, reduced);
  Index e = emitter_.index(fmt::format("{} + {}", base.name, offset.name), Spread::kUnit, true);
  const std::string slot = schedule_.keep == RowSchedule::Keep::kShared
                               ? fmt::format("k * {} + threadIdx.x", schedule_.threads)
                               : "k";
  emitter_.set_loop(e, slot);
  for (const OpId id : emitter_.kernel()) {
    if (!emitter_.takes_rows(id) || emitter_.runs_in(id) != phase) continue;
    const Value taken = emitter_.row_input(id, e);
    if (columns) {
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
  std::string text = piece.text("      ");
  if (phase > 0) return text;
  for (const TensorId tensor : roots_.small) {
    if (emitter_.ready_in(emitter_.graph().tensors[tensor].producer) > 0) {
      cannot_generate(emitter_.op(emitter_.graph().tensors[tensor].producer),
                      "its result is neither a row's nor as large as the rows");
    }
    Piece some{.width = width, .width_text = std::to_string(width)};
    some.before = fmt::format("const idx e = {} + {};\n", base.name, offset.name);
    emitter_.enter(some, 0);
    store_small(emitter_, tensor, "e");
    text += "      if (active) {\n" + some.text("        ") + "      }\n";
  }
  return text;
}

// Moments are sums of distances from the first element of the row.
void RowWriter::write_pivot(OpId id, std::uint8_t phase) {
  const unsigned width = schedule_.columns ? schedule_.width : 1;
  Piece piece{.width = width, .width_text = std::to_string(width)};
  emitter_.enter(piece, phase);
  const Index q{.name = "q", .spread = schedule_.columns ? Spread::kUnit : Spread::kUniform};
  Step first;
  std::uint64_t stride = space_;
  for (const RowLayout::Run& run : rows_.runs) {
    stride /= run.extent;
    if (!run.reduced) first.append(run.extent, stride);
  }
  const Value value = emitter_.row_input(id, emitter_.derive(q, first));
  piece.lanes += fmt::format("{}[j].pivot = {};\n", emitter_.state_of(id), value.text);
  body_ += emitter_.take_row_code() + "  {\n" + piece.text("    ") + "  }\n";
}

void RowWriter::write_phase(std::uint8_t phase) {
  for (const OpId id : emitter_.kernel()) {
    if (!emitter_.takes_rows(id) || emitter_.runs_in(id) != phase) continue;
    state_declarations_ +=
        fmt::format("  {} {}[{}];\n", emitter_.state_class(emitter_.op(id)), emitter_.state_of(id),
                    schedule_.columns ? schedule_.width : 1);
  }
  if (works_in(phase)) {
    for (const OpId id : emitter_.kernel()) {
      const bool starts = emitter_.takes_rows(id) && emitter_.runs_in(id) == phase;
      if (starts && emitter_.op(id).row->state == "Moments") write_pivot(id, phase);
    }
    const std::string inside = loop_text(phase);
    body_ += emitter_.take_row_code();
    const std::uint64_t step = schedule_.columns ? 1 : schedule_.width;
    const std::uint64_t covered =
        std::uint64_t{schedule_.looks} * schedule_.team * step * schedule_.splits;
    const bool unrolled = !held_.empty() && schedule_.keep == RowSchedule::Keep::kRegisters;
    body_ += fmt::format("#pragma unroll {}\n  for (u32 k = 0; k < {}; ++k) {{\n",
                         unrolled ? schedule_.looks : 4, schedule_.looks);
    body_ += fmt::format("    const idx r = {}((idx)k * {} + t) * {};\n",
                         schedule_.splits > 1 ? "first + " : "", schedule_.team, step);
    body_ += covered == rows_.row_length()
                 ? "    {\n"
                 : fmt::format("    if (r < {}) {{\n", rows_.row_length());
    body_ += inside + "    }\n  }\n";
  }
  merge_states(phase);
}

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
    body_ +=
        fmt::format("#pragma unroll\n  for (int j = 0; j < {}; ++j) {}[j].finish({}, {:.17g});\n",
                    schedule_.columns ? schedule_.width : 1, emitter_.state_of(id),
                    rows_.row_length(), emitter_.op(id).attributes->eps);
  }
}

// The blocks of a row leave their states in the workspace. Where more is to be looked at they all
// wait and go on with the whole; else the last one to come goes on alone.
void RowWriter::merge_blocks(const std::vector<OpId>& ops, bool more_loops) {
  const unsigned width = schedule_.columns ? schedule_.width : 1;
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
    partial_bytes_ += ceil_div(rows_.rows() * schedule_.splits * 2 * kWideStateBytes, 256) * 256;
    body_ += fmt::format(
        "  if (t == 0 && active) {{\n    for (int j = 0; j < {}; ++j) {}[(u64)split * {} + q + j] "
        "= "
        "{}[j];\n  }}\n",
        width, place.memory, rows_.rows(), place.state);
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
        place.state, place.type, schedule_.splits, schedule_.team, width, place.memory,
        rows_.rows());
    body_ += team_merge(place.state);
  }
}

// What there is one of for each row: the first thread of its team stores it.
void RowWriter::write_row_results() {
  if (roots_.rows.empty()) return;
  const unsigned width = schedule_.columns ? schedule_.width : 1;
  Piece piece{.width = width, .width_text = std::to_string(width)};
  emitter_.enter(piece, last_);
  const Index q{.name = "q", .spread = width > 1 ? Spread::kUnit : Spread::kUniform};
  for (const TensorId tensor : roots_.rows) {
    emitter_.store(tensor, q, emitter_.row_value(tensor));
  }
  body_ += emitter_.take_row_code();
  const bool one_of_many = schedule_.splits > 1 && !done_;
  body_ += fmt::format("  if (t == 0 && active{}) {{\n{}  }}\n",
                       one_of_many ? " && split == 0" : "", piece.text("    "));
}

// A loss: rows, then threads, then blocks add up.
void RowWriter::write_losses() {
  for (const OpId id : roots_.losses) {
    const Op& op = emitter_.op(id);
    const unsigned width = schedule_.columns ? schedule_.width : 1;
    Piece piece{.width = width, .width_text = std::to_string(width)};
    emitter_.enter(piece, last_);
    const std::string total = emitter_.fresh("total");
    const Value loss = emitter_.row_loss(id);
    piece.lanes += fmt::format("{}.add({}, 0);\n", total, loss.text);
    const std::string type = fmt::format("Sum<{}>", name_of(loss.type));
    const TensorId output = op.outputs[0];
    Piece final;
    emitter_.enter(final, last_);
    const Value sum{.text = op.attributes->reduction == LossReduction::kMean
                                ? fmt::format("{}.sum / {}", total,
                                              literal(static_cast<double>(rows_.rows()), loss.type))
                                : total + ".sum",
                    .type = loss.type};
    emitter_.store(output, {.name = "0"}, sum);
    body_ += emitter_.take_row_code();
    scratch_users_.push_back(
        fmt::format("sizeof({}) * {}", type, std::max(1U, schedule_.threads / 32)));
    const std::string memory = emitter_.fresh("w");
    const bool one_of_many = schedule_.splits > 1;
    const std::uint64_t blocks = blocks_across() * schedule_.splits;
    body_ += fmt::format("  {} {};\n  if (t == 0 && active{}) {{\n{}  }}\n", type, total,
                         one_of_many ? " && split == 0" : "", piece.text("    "));
    body_ += fmt::format(
        "  merge_block<{0}>({1}, scratch);\n"
        "  {2}* const {3} = reinterpret_cast<{2}*>(partials + {4});\n"
        "  if (threadIdx.x == 0) {3}[blockIdx.x] = {1};\n"
        "  if (last_of(gates + {5}, {6})) {{\n    {1}.reset();\n"
        "    for (u32 i = threadIdx.x; i < {6}; i += {0}) {1}.merge({3}[i]);\n"
        "    merge_block<{0}>({1}, scratch);\n    if (threadIdx.x == 0) {{\n{7}    }}\n  }}\n",
        schedule_.threads, total, type, memory, partial_bytes_, 1, blocks, final.text("      "));
    partial_bytes_ += ceil_div(blocks * sizeof(double), 256) * 256;
  }
}

std::string RowWriter::scratch_declaration() const {
  if (scratch_users_.empty()) return {};
  return fmt::format("  __shared__ alignas(16) u8 scratch[most_of({{{}}})];\n",
                     fmt::join(scratch_users_, ", "));
}

GeneratedKernel RowWriter::write() {
  const bool columns = schedule_.columns;
  emitter_.set_row({.name = "q", .spread = columns ? Spread::kUnit : Spread::kUniform},
                   columns ? schedule_.width : 1, columns ? "j" : "0");
  for (unsigned phase = 0; phase <= last_; ++phase) write_phase(static_cast<std::uint8_t>(phase));
  write_row_results();
  write_losses();

  const std::uint64_t blocks = blocks_across() * schedule_.splits;
  const std::uint64_t gate_bytes = ceil_div((blocks_across() + 2) * 4, 256) * 256;
  GeneratedKernel result;
  std::string parameters = emitter_.parameters();
  if (partial_bytes_ > 0) {
    result.workspace_bytes = gate_bytes + partial_bytes_;
    parameters += ", u32* gates";
  }
  std::string& text = result.source.text;
  text = preamble(emitter_.graph(), space_);
  text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) fused({}) {{\n",
                      schedule_.threads, waits_ ? ", 2" : "", parameters);
  if (partial_bytes_ > 0) {
    text += fmt::format("  u8* const partials = reinterpret_cast<u8*>(gates) + {};\n", gate_bytes);
  }
  text += scratch_declaration() + prologue() + held_declarations() + state_declarations_ + body_;
  text += "}\n";
  result.source.entries = {"fused"};
  result.storages = emitter_.storages();
  result.threads = schedule_.threads;
  result.blocks = blocks;
  result.cooperative = waits_;
  if (schedule_.keep == RowSchedule::Keep::kShared) {
    for (const TensorId id : held_) {
      const Held& held = emitter_.held()[id];
      result.shared_bytes += static_cast<std::uint32_t>(
          ceil_div(std::uint64_t{schedule_.looks} * schedule_.threads * schedule_.width *
                       (held.computed ? sizeof(float)
                                      : bytes_of(emitter_.graph().tensors[id].type.dtype, 1)),
                   16) *
          16);
    }
  }
  bool needs_again = false;
  for (const Phases::Use& use : emitter_.phases().reads) needs_again = needs_again || use.looks > 1;
  if (needs_again && schedule_.keep == RowSchedule::Keep::kNothing) {
    result.gaps.fewer_reads =
        "rows too long for the chip are partly still in the L2 when they are read again";
  }
  if (partial_bytes_ > 0) {
    result.gaps.more_reads = result.gaps.more_writes =
        "blocks that share rows leave partial results for each other in memory";
  }
  result.schedule = describe(schedule_);
  return result;
}

}  // namespace

GeneratedKernel generate_rows(Emitter& emitter, PhaseFinder& finder, bool rows_fit,
                              const Target& target) {
  return RowWriter(emitter, finder, rows_fit, target).write();
}

}  // namespace fusecalc
