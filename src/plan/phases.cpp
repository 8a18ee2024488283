#include "plan/phases.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/checked.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kSectorBytes = 32;

// Numbers of parts (TakenPart): of what views show, of what one operand takes, and of places that
// OperandPlaces numbers.
constexpr std::uint64_t kOfWindows = 0;
constexpr std::uint64_t kOfEdges = std::uint64_t{1} << 32U;
constexpr std::uint64_t kOfPlaces = std::uint64_t{2} << 32U;

std::uint64_t bit(std::uint64_t phase) { return std::uint64_t{1} << phase; }

// Elements of one value that a thread block must hold to hold a row: the row itself, or, where
// rows run across memory, the narrowest block of columns that wastes no memory sector.
std::uint64_t block_elements(const RowLayout& rows, DType dtype) {
  const std::uint64_t length = rows.row_length();
  if (rows.reduces_innermost() || rows.empty()) return length;
  // Counted in pairs, because a packed element is half a byte.
  const std::uint64_t in_sector = 2 * kSectorBytes / bytes_of(dtype, 2);
  std::uint64_t elements = length;
  const std::uint64_t columns = std::min(rows.axes.back().extent, in_sector);
  return checked_multiply(elements, columns) ? elements : kMaxCount;
}

std::uint64_t block_bytes(const RowLayout& rows, DType dtype) {
  return checked_bytes_of(dtype, block_elements(rows, dtype)).value_or(kMaxCount);
}

}  // namespace

PhaseFinder::PhaseFinder(const OpGraph& graph)
    : graph_(graph),
      outline_(graph.outline),
      places_(graph.ops.size()),
      slots_(graph.tensors.size()),
      window_slots_(graph.tensors.size()),
      operand_places_(graph),
      taken_slots_(graph.tensors.size()) {}

ResolvedKernel PhaseFinder::resolve(const Kernel& kernel) {
  if (kernel != kernel_) resolve_operands(kernel);
  return {*this, current_};
}

void PhaseFinder::resolve_operands(const Kernel& kernel) {
  kernel_ = kernel;
  known_ = false;
  ++current_;
  first_edge_.resize(kernel.size() + 1);
  first_made_.resize(kernel.size() + 1);
  std::uint32_t edges = 0;
  std::uint32_t made = 0;
  for (std::uint32_t i = 0; i < kernel.size(); ++i) {
    const std::span<const Outline::Input> inputs = outline_.inputs_of(kernel[i]);
    const std::span<const Outline::Result> results = outline_.results_of(kernel[i]);
    places_[kernel[i]] = {.stamp = current_, .index = i};
    first_edge_[i] = edges;
    first_made_[i] = made;
    edges += static_cast<std::uint32_t>(inputs.size());
    made += static_cast<std::uint32_t>(results.size());
  }
  first_edge_[kernel.size()] = edges;
  first_made_[kernel.size()] = made;
  made_.assign(made, {});
  phases_.reads.clear();
  windows_.clear();
  taken_count_ = 0;
  edges_.resize(std::max<std::size_t>(edges_.size(), edges));
  fetch_operands(kernel);
  Edge* edge = edges_.data();
  for (std::uint32_t i = 0; i < kernel.size(); ++i) {
    for (const Outline::Input& input : outline_.inputs_of(kernel[i])) *edge++ = edge_of(input, i);
  }
}

// Those of a large graph come from memory: for all ops at a time, rather than one by one.
void PhaseFinder::fetch_operands(const Kernel& kernel) const {
  for (const OpId op : kernel) {
    __builtin_prefetch(outline_.results_of(op).data());
    for (const Outline::Input& input : outline_.inputs_of(op)) __builtin_prefetch(&input);
  }
  for (const OpId op : kernel) {
    for (const Outline::Input& input : outline_.inputs_of(op)) {
      __builtin_prefetch(slots_.data() + input.storage);
      if (input.producer != kNone) __builtin_prefetch(places_.data() + input.producer);
    }
  }
}

