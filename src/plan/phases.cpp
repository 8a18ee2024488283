#include "plan/phases.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/checked.hpp"

namespace fusecalc {
namespace {

constexpr std::uint8_t kLastPhase = 62;  // phases are bits of a 64-bit set
constexpr std::uint64_t kSectorBytes = 32;

std::uint64_t bit(std::uint64_t phase) { return std::uint64_t{1} << phase; }

// A reduction whose result is there only after its row was seen.
bool ends_a_phase(const Op& op) { return !op.rows.empty(); }

// Elements of one value that a thread block must hold to hold a row: the row itself, or, where
// rows run across memory, the narrowest block of columns that wastes no memory sector.
std::uint64_t block_elements(const RowLayout& rows, DType dtype) {
  const std::uint64_t length = rows.row_length();
  if (rows.reduces_innermost() || rows.empty()) return length;
  const std::uint64_t in_sector = std::max<std::uint64_t>(1, kSectorBytes / bytes_of(dtype, 1));
  std::uint64_t elements = length;
  const std::uint64_t columns = std::min(rows.runs.back().extent, in_sector);
  return checked_multiply(elements, columns) ? elements : kMaxCount;
}

}  // namespace

PhaseFinder::PhaseFinder(const OpGraph& graph)
    : graph_(graph),
      stamp_(graph.ops.size(), 0),
      index_(graph.ops.size(), 0),
      slot_of_storage_(graph.tensors.size(), 0),
      slot_stamp_(graph.tensors.size(), 0) {}

const Phases& PhaseFinder::find(const Kernel& kernel) {
  if (kernel == kernel_) return phases_;
  kernel_ = kernel;
  ++current_;
  phases_.rows.runs.clear();
  phases_.mixed_rows = phases_.contracts = phases_.never_fits = false;
  phases_.reads.clear();
  read_phases_.clear();
  phases_.held_bytes = 0;
  for (std::uint32_t i = 0; i < kernel.size(); ++i) {
    stamp_[kernel[i]] = current_;
    index_[kernel[i]] = i;
  }
  run_forward(kernel);
  run_backward(kernel);
  for (std::size_t i = 0; i < phases_.reads.size(); ++i) {
    phases_.reads[i].looks =
        static_cast<std::uint32_t>(std::max(1, std::popcount(read_phases_[i])));
  }
  if (!phases_.rows.empty() && !phases_.contracts) find_held(kernel);
  return phases_;
}

void PhaseFinder::run_forward(const Kernel& kernel) {
  phases_.runs_in.assign(kernel.size(), 0);
  phases_.ready_in.assign(kernel.size(), 0);
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Op& op = graph_.ops[kernel[i]];
    std::uint8_t phase = 0;
    for (const Operand& operand : op.operands) {
      if (operand.tensor == kNone) continue;
      const OpId producer = graph_.value_of(operand.tensor).producer;
      if (producer != kNone && contains(producer)) {
        phase = std::max(phase, phases_.ready_in[index_of(producer)]);
      } else {
        list_read(graph_.tensors[operand.tensor].value);
      }
    }
    phases_.runs_in[i] = phase;
    phases_.ready_in[i] = phase;
    if (op.op_class == OpClass::kContract) phases_.contracts = true;
    if (!ends_a_phase(op)) continue;
    phases_.ready_in[i] = std::min<std::uint8_t>(kLastPhase, phase + 1);
    // A loss that picks one score of each row works on what others reduced.
    const bool picks = op.row->access == Access::kGather && phase > 0;
    if (picks) continue;
    if (phases_.rows.empty()) {
      phases_.rows = op.rows;
    } else if (phases_.rows != op.rows) {
      phases_.mixed_rows = true;
    }
    phases_.never_fits = phases_.never_fits || !op.row->holds_rows;
  }
  space_ = phases_.rows.rows() * phases_.rows.row_length();
}

bool PhaseFinder::needed_outside(TensorId output) const {
  const Tensor& tensor = graph_.tensors[output];
  if (tensor.output) return true;
  // What is written into a graph input's memory can be seen from outside.
  if (tensor.storage != output && graph_.tensors[tensor.storage].producer == kNone) return true;
  if (std::ranges::any_of(graph_.readers[output], [&](OpId reader) { return !contains(reader); })) {
    return true;
  }
  if (tensor.patched_by == kNone) return false;
  const std::vector<TensorId>& patched = graph_.ops[tensor.patched_by].outputs;
  return std::ranges::any_of(patched, [&](TensorId result) {
    return graph_.tensors[result].storage == tensor.storage && needed_outside(result);
  });
}

// Elements that ops of this kernel take from the op's first result although it does not write them:
// it overwrites a part of a tensor in place, and the rest was there before.
std::uint64_t PhaseFinder::kept_elements(const Op& op, std::uint64_t used_inside) const {
  if (graph_.tensors[op.outputs[0]].storage == op.outputs[0]) return 0;
  return used_inside - std::min(used_inside, op.writes[0]);
}

bool PhaseFinder::shares_memory(TensorId a, TensorId b) const {
  return graph_.storage_of(a) == graph_.storage_of(b);
}

bool PhaseFinder::is_full(TensorId value) const {
  return !phases_.rows.empty() && graph_.tensors[value].elements >= space_;
}

