// Kernels with reductions: teams of threads pass over rows, once for every phase.
//
// Traffic: a row that is needed again stays on chip where the schedule found room for it; else each
// phase reads it from memory again. States are exchanged between threads through shuffles and
// shared memory, and between blocks through the workspace, which is small compared to the rows.

#include "codegen/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/kernel_facts.hpp"
#include "codegen/row_holding.hpp"
#include "codegen/row_results.hpp"
#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

// Upper bounds of the bytes of an accumulator of rows.cuh, by the width of its type.
constexpr std::uint64_t kStateBytes = 28;
constexpr std::uint64_t kWideStateBytes = 56;
constexpr std::uint64_t kSharedAlignment = 16;

}  // namespace

RowWriter::RowWriter(const KernelView& kernel, bool rows_fit, const Device& device)
    : kernel_(kernel),
      code_(kernel),
      rows_(kernel.phases().rows),
      walked_(rows_),
      space_(rows_.rows() * rows_.row_length()),
      roots_(find_roots(kernel, space_)) {
  for (const OpId id : kernel_.ops()) last_ = std::max(last_, kernel_.ready_in(id));
  plan(rows_fit, device);
  find_passes(device);
}

bool RowWriter::works_in(std::uint8_t phase) const {
  for (const OpId id : kernel_.ops()) {
    if (kernel_.takes_rows(id) && kernel_.runs_in(id) == phase) return true;
  }
  const auto stored_here = [&](TensorId tensor) { return kernel_.stored_in(tensor) == phase; };
  return (phase == 0 && !roots_.small.empty()) || std::ranges::any_of(roots_.full, stored_here);
}

bool RowWriter::loops_after(std::uint8_t phase) const {
  for (unsigned later = phase + 1U; later <= last_; ++later) {
    if (works_in(static_cast<std::uint8_t>(later))) return true;
  }
  return false;
}

void RowWriter::plan(bool rows_fit, const Device& device) {
  state_bytes_ = kStateBytes;
  std::uint64_t line_state_bytes = 0;
  bool moments = false;
  bool places = false;
  for (const OpId id : kernel_.ops()) {
    if (!kernel_.takes_rows(id)) continue;
    const ComputeType type = accumulator_type(kernel_, kernel_.op(id));
    if (type == ComputeType::kF64 || type == ComputeType::kI64) state_bytes_ = kWideStateBytes;
    line_state_bytes += state_bytes(kernel_, kernel_.op(id));
    moments = moments || kernel_.op(id).row->accumulator == Accumulator::kMoments;
    places = places || finds_place(kernel_.op(id));
  }
  std::vector<Held> held = find_held(kernel_, space_, last_);
  const bool once = held.empty() && !loops_after(0);
  if (once) held = find_read(kernel_, space_);
  // There is room for one window a thread beside the states of rows.
  windows_ = has_windows(kernel_);
  RowWork work{.rows = rows_,
               .widest_bytes = windows_ ? 16 : 16 / group_width(kernel_, roots_, space_),
               .holds = rows_fit && !held.empty() && !once,
               .read_once = once && !held.empty(),
               .state_bytes = state_bytes_,
               .waits = loops_after(0) || !roots_.losses.empty(),
               .writes = !roots_.full.empty(),
               .adds_up = !roots_.losses.empty(),
               .moments = moments,
               .places = places,
               .shifts = may_shift(),
               .lines = lines_as_one(),
               .line_state_bytes = line_state_bytes,
               .run_bytes = run_bytes()};
  work.plain = true;
  std::vector<std::uint64_t> in_registers;  // of each place
  for (const auto& [id, place] : held) {
    work.least_bytes = std::min(work.least_bytes, stored_bytes(kernel_, id));
    if (place < in_registers.size()) {
      in_registers[place] = std::max(in_registers[place], register_bytes(kernel_, id));
      continue;
    }
    in_registers.push_back(register_bytes(kernel_, id));
    work.stored_bytes += stored_bytes(kernel_, id);
    work.plain = work.plain && !kernel_.makes(id) && kernel_.tensor(id).value == id;
  }
  work.held_bytes = std::accumulate(in_registers.begin(), in_registers.end(), std::uint64_t{0});
  schedule_ = schedule_rows(work, device);
  if (schedule_.lines > 0) {
    walked_.axes[0].extent /= schedule_.lines;
    walked_.axes[1].extent *= schedule_.lines;
  }
  if (!schedule_.holds()) return;
  for (const auto& [id, place] : held) {
    const ComputeType type = compute_type(kernel_.tensor(id).type.dtype);
    const bool computed = kernel_.makes(id) && type == ComputeType::kF32;
    held_.push_back({.tensor = id,
                     .name = fmt::format("h{}", id),
                     .place = place,
                     .computed = computed && !schedule_.as_stored,
                     .copied = schedule_.copies && !kernel_.makes(id)});
  }
}