PhaseFinder::Edge PhaseFinder::edge_of(const Outline::Input& input, std::uint32_t reader) {
  if (input.producer == kNone || !contains(input.producer)) {
    Slot& read = slots_[input.storage];
    if (read.stamp != current_) {
      read = {.stamp = current_, .index = static_cast<std::uint32_t>(phases_.reads.size())};
      phases_.reads.push_back({.value = input.value, .dtype = input.dtype, .size = input.elements});
    }
    return {.input = &input, .value = read.index};
  }
  const std::uint32_t maker = places_[input.producer].index;
  const std::uint32_t value = made_by(maker, input.value);
  Made& made = made_[value];
  if (made.last_reader != reader) ++made.readers;
  made.last_reader = reader;
  return {.input = &input, .maker = maker, .value = value};
}

// The place in made_ of a result of the op at this place.
std::uint32_t PhaseFinder::made_by(std::size_t place, TensorId value) const {
  std::uint32_t made = first_made_[place];
  if (first_made_[place + 1] - made == 1) return made;
  for (const Outline::Result& result : outline_.results_of(kernel_[place])) {
    if (result.tensor == value) break;
    ++made;
  }
  return made;
}

bool PhaseFinder::feeds_inside(std::size_t place) const {
  return std::any_of(made_.begin() + first_made_[place], made_.begin() + first_made_[place + 1],
                     [](const Made& made) { return made.readers > 0; });
}

const Phases& PhaseFinder::phases() {
  if (known_) return phases_;
  const Kernel& kernel = kernel_;
  known_ = true;
  phases_.rows.axes.clear();
  phases_.mixed_rows = phases_.crossed = phases_.contracts = phases_.never_fits = false;
  phases_.held_bytes = 0;
  read_phases_.assign(phases_.reads.size(), 0);
  run_forward(kernel);
  run_backward(kernel);
  for (std::size_t i = 0; i < phases_.reads.size(); ++i) {
    phases_.reads[i].passes =
        static_cast<std::uint32_t>(std::max(1, std::popcount(read_phases_[i])));
  }
  if (!phases_.rows.empty() && !phases_.contracts) find_held(kernel);
  return phases_;
}

void PhaseFinder::run_forward(const Kernel& kernel) {
  phases_.runs_in.assign(kernel.size(), 0);
  phases_.ready_in.assign(kernel.size(), 0);
  phases_.begins_in.assign(kernel.size(), 0);
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Outline::OpFacts& facts = outline_[kernel[i]];
    std::uint8_t phase = 0;
    for (const Edge& edge : edges_of(i)) {
      if (edge.inside()) phase = std::max(phase, phases_.ready_in[edge.maker]);
    }
    phases_.runs_in[i] = phase;
    phases_.ready_in[i] = phase;
    if (facts.op_class == OpClass::kContract) phases_.contracts = true;
    // A reduction: its result is there only after its row was seen.
    if (!facts.reduces()) continue;
    phases_.ready_in[i] = std::min<std::uint8_t>(kLastPhase, phase + 1);
    // A loss that picks one score of each row works on what others reduced.
    const bool picks = facts.access == Access::kGather && phase > 0;
    if (picks) continue;
    add_reduction(kernel[i]);
    phases_.never_fits = phases_.never_fits || !facts.holds_rows;
  }
  space_ = phases_.rows.rows() * phases_.rows.row_length();
  if (phases_.crossed) find_columns(kernel);
}

void PhaseFinder::add_reduction(OpId id) {
  const RowLayout& rows = outline_.rows_of(id);
  if (phases_.rows.empty()) {
    phases_.rows = rows;
  } else if (phases_.crossed) {
    phases_.crossed = rows == phases_.rows || crosses(phases_.rows, rows);
  } else if (rows != phases_.rows) {
    phases_.crossed =
        !phases_.mixed_rows && (crosses(phases_.rows, rows) || crosses(rows, phases_.rows));
    if (phases_.crossed && rows.reduces_innermost()) phases_.rows = rows;
    phases_.mixed_rows = true;
  }
}