void PhaseFinder::run_backward(const Kernel& kernel) {
  needed_in_.assign(kernel.size(), 0);
  demanded_.assign(kernel.size(), 0);
  for (std::size_t i = kernel.size(); i-- > 0;) {
    const Op& op = graph_.ops[kernel[i]];
    const std::uint64_t elements = graph_.tensors[op.outputs[0]].elements;
    std::uint64_t demanded = demanded_[i];
    const std::uint64_t kept = kept_elements(op, demanded);
    for (const TensorId output : op.outputs) {
      if (!needed_outside(output)) continue;
      needed_in_[i] |= bit(phases_.ready_in[i]);
      demanded = elements;
    }
    // A result that nobody needs is computed all the same.
    if (needed_in_[i] == 0) demanded = elements;
    const bool moves = op.op_class == OpClass::kPointwise || op.op_class == OpClass::kMovement;
    std::uint64_t needed = bit(phases_.runs_in[i]);
    // Full-size values are computed anew in each phase that needs them; results of rows are kept.
    if (moves && is_full(op.outputs[0]) && needed_in_[i] != 0) needed = needed_in_[i];
    if (ends_a_phase(op) && op.passes > 1) needed |= needed_in_[i] | bit(phases_.ready_in[i]);
    for (const Operand& operand : op.operands) {
      if (operand.tensor == kNone) continue;
      const bool part = moves && demanded < elements;
      std::uint64_t touched = part ? std::min(operand.reads, demanded) : operand.reads;
      if (kept > 0 && shares_memory(operand.tensor, op.outputs[0])) {
        touched = std::max(touched, kept);
      }
      const Tensor& value = graph_.value_of(operand.tensor);
      if (value.producer == kNone || !contains(value.producer)) {
        add_read(operand, touched, needed);
        continue;
      }
      const std::size_t producer = index_of(value.producer);
      needed_in_[producer] |= needed;
      std::uint64_t& sum = demanded_[producer];
      sum =
          std::min(value.elements, sum > value.elements - touched ? value.elements : sum + touched);
    }
  }
}

void PhaseFinder::list_read(TensorId value) {
  const TensorId storage = graph_.tensors[value].storage;
  if (slot_stamp_[storage] == current_) return;
  slot_stamp_[storage] = current_;
  slot_of_storage_[storage] = static_cast<std::uint32_t>(phases_.reads.size());
  phases_.reads.push_back({.value = value});
  read_phases_.push_back(0);
}

void PhaseFinder::add_read(const Operand& operand, std::uint64_t touched, std::uint64_t needed_in) {
  const TensorId value = graph_.tensors[operand.tensor].value;
  const std::uint32_t slot = slot_of_storage_[graph_.tensors[value].storage];
  Phases::Use& use = phases_.reads[slot];
  const std::uint64_t all = graph_.tensors[use.value].elements;
  use.elements = touched > all - std::min(use.elements, all) ? all : use.elements + touched;
  read_phases_[slot] |= is_full(value) ? needed_in : 1;
}

// The last phase in which `reader` looks at its operands.
std::uint64_t PhaseFinder::last_phase_of_use(OpId reader, std::size_t index) const {
  const Op& op = graph_.ops[reader];
  return ends_a_phase(op) && op.passes > 1 ? phases_.ready_in[index] : phases_.runs_in[index];
}

void PhaseFinder::find_held(const Kernel& kernel) {
  std::uint8_t last = 0;
  for (const std::uint8_t phase : phases_.ready_in) last = std::max(last, phase);
  if (last == 0) return;
  // Bytes held from each phase to the next.
  std::array<std::uint64_t, kLastPhase + 1> held{};
  const auto hold = [&](TensorId value, std::uint64_t first, std::uint64_t final) {
    if (!is_full(value)) return;
    const DType dtype = graph_.tensors[value].type.dtype;
    const std::uint64_t bytes =
        checked_bytes_of(dtype, block_elements(phases_.rows, dtype)).value_or(kMaxCount);
    for (std::uint64_t phase = first; phase < final; ++phase) {
      if (!checked_add(held[phase], bytes)) held[phase] = kMaxCount;
    }
  };
  const auto uses = [&](std::span<const OpId> readers, std::uint64_t& first, std::uint64_t& final) {
    for (const OpId reader : readers) {
      if (!contains(reader)) continue;
      const std::size_t i = index_of(reader);
      first = std::min<std::uint64_t>(first, phases_.runs_in[i]);
      final = std::max(final, last_phase_of_use(reader, i));
    }
  };
  for (const Phases::Use& use : phases_.reads) {
    std::uint64_t first = kLastPhase;
    std::uint64_t final = 0;
    // A tensor with many readers: those inside are found from the kernel's side.
    const std::span<const OpId> readers = graph_.readers[use.value];
    if (readers.size() <= 4 * kernel.size()) {
      uses(readers, first, final);
    } else {
      for (std::size_t i = 0; i < kernel.size(); ++i) {
        for (const Operand& operand : graph_.ops[kernel[i]].operands) {
          if (operand.tensor == kNone || graph_.tensors[operand.tensor].value != use.value)
            continue;
          first = std::min<std::uint64_t>(first, phases_.runs_in[i]);
          final = std::max(final, last_phase_of_use(kernel[i], i));
        }
      }
    }
    hold(use.value, first, final);
  }
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    for (const TensorId output : graph_.ops[kernel[i]].outputs) {
      std::uint64_t first = phases_.ready_in[i];
      std::uint64_t final = first;
      std::uint64_t ignored = first;
      uses(graph_.readers[output], ignored, final);
      hold(output, first, final);
    }
  }
  phases_.held_bytes = *std::ranges::max_element(held);
}

}  // namespace fusecalc