void RowWriter::find_passes(const Device& device) {
  const std::optional<LoopSpace> space = LoopSpace::of_rows(rows_);
  if (!space || schedule_.columns || schedule_.splits > 1) return;
  passes_ = passes_side_by_side(kernel_, device, *space);
  if (passes_ && passes_->pass / rows_.row_length() % schedule_.teams() != 0) passes_.reset();
}

// Movement tells its parts apart by whole groups, and packed types have no single elements.
bool RowWriter::rows_follow() const {
  if (windows_ || !rows_.whole_rows()) return false;
  const auto follows = [&](TensorId id) {
    const Tensor& tensor = kernel_.tensor(id);
    return tensor.elements != space_ ||
           (tensor.window == tensor.value && !is_packed(tensor.type.dtype));
  };
  return std::ranges::all_of(kernel_.ops(), [&](OpId id) {
    const Op& op = kernel_.op(id);
    return op.op_class != OpClass::kMovement && std::ranges::all_of(op.outputs, follows) &&
           std::ranges::all_of(op.operands, [&](const Operand& operand) {
             return operand.tensor == kNone || follows(operand.tensor);
           });
  });
}

// Reductions down the columns of a matrix, and nothing else. Where several lines are one, operands
// are as large as the matrix or single, and no places are found: none asks where in a line an
// element is.
unsigned RowWriter::lines_as_one() const {
  if (windows_ || rows_.axes.size() != 2 || !rows_.axes[0].reduced || rows_.axes[1].reduced) {
    return 0;
  }
  if (!roots_.full.empty() || !roots_.small.empty() || !roots_.losses.empty()) return 0;
  const std::uint64_t group = group_width(kernel_, roots_, space_);
  const std::uint64_t lines = group / std::gcd(rows_.rows(), group);
  const auto fits = [&](const Operand& operand) {
    if (operand.tensor == kNone) return true;
    const Tensor& tensor = kernel_.tensor(operand.tensor);
    if (is_packed(tensor.type.dtype)) return false;
    return lines == 1 || tensor.elements == 1 ||
           (tensor.elements == space_ && tensor.window == tensor.value);
  };
  const bool all_fit = std::ranges::all_of(kernel_.ops(), [&](OpId id) {
    const Op& op = kernel_.op(id);
    if (kernel_.ready_in(id) > 0 && !kernel_.takes_rows(id)) return true;
    if (kernel_.takes_rows(id) && finds_place(op) && lines > 1) return false;
    return (op.op_class == OpClass::kPointwise || kernel_.takes_rows(id)) &&
           std::ranges::all_of(op.operands, fits);
  });
  return all_fit && !loops_after(0) ? static_cast<unsigned>(lines) : 0;
}

// Groups of a weight that begin anywhere take more than two elements at a time.
bool RowWriter::may_shift() const {
  if (!rows_follow()) return false;
  if (rows_.row_length() % 2 != 0 || rows_.rows() == 1) return true;
  return std::ranges::none_of(kernel_.ops(), [&](OpId id) {
    return std::ranges::any_of(kernel_.op(id).operands, [&](const Operand& operand) {
      return operand.tensor != kNone &&
             kernel_.tensor(operand.tensor).elements == rows_.row_length();
    });
  });
}

Index RowWriter::row_index() const {
  return {.name = "q", .pattern = schedule_.columns ? LanePattern::kUnit : LanePattern::kUniform};
}

Loop RowWriter::loop(const Index& element) const {
  return {.element = element,
          .row = {.index = row_index(), .width = lanes()},
          .held = held_,
          .picked = picked_};
}

IndexTransform RowWriter::row_map(bool reduced) const {
  IndexTransform map;
  std::uint64_t stride = layout().rows() * layout().row_length();
  for (const RowLayout::MergedAxis& axis : layout().axes) {
    stride /= axis.extent;
    if (axis.reduced == reduced) map.append(axis.extent, stride);
  }
  return map;
}