void PhaseFinder::find_columns(const Kernel& kernel) {
  phases_.columns.assign(kernel.size(), 0);
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    bool columns = outline_[kernel[i]].reduces() && outline_.rows_of(kernel[i]) != phases_.rows;
    for (const Edge& edge : edges_of(i)) {
      columns = columns || (edge.inside() && phases_.columns[edge.maker] != 0);
    }
    phases_.columns[i] = columns ? 1 : 0;
  }
}

bool PhaseFinder::needed_outside(std::size_t place, const Outline::Result& result) const {
  if (needed_) {
    if (const std::optional<bool> needed = needed_(result)) return *needed;
  }
  if (result.always_needed) return true;
  const Made& made = made_[made_by(place, result.tensor)];
  if (made.readers < result.readers) return true;
  // All that read it are inside: so is what overwrites a part of it.
  if (result.patched_by == kNone) return false;
  const std::span<const Outline::Result> patched = outline_.results_of(result.patched_by);
  return std::ranges::any_of(patched, [&](const Outline::Result& other) {
    return other.storage == result.storage && needed_outside(index_of(result.patched_by), other);
  });
}

bool PhaseFinder::needed_outside(TensorId output) const {
  const OpId maker = graph_.tensors[output].producer;
  const auto results = outline_.results_of(maker);
  return needed_outside(index_of(maker),
                        *std::ranges::find(results, output, &Outline::Result::tensor));
}

// Elements that ops of this kernel take from a result although its op may not write them: it
// overwrites a part of a tensor in place, and the rest was there before.
std::uint64_t PhaseFinder::kept_elements(const Outline::Result& result, std::uint64_t used_inside) {
  return result.storage == result.tensor ? 0 : std::min(used_inside, result.left_alone);
}

// The same of the results of the op at this place that lie in this memory.
std::uint64_t PhaseFinder::kept_elements(std::size_t place, TensorId storage) const {
  std::uint64_t kept = 0;
  std::uint32_t made = first_made_[place];
  for (const Outline::Result& result : outline_.results_of(kernel_[place])) {
    const std::uint64_t used_inside = demands_[made++].elements;
    if (result.storage == storage) kept = std::max(kept, kept_elements(result, used_inside));
  }
  return kept;
}

// What the op at this place is needed for: the sum of what its readers need of each result.
PhaseFinder::OpDemand PhaseFinder::demand_on(std::size_t place) {
  OpDemand demand;
  bool any = false;
  std::uint64_t earliest = 0;  // the first phase that needs a result that is not full-size
  const std::span<const Outline::Result> results = outline_.results_of(kernel_[place]);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Outline::Result& result = results[k];
    Demand& needed = demands_[first_made_[place] + k];
    if (needed.taken != kNone) needed.elements = elements_of(taken_[needed.taken]);
    if (needed.whole) needed.elements = result.elements;
    demand.keeps = demand.keeps || kept_elements(result, needed.elements) > 0;
    if (needed_outside(place, result)) {
      ++phases_.written[place];
      needed.phases |= bit(phases_.ready_in[place]);
      demand.elements = kMaxCount;
    }
    if (needed.phases == 0) continue;
    any = true;
    // All of a result needs all that its op reads, however small the result is.
    const bool all = needed.elements >= result.elements;
    demand.elements = std::max(demand.elements, all ? kMaxCount : needed.elements);
    if (is_full(result.elements)) {
      demand.phases |= needed.phases;
    } else {
      const std::uint64_t first = needed.phases & (~needed.phases + 1);
      earliest = earliest == 0 ? first : std::min(earliest, first);
    }
  }
  // A small result is computed along with a full-size one, and kept.
  const bool in_time = (demand.phases & (2 * earliest - 1)) != 0;
  if (demand.phases != 0 && !in_time) demand.phases |= earliest;
  // Results that nobody needs are computed all the same.
  if (!any) demand.elements = kMaxCount;
  return demand;
}

void PhaseFinder::run_backward(const Kernel& kernel) {
  demands_.assign(made_.size(), {});
  phases_.written.assign(kernel.size(), 0);
  phases_.computed.assign(kernel.size(), 1);
  phases_.needed.assign(kernel.size(), kMaxCount);
  for (std::size_t i = kernel.size(); i-- > 0;) {
    const Outline::OpFacts& facts = outline_[kernel[i]];
    const OpDemand demand = demand_on(i);
    // Full-size values are recomputed in each phase that needs them; results of rows are kept.
    std::uint64_t needed = bit(phases_.runs_in[i]);
    if (facts.moves() && demand.phases != 0) needed = demand.phases;
    if (facts.moves()) phases_.needed[i] = demand.elements;
    const bool twice = facts.reduces() && facts.passes > 1;
    const std::uint64_t after_rows = demand.phases | bit(phases_.ready_in[i]);
    phases_.computed[i] =
        static_cast<std::uint8_t>(std::popcount(needed | (twice ? after_rows : 0)));
    const std::span<const Edge> edges = edges_of(i);
    for (const Edge& edge : edges) {
      const Outline::Input& input = *edge.input;
      std::uint64_t phases = needed;
      // The rows are read before and after they are reduced, their weights only after.
      const bool row = &edge - edges.data() < facts.row_inputs;
      if (twice) phases = (row ? needed : 0) | after_rows;
      if (edge.inside()) {
        demands_[edge.value].phases |= phases;
      } else {
        read_phases_[edge.value] |= reads_full(input) ? phases : 1;
      }
      take(i, edge, demand);
    }
  }
  for (std::size_t i = 0; i < taken_count_; ++i) {
    if (taken_[i].read == kNone) continue;
    Phases::Use& use = phases_.reads[taken_[i].read];
    const std::uint64_t room = use.size - use.elements;
    use.elements += std::min(room, elements_of(taken_[i]));
  }
}

// Whether an op computes each element from the one at the same place of the operand.
bool PhaseFinder::reads_in_step(std::size_t place, const Outline::Input& input) const {
  const Outline::OpFacts& facts = outline_[kernel_[place]];
  return facts.op_class == OpClass::kPointwise && facts.access == Access::kSame && !facts.opaque &&
         input.view == Access::kSame && input.elements == facts.work;
}

// What the op at this place takes of an operand.
void PhaseFinder::take(std::size_t place, const Edge& edge, const OpDemand& demand) {
  const Outline::Input& input = *edge.input;
  find_parts(place, edge, demand);
  if (parts_.elements(unions_) >= input.elements) {
    if (edge.inside()) {
      demands_[edge.value].whole = true;
    } else {
      phases_.reads[edge.value].elements = phases_.reads[edge.value].size;
    }
    return;
  }
  Taken& taken = taken_of(edge);
  parts_.for_each([&](const TakenPart& part) {
    if (part.elements == 0 || taken.parts.has(part)) return;
    taken.parts.add(part);
    taken.apart += std::min(taken.size - taken.apart, added_apart(input, part.elements));
  });
  if (parts_.overlap() || operand_places_.of(input.value)) taken.parts.set_overlap();
}

// The same, in parts_.
void PhaseFinder::find_parts(std::size_t place, const Edge& edge, const OpDemand& demand) {
  const Outline::OpFacts& facts = outline_[kernel_[place]];
  const Outline::Input& input = *edge.input;
  std::uint64_t touched = input.touched;
  parts_.clear();
  // Windows overlap and leave gaps: for a part of the result all counts that they touch.
  if (facts.moves() && facts.access != Access::kWindow && !demand.all()) {
    touched = std::min(touched, demand.elements);
    const bool known = find_images(place, edge);
    const std::uint64_t together = parts_.elements(unions_);
    const bool part = together < input.touched && (known || together <= touched);
    if (part && !demand.keeps) return;
    parts_.clear();
  }
  if (demand.keeps) touched = std::max(touched, kept_elements(place, input.storage));
  parts_.add(touched == input.touched ? own_part(edge) : unknown_part(edge, touched));
}