std::uint64_t RowWriter::blocks_across() const {
  const std::uint64_t units = schedule_.columns ? walked_.rows() / schedule_.width : rows_.rows();
  return ceil_div(units, schedule_.teams());
}

std::uint64_t RowWriter::blocks() const {
  return schedule_.stays > 0 ? schedule_.stays : blocks_across() * schedule_.splits;
}

// In code: which of the blocks that the rows need.
std::string_view RowWriter::block_number() const {
  return schedule_.stays > 0 || passes_ ? "block" : "blockIdx.x";
}

std::string RowWriter::prologue() const {
  const unsigned wide = schedule_.teams();
  const std::uint64_t units = schedule_.columns ? walked_.rows() / schedule_.width : rows_.rows();
  const std::string team = schedule_.columns ? fmt::format("threadIdx.x % {}", wide)
                                             : fmt::format("threadIdx.x / {}", schedule_.team);
  std::string block(block_number());
  if (schedule_.splits > 1) block += fmt::format(" / {}", schedule_.splits);
  const std::string unit = wide == 1 ? fmt::format("(idx)({})", block)
                                     : fmt::format("(idx)({}) * {} + {}", block, wide, team);
  std::string text;
  if (units % wide == 0) {
    text += fmt::format("  const bool active = true;\n  const idx unit = {};\n", unit);
  } else {
    // Threads beyond the last row read it, too, and store nothing.
    text += fmt::format(
        "  const idx own = {0};\n  const bool active = own < {1};\n"
        "  const idx unit = active ? own : {2};\n",
        unit, units, units - 1);
  }
  text += fmt::format("  const idx q = unit * {};\n", schedule_.columns ? schedule_.width : 1);
  if (schedule_.shifted) {
    text += fmt::format("  const idx head = ({0} - q * {1} % {0}) % {0};\n", schedule_.width,
                        rows_.row_length());
  }
  if (schedule_.splits > 1) {
    const unsigned rounds = schedule_.lines > 0 ? 1 : schedule_.rounds;
    const std::uint64_t share =
        std::uint64_t{rounds} * schedule_.team * (schedule_.columns ? 1 : schedule_.width);
    text += fmt::format("  const u32 split = blockIdx.x % {};\n", schedule_.splits);
    text += fmt::format("  const idx first = (idx)split * {};\n", share);
  }
  return text;
}

// The size of a group of a held value.
std::uint64_t RowWriter::held_group_bytes(const HeldValue& held) const {
  return schedule_.width * (held.computed ? sizeof(float) : stored_bytes(kernel_, held.tensor));
}

std::string RowWriter::held_declarations() const {
  std::string text;
  if (schedule_.in_shared > 0) text += "  extern __shared__ uint4 on_chip[];\n";
  for (const HeldValue& held : held_) {
    const DType dtype = kernel_.tensor(held.tensor).type.dtype;
    const std::string_view kept = held.computed ? "f32" : stored_type(dtype);
    const std::string type = fmt::format("Pack<{}, {}>", kept, schedule_.width);
    if (schedule_.in_shared > 0) {
      text += fmt::format("  {0}* const {1} = reinterpret_cast<{0}*>((u8*)on_chip + {2});\n", type,
                          held.name, place_begin(held.place));
    }
    if (schedule_.in_registers > 0) {
      text += fmt::format("  {} {}_own[{}];\n", type, held.name, schedule_.in_registers);
    }
    if (schedule_.shifted) text += fmt::format("  Pack<{}, 1> {}_end;\n", kept, held.name);
  }
  return text;
}

// Where a place begins in shared memory.
std::uint64_t RowWriter::place_begin(std::size_t place) const {
  std::uint64_t bytes = 0;
  std::size_t next = 0;
  for (const HeldValue& held : held_) {
    if (held.place != next || next >= place) continue;
    bytes += std::uint64_t{schedule_.in_shared} * schedule_.threads * held_group_bytes(held);
    bytes = ceil_div(bytes, kSharedAlignment) * kSharedAlignment;
    ++next;
  }
  return bytes;
}

std::string RowWriter::scratch_declaration() const {
  if (scratch_users_.empty()) return {};
  return fmt::format("  __shared__ alignas(16) u8 scratch[most_of({{{}}})];\n",
                     fmt::join(scratch_users_, ", "));
}