// For what is needed of its results; returns whether all places are known.
bool PhaseFinder::find_images(std::size_t place, const Edge& edge) {
  const Outline::Input& input = *edge.input;
  const bool in_step = reads_in_step(place, input);
  std::uint64_t unknown = 0;  // elements
  const auto add = [&](const TakenPart& part) {
    if (!parts_.has(part)) parts_.add(part);
  };
  for (std::uint32_t made = first_made_[place]; made < first_made_[place + 1]; ++made) {
    if (demands_[made].taken == kNone) continue;
    taken_[demands_[made].taken].parts.for_each([&](const TakenPart& part) {
      if (part.grid == nullptr && in_step) return add(part);
      const OperandPlaces::Image image =
          part.grid == nullptr ? OperandPlaces::Image{}
                               : operand_places_.image(kernel_[place], input, part.grid);
      if (!image.known) unknown = std::min(unknown + part.elements, input.touched);
      if (image.part != nullptr) add({.grid = image.part, .elements = image.part->elements()});
    });
  }
  if (unknown > 0) parts_.add(unknown_part(edge, unknown));
  parts_.set_overlap();
  return parts_.others().empty();
}

// What an op takes of an operand for all of its results.
TakenPart PhaseFinder::own_part(const Edge& edge) const {
  const Outline::Input& input = *edge.input;
  TakenPart part = unknown_part(edge, input.touched);
  if (const GridPart* grid = operand_places_.part_of(input))
    return {.grid = grid, .elements = input.touched};
  if (const std::uint32_t places = operand_places_.places_of(input); places != kNone) {
    part.number = kOfPlaces + places;
  } else if (input.window != input.value && input.touched == graph_.tensors[input.window].shown) {
    part.number = kOfWindows + input.window;
  }
  return part;
}

// Of which no other part is known to have elements.
TakenPart PhaseFinder::unknown_part(const Edge& edge, std::uint64_t elements) const {
  const auto number = static_cast<std::uint64_t>(&edge - edges_.data());
  return {.number = kOfEdges + number, .elements = elements};
}

PhaseFinder::Taken& PhaseFinder::taken_of(const Edge& edge) {
  Slot& slot = taken_slots_[edge.input->value];
  if (slot.stamp == current_) return taken_[slot.index];
  slot = {.stamp = current_, .index = static_cast<std::uint32_t>(taken_count_++)};
  if (taken_.size() < taken_count_) taken_.emplace_back();
  if (edge.inside()) demands_[edge.value].taken = slot.index;
  Taken& taken = taken_[slot.index];
  taken.read = edge.inside() ? kNone : edge.value;
  taken.size = edge.input->elements;
  taken.apart = 0;
  taken.parts.clear();
  return taken;
}

std::uint64_t PhaseFinder::elements_of(const Taken& taken) {
  return std::min(taken.apart, taken.parts.elements(unions_));
}

PhaseFinder::Window& PhaseFinder::window_of(TensorId window) {
  Slot& slot = window_slots_[window];
  if (slot.stamp != current_) {
    slot = {.stamp = current_, .index = static_cast<std::uint32_t>(windows_.size())};
    windows_.push_back({.dtype = graph_.tensors[window].type.dtype, .read_in = {}});
  }
  return windows_[slot.index];
}

// How many elements are touched for the first time by a reader that touches so many, as if no parts
// of a value overlapped: what several readers take of one window, and of windows that are parts of
// it, adds up to the window at most.
std::uint64_t PhaseFinder::added_apart(const Outline::Input& input, std::uint64_t touched) {
  if (input.window == input.value) return touched;
  for (TensorId id = outline_.counted(input.window); id != kNone; id = outline_.outer(id)) {
    Window& window = window_of(id);
    touched = std::min(touched, graph_.tensors[id].shown - window.touched);
    window.touched += touched;
  }
  return touched;
}