// Blocks that stay resident continue with other rows.
std::string RowWriter::row_loop(const std::string& inside) const {
  const auto in_order = [&](std::string_view turn) {
    const std::uint64_t of_block = schedule_.teams() * rows_.row_length();
    const std::uint64_t of_pass = passes_->pass / of_block;
    return fmt::format("  const u32 block = {};\n", in_passes(turn, *passes_, of_pass, of_block));
  };
  if (schedule_.stays == 0) return passes_ ? in_order("blockIdx.x") + inside : inside;
  const std::string_view turn = passes_ ? "turn" : "block";
  std::string text = fmt::format("  for (u32 {0} = blockIdx.x; {0} < {1}; {0} += {2}) {{\n", turn,
                                 blocks_across(), schedule_.stays);
  if (passes_) text += "  " + in_order(turn);
  for (std::size_t begin = 0; begin < inside.size();) {
    const std::size_t end = inside.find('\n', begin) + 1;
    text += (inside[begin] == '#' ? "" : "  ") + inside.substr(begin, end - begin);
    begin = end;
  }
  return text + "  }\n";
}

std::string RowWriter::state_asserts() const {
  std::map<std::string, std::uint64_t> classes;
  for (const OpId id : kernel_.ops()) {
    if (!kernel_.takes_rows(id)) continue;
    const Op& op = kernel_.op(id);
    classes.emplace(accumulator_class(kernel_, op), state_bytes(kernel_, op));
  }
  std::string text;
  for (const auto& [name, bytes] : classes) {
    text += static_asserts(
        {{.name = fmt::format("sizeof({})", name), .value = bytes, .upper_bound = true}});
  }
  return text;
}

GeneratedKernel RowWriter::write() {
  const bool columns = schedule_.columns;
  for (unsigned phase = 0; phase <= last_; ++phase) write_phase(static_cast<std::uint8_t>(phase));
  write_row_results();
  write_losses();

  const std::uint64_t gate_bytes = ceil_div((blocks_across() + 2) * 4, 256) * 256;
  GeneratedKernel result;
  const std::string rows_text =
      row_loop(through_runs(prologue() + held_declarations() + state_declarations_ + body_));
  std::string parameters = code_.parameters().declarations();
  if (partial_bytes_ > 0) {
    result.workspace_bytes = gate_bytes + partial_bytes_;
    parameters += ", u32* gates";
  }
  // The compiler must limit registers so that enough blocks fit on a multiprocessor.
  const bool tight = schedule_.stays > 0 || schedule_.cluster || schedule_.in_registers > 0;
  const unsigned resident = schedule_.lines > 0 ? 1 : waits_ ? 2 : tight ? schedule_.resident : 0;
  std::string& text = result.source.text;
  text = preamble(kernel_.graph(), space_) + state_asserts();
  const std::string cluster =
      schedule_.cluster ? fmt::format(" __cluster_dims__({}, 1, 1)", schedule_.splits) : "";
  text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}){} fused({}) {{\n",
                      schedule_.threads, resident > 0 ? fmt::format(", {}", resident) : "", cluster,
                      parameters);
  if (partial_bytes_ > 0) {
    text += fmt::format("  u8* const partials = reinterpret_cast<u8*>(gates) + {};\n", gate_bytes);
  }
  text += scratch_declaration();
  text += fmt::format("  const u32 t = threadIdx.x {} {};\n", columns ? '/' : '%',
                      columns ? schedule_.teams() : schedule_.team);
  text += totals_ + rows_text;
  text += ending_ + "}\n";
  result.source.entries = {"fused"};
  result.storages = code_.parameters().storages();
  result.threads = schedule_.threads;
  result.blocks = blocks();
  result.cooperative = waits_;
  result.shared_bytes = static_cast<std::uint32_t>(place_begin(held_.size()));
  bool needs_again = false;
  for (const Phases::Use& use : kernel_.phases().reads) needs_again = needs_again || use.passes > 1;
  if (needs_again && !schedule_.holds()) {
    result.gaps.fewer_reads =
        "rows too long for the chip are partly still in the L2 when they are read again";
  }
  if (partial_bytes_ > 0) {
    result.gaps.more_reads = result.gaps.more_writes =
        "blocks that share rows exchange partial results through memory";
  }
  result.schedule = describe(schedule_);
  if (passes_) result.schedule += fmt::format(", {} passes side by side", passes_->passes);
  return result;
}

GeneratedKernel generate_rows(const KernelView& kernel, bool rows_fit, const Device& device) {
  return RowWriter(kernel, rows_fit, device).write();
}

}  // namespace fusecalc