// What Phases::begins_in is of an op whose readers have theirs.
std::uint8_t PhaseFinder::first_phase(std::size_t place) const {
  const std::uint8_t runs_in = phases_.runs_in[place];
  if (!outline_[kernel_[place]].moves()) return runs_in;
  std::uint8_t first = std::numeric_limits<std::uint8_t>::max();
  std::uint32_t made = first_made_[place];
  for (const Outline::Result& result : outline_.results_of(kernel_[place])) {
    if (needed_outside(place, result)) return runs_in;
    first = std::min(first, needed_from_[made++]);
  }
  return first == std::numeric_limits<std::uint8_t>::max() ? runs_in : std::max(runs_in, first);
}

// Full-size values only: those must be held from one pass to the next.
void PhaseFinder::find_read_ranges(const Kernel& kernel) {
  read_ranges_.assign(phases_.reads.size(), {});
  made_ranges_.assign(made_.size(), {});
  needed_from_.assign(made_.size(), std::numeric_limits<std::uint8_t>::max());
  // Readers come before what they read.
  for (std::size_t i = kernel.size(); i-- > 0;) {
    const Outline::OpFacts& facts = outline_[kernel[i]];
    const bool twice = facts.reduces() && facts.passes > 1;
    const std::uint8_t begins = first_phase(i);
    phases_.begins_in[i] = begins;
    const std::uint8_t last = twice ? phases_.ready_in[i] : begins;
    const std::span<const Edge> edges = edges_of(i);
    for (const Edge& edge : edges) {
      const bool weight = twice && &edge - edges.data() >= facts.row_inputs;
      const std::uint8_t first = weight ? last : begins;
      if (edge.inside()) needed_from_[edge.value] = std::min(needed_from_[edge.value], first);
      if (!reads_full(*edge.input)) continue;
      const bool other_version =
          !edge.inside() && edge.input->value != phases_.reads[edge.value].value;
      if (other_version) continue;
      PhaseRange& range = edge.input->window != edge.input->value
                              ? window_of(edge.input->window).read_in
                          : edge.inside() ? made_ranges_[edge.value]
                                          : read_ranges_[edge.value];
      range.first = std::min(range.first, first);
      range.last = std::max(range.last, last);
    }
  }
}

void PhaseFinder::find_held(const Kernel& kernel) {
  std::uint8_t last = 0;
  for (const std::uint8_t phase : phases_.ready_in) last = std::max(last, phase);
  if (last == 0) return;
  find_read_ranges(kernel);
  // Bytes held from each phase to the next.
  std::array<std::uint64_t, kLastPhase + 1> held{};
  DType last_dtype = DType::kF32;  // most values are of one type
  std::uint64_t bytes = block_bytes(phases_.rows, last_dtype);
  const auto hold = [&](DType dtype, std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    if (dtype != last_dtype) bytes = block_bytes(phases_.rows, last_dtype = dtype);
    for (std::uint64_t phase = from; phase < to; ++phase) {
      if (!checked_add(held[phase], bytes)) held[phase] = kMaxCount;
    }
  };
  for (std::size_t i = 0; i < phases_.reads.size(); ++i) {
    hold(phases_.reads[i].dtype, read_ranges_[i].first, read_ranges_[i].last);
  }
  for (const Window& window : windows_) {
    hold(window.dtype, window.read_in.first, window.read_in.last);
  }
  // Kernels of rows and columns compute again what they make, from what they have read.
  for (std::size_t i = 0; i < kernel.size() && !phases_.crossed; ++i) {
    std::uint32_t made = first_made_[i];
    for (const Outline::Result& result : outline_.results_of(kernel[i])) {
      const PhaseRange& range = made_ranges_[made++];
      // What can be computed in any phase is first computed where it is first read or written.
      const bool waits = outline_[kernel[i]].moves() && !needed_outside(i, result);
      hold(result.dtype, waits ? range.first : phases_.ready_in[i], range.last);
    }
  }
  phases_.held_bytes = *std::ranges::max_element(held);
}

}  // namespace fusecalc
