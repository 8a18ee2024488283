#include "predict/kernel_model.hpp"

#include <algorithm>
#include <cmath>

#include "core/ceil_div.hpp"
#include "graph/product_parts.hpp"
#include "plan/grouped_weights.hpp"
#include "plan/halves.hpp"
#include "plan/repeated_reads.hpp"
#include "plan/scattered_rows.hpp"
#include "plan/siblings.hpp"
#include "plan/step_scales.hpp"
#include "plan/tiling.hpp"
#include "plan/weight_lines.hpp"
#include "plan/whole_rows.hpp"
#include "predict/attention_model.hpp"
#include "predict/convolution_model.hpp"
#include "predict/fetched.hpp"
#include "predict/gathered_rows.hpp"
#include "predict/l2_model.hpp"
#include "predict/ordered_rows.hpp"
#include "predict/row_model.hpp"

namespace fusecalc {
namespace {

// Instructions of our kernels, as counted by their time where arithmetic binds.
constexpr double kAccess = 2.5;      // per operand and element: address, load or store
constexpr double kHalves = 1.3;      // times as many for types of two bytes, which are converted,
constexpr double kBytes = 1.6;       // and of one
constexpr double kScattered = 0.62;  // elements per multiprocessor and cycle, without neighbours

// Of kernels that were not measured.
constexpr double kUnknownBytesDoubt = 0.3;
constexpr double kUnknownTimeDoubt = 0.6;
constexpr double kUnequalGroupsDoubt = 0.4;  // of the time: their rows are not known
constexpr double kUnequalReadsDoubt = 0.25;

bool is_contraction(const Op& op) { return op.op_class == OpClass::kContract; }

}  // namespace

KernelModel::KernelModel(TrafficCounter& counter, const std::vector<CountedKernel>* lone_ops)
    : counter_(counter),
      graph_(counter.graph()),
      device_(counter.device()),
      constants_(device_.constants),
      products_(device_),
      lone_ops_(lone_ops) {}

const CountedKernel& KernelModel::count(const Kernel& kernel) {
  if (lone_ops_ != nullptr && kernel.size() == 1) return (*lone_ops_)[kernel.front()];
  counted_.traffic = counter_.count(kernel);
  counted_.work = work_of(kernel, counted_.traffic);
  return counted_;
}

KernelWork KernelModel::work_of(const Kernel& kernel, const KernelTraffic& traffic) {
  // Nothing is launched for results without elements.
  const bool empty = std::ranges::all_of(kernel, [&](OpId id) {
    return std::ranges::all_of(graph_.ops[id].outputs, [&](TensorId output) {
      return graph_.tensors[output].elements == 0;
    });
  });
  if (empty) return {};
  std::vector<OpId> products;
  for (const OpId id : kernel) {
    const Op& op = graph_.ops[id];
    if (op.row->family == OpFamily::kCustom || (!op.row->has_kernel && !is_contraction(op))) {
      return unknown_work(traffic);
    }
    if (is_contraction(op)) products.push_back(id);
  }
  if (products.empty()) return streaming_work(kernel, traffic);
  const Op& first = graph_.ops[products.front()];
  if (products.size() > 1) {
    const std::vector<Kernel> parts = sibling_parts(graph_, kernel);
    if (!parts.empty()) return siblings_work(parts, products, traffic);
  }
  const bool one =
      products.size() == 1 || (products.size() == 2 && halves_of(graph_, kernel, products[0]));
  if (one && (is_matrix_product(first.row->family) || groups_of(graph_, first) > 0)) {
    return product_work(kernel, products.front(), traffic);
  }
  if (products.size() == 1 && first.row->family == OpFamily::kConvolution) {
    return convolution_work(graph_, kernel, first, traffic,
                            instructions_of(kernel, products.front()), device_);
  }
  const bool attends = first.row->family == OpFamily::kAttention || products.size() == 2;
  if (attends && graph_.tensors[first.operands[0].tensor].type.shape.size() >= 2) {
    return attention_work(graph_, kernel, products, traffic, instructions_of(kernel, products[0]),
                          device_);
  }
  return unknown_work(traffic);
}

double KernelModel::instructions_of(const Kernel& kernel, OpId except) const {
  double sum = 0;
  for (const OpId id : kernel) {
    if (id == except) continue;
    const Op& op = graph_.ops[id];
    const unsigned counted = op.row->instructions > 0 ? op.row->instructions : op.row->flops;
    // The tanh form is half as long.
    const bool shorter = op.attributes->approximate == GeluKind::kTanh;
    const bool narrow = bytes_of(graph_.tensors[op.outputs[0]].type.dtype, 1) <= 2;
    // Epilogues were measured as what is counted.
    const bool shortened = except == kNone && narrow && op.row->narrow_instructions > 0;
    const double most = shortened ? op.row->narrow_instructions : counted;
    sum += std::max(1.0, std::min<double>(most, shorter ? counted / 2.0 : counted));
  }
  return sum;
}

double KernelModel::special_functions_of(const Kernel& kernel) const {
  double sum = 0;
  for (const OpId id : kernel) sum += graph_.ops[id].row->special_functions;
  return sum;
}

// Of those, what units for f64 compute. Functions take three times as many as of f32, as counted in
// compiled kernels: exp 18 for 5, log 30 for 8, sqrt 22 for 9, a quotient 22 for 8.
double KernelModel::f64_instructions_of(const Kernel& kernel) const {
  constexpr double kFunctions = 3;
  double sum = 0;
  for (const OpId id : kernel) {
    const Op& op = graph_.ops[id];
    if (graph_.tensors[op.outputs[0]].type.dtype != DType::kF64 || op.row->flops == 0) continue;
    sum += instructions_of({id}, kNone) * (op.row->instructions > 0 ? kFunctions : 1);
  }
  return sum;
}

KernelWork KernelModel::unknown_work(const KernelTraffic& traffic) const {
  KernelWork work{.dram_read = static_cast<double>(traffic.bytes.read),
                  .dram_write = static_cast<double>(traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value};
  constexpr double kUsualShare = 0.5;  // of the tensor cores' rate
  work.compute_us = tensor_us(device_, static_cast<double>(traffic.flops)) / kUsualShare;
  work.read_doubt = work.write_doubt = kUnknownBytesDoubt;
  work.time_doubt = kUnknownTimeDoubt;
  return work;
}

// Of all operands and results; raises `space` to the elements touched of the largest.
double KernelModel::access_instructions(const KernelTraffic& traffic, double& space) const {
  double accesses = 0;  // instructions
  for (const auto* entries : {&traffic.reads, &traffic.writes}) {
    for (const KernelTraffic::Entry& entry : *entries) {
      const Tensor& tensor = graph_.tensors[entry.tensor];
      const double touched = std::min(
          static_cast<double>(tensor.elements),
          static_cast<double>(entry.bytes) / static_cast<double>(bytes_of(tensor.type.dtype, 1)));
      space = std::max(space, touched);
      const std::uint64_t bytes = bytes_of(tensor.type.dtype, 1);
      const double convert = bytes < 2 ? kBytes : bytes < 4 ? kHalves : 1;
      accesses += kAccess * convert * touched;
    }
  }
  return accesses;
}

namespace {

// Cycles of one multiprocessor in which an op puts elements where indices say: the fewer the more
// bytes of a row an instruction takes (codegen/map.cpp, kernels/combine.cuh).
double update_cycles(const OpGraph& graph, const Op& op, const Device& device) {
  if (op.row->access != Access::kScatter) return 0;
  constexpr double kStores = 1.3;    // of less than 8 bytes, in a cycle
  constexpr double kSums = 1.5;      // of 4 bytes beside those of the next thread
  constexpr double kApart = 1;       // of 4 bytes of 8
  constexpr double kOther = 0.58;    // sums of 16 bytes, and of 2
  constexpr double kSwapped = 0.45;  // what takes turns
  const DType dtype = graph.tensors[op.operands[0].tensor].type.dtype;
  const std::uint64_t bytes = std::max<std::uint64_t>(1, bytes_of(dtype, 1));
  const std::uint64_t most = std::max<std::uint64_t>(1, 16 / bytes);
  const std::uint64_t group = bytes * updates_of_one_row(graph, op, most);
  const double elements = static_cast<double>(op.work);
  const double moved = elements * static_cast<double>(bytes);
  if (op.attributes->combine == Combine::kReplace) {
    return group < 8 ? moved / static_cast<double>(group) / kStores : 0;
  }
  const bool narrow = dtype == DType::kBf16 || dtype == DType::kF16;
  const bool adds =
      op.attributes->combine == Combine::kAdd &&
      (dtype == DType::kF32 || dtype == DType::kI32 || (narrow && device.capability >= kHopper));
  if (!adds) return elements / kSwapped;
  if (dtype != DType::kI32 && group == 16 && device.capability >= kHopper) {
    return moved / 16 / kOther;
  }
  if (group < 4) return elements / kOther;
  const bool rows = op.row->family == OpFamily::kScatter;
  return moved / 4 / (group == 4 && rows ? kSums : kApart);
}

}  // namespace

// Elements that an op moves one by one, away from their neighbours, or what takes as long. Most
// transpositions go through tiles on chip (codegen/transposed_tiles.cpp); of those, only rows that
// begin anywhere take longer than the memory does.
double KernelModel::scattered_elements(const Op& op) const {
  if (op.row->access != Access::kPermute || !op.source) return 0;
  const std::vector<StridedMap::Axis>& axes = op.source->axes;
  const auto across = std::ranges::find(axes, 1U, &StridedMap::Axis::stride);
  if (axes.empty() || across == axes.end() || across + 1 == axes.end()) return 0;
  const auto work = static_cast<double>(op.work);
  const std::uint64_t rows = across->extent;
  const std::uint64_t columns = axes.back().extent;
  constexpr std::uint64_t kTiled = 16;  // elements
  constexpr double kFew = 0.1;
  constexpr double kAnywhere = 0.0725;  // for each byte, of two to four
  const bool run = rows < kTiled ? axes.back().stride == rows : across + 2 == axes.end();
  if (rows < kTiled || columns < kTiled) return run ? kFew * work : work;
  const std::uint64_t bytes =
      std::max<std::uint64_t>(1, bytes_of(graph_.tensors[op.outputs[0]].type.dtype, 1));
  const bool whole = std::ranges::all_of(axes, [&](const StridedMap::Axis& axis) {
    return axis.stride == 1 || axis.stride * bytes % 16 == 0;
  });
  return whole && rows * bytes % 16 == 0 && columns * bytes % 16 == 0
             ? 0
             : kAnywhere * static_cast<double>(std::clamp<std::uint64_t>(bytes, 2, 4)) * work;
}

// Operands that are repeated along outer axes, but for those whose passes are side by side.
void KernelModel::add_reads_of_passes(const Kernel& kernel, const KernelTraffic& traffic,
                                      const RowLayout& rows, KernelWork& work) const {
  constexpr double kDoubt = 0.12;  // of what may be read again
  std::uint64_t written = 0;       // elements of the largest result
  for (const KernelTraffic::Entry& entry : traffic.writes) {
    written = std::max(written, graph_.tensors[entry.tensor].elements);
  }
  const std::optional<LoopSpace> space =
      rows.empty() ? LoopSpace::of_results(written) : LoopSpace::of_rows(rows);
  if (!space) return;
  const auto moved = static_cast<double>(traffic.bytes.total());
  const RepeatedReads repeated = repeated_reads(graph_, kernel, *space, moved, device_.l2_bytes);
  double again = 0;
  double most = 0;
  for (const RepeatedRead& read : repeated.reads) {
    RepeatedRead apart = read;
    const std::optional<RepeatedRead>& together = repeated.side_by_side;
    if (together && together->pass == read.pass) {
      apart.passes /= together->passes;
      apart.pass *= together->passes;
    }
    const double bytes = static_cast<double>(apart.outer * (apart.passes - 1)) * apart.bytes;
    const double lost = lost_by_stream(repeated.distance(apart, moved), device_.l2_bytes);
    again += bytes * lost;
    if (lost > 0 && lost < 1) most += bytes;
  }
  work.dram_read += again;
  work.read_doubt = std::max(work.read_doubt, kDoubt * most / std::max(1.0, work.dram_read));
}

KernelWork KernelModel::streaming_work(const Kernel& kernel, const KernelTraffic& traffic) {
  const Phases& phases = counter_.phases().resolve(kernel).phases();
  const L2Model l2 = streaming_l2(device_.l2_bytes);
  KernelWork work{.dram_write = static_cast<double>(traffic.bytes.write),
                  .fixed_us = constants_.launch_us.value,
                  .read_doubt = 0.01,
                  .write_doubt = 0.01,
                  .time_doubt = 0.12};
  double space = 1;
  const double accesses = access_instructions(traffic, space);
  // Later passes over rows find in the L2 what still is there.
  for (const KernelTraffic::Entry& entry : traffic.reads) {
    const auto bytes = static_cast<double>(entry.bytes);
    const double once = bytes / std::max<std::uint32_t>(1, entry.passes);
    const double again = (bytes - once) * l2.miss(once);
    work.dram_read += once + again + bytes_beside(graph_, kernel, entry, device_);
    work.l2_bytes += bytes - once - again;
  }
  add_reads_of_passes(kernel, traffic, phases.rows, work);
  double scattered = 0;
  double updated = 0;  // cycles of a multiprocessor
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const Op& op = graph_.ops[kernel[i]];
    space = std::max(space, static_cast<double>(std::min(op.work, phases.needed[i])));
    scattered = std::max(scattered, scattered_elements(op));
    updated = std::max(updated, update_cycles(graph_, op, device_));
    if (op.row->access == Access::kGather) add_repeated_rows(graph_, op, device_, work);
    if (op.row->access == Access::kScatter) add_repeated_updates(graph_, op, device_, work);
    if (op.row->family == OpFamily::kRowNormBackward) add_norm_backward(graph_, op, device_, work);
  }
  work.dram_read = std::max(0.0, work.dram_read);
  // Lines that the L2 keeps until their other elements follow.
  constexpr double kKeptLines = 2.2;
  const double near =
      static_cast<double>(traffic.bytes.total()) < 0.25 * static_cast<double>(device_.l2_bytes)
          ? kKeptLines
          : 1.0;
  const double each = instructions_of(kernel, kNone);
  double ordering = 0;  // of scans and sorts, microseconds
  for (const OpId id : kernel) {
    ordering += sort_us(graph_, graph_.ops[id], device_);
    work.dram_write += sort_workspace(graph_, graph_.ops[id], device_);
    ordering += scan_us(graph_, graph_.ops[id], device_);
  }
  const double instructions = accesses + space * each;
  constexpr double kLong = 400;  // instructions, from which on registers and caches of code matter
  if (each > kLong) work.time_doubt = 0.2;
  if (ordering > 0) work.time_doubt = kOrderDoubt;
  const double f64_us = lane_us(device_, space * f64_instructions_of(kernel)) *
                        constants_.lanes.value / arithmetic_lanes(DType::kF64, device_);
  work.compute_us = std::max({ordering, lane_us(device_, instructions), f64_us,
                              special_us(device_, space * special_functions_of(kernel)),
                              (scattered / (near * kScattered) + updated) /
                                  (device_.multiprocessors * constants_.clock_ghz.value * kGiga)});
  if (!phases.rows.empty()) {
    add_row_latency(graph_, kernel, phases, space, device_, work);
    work.fixed_us += cluster_waves_us(phases, counter_.rows_fit(phases), device_);
  }
  return work;
}

// Whether its second operand has lines of columns, not of k.
bool lies_across(const OpGraph& graph, const Op& product) {
  if (const auto lines = weight_lines(graph, product)) return lines == WeightLines::kAcrossDepth;
  return product.row->family != OpFamily::kLinear && !product.attributes->transpose_b;
}

// `others`: products of the same rows, whose columns come on top.
ProductKernel KernelModel::product_of(const Op& op, const KernelTraffic& traffic,
                                      std::span<const OpId> others) const {
  const Tensor& a = graph_.tensors[op.operands[0].tensor];
  const Tensor& b = graph_.tensors[op.operands[1].tensor];
  ProductKernel product{.traffic = traffic,
                        .shape = {.m = op.matrix.rows,
                                  .n = op.matrix.columns,
                                  .k = op.matrix.depth,
                                  .batches = op.matrix.batch,
                                  .b_across = lies_across(graph_, op),
                                  .a_across = op.attributes->transpose_a,
                                  .scaled_columns = scaled_columns(graph_, op)},
                        .type = a.type.dtype};
  if (const std::uint64_t groups = groups_of(graph_, op); groups > 0) {
    product.shape = grouped_shape(product.shape, groups);
  }
  product.scales_steps = scales_steps(graph_, op);
  product.operand_bytes = static_cast<double>(bytes_of(a.type.dtype, 1));
  product.results = graph_.tensors[op.outputs[0]].elements;
  std::vector<TensorId> values = {a.value, b.value};
  for (const OpId other : others) {
    const Op& more = graph_.ops[other];
    product.shape.n += more.matrix.columns;
    product.results += graph_.tensors[more.outputs[0]].elements;
    values.push_back(graph_.tensors[more.operands[1].tensor].value);
  }
  for (const KernelTraffic::Entry& entry : traffic.reads) {
    const TensorId value = graph_.tensors[entry.tensor].value;
    const bool operand = std::ranges::find(values, value) != values.end();
    (operand ? product.operands : product.beside) += static_cast<double>(entry.bytes);
  }
  return product;
}

// An element of the result takes the instructions of its own part.
KernelWork KernelModel::siblings_work(const std::vector<Kernel>& parts,
                                      const std::vector<OpId>& products,
                                      const KernelTraffic& traffic) {
  ProductKernel product =
      product_of(graph_.ops[products[0]], traffic, std::span(products).subspan(1));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t columns = graph_.ops[products[i]].matrix.columns;
    product.shape.parts.push_back(columns);
    product.epilogue += instructions_of(parts[i], products[i]) * static_cast<double>(columns) /
                        static_cast<double>(product.shape.n);
  }
  const KernelWork own = products_.tile_work(product);
  const bool equal = std::ranges::all_of(parts, [&](const Kernel& part) {
    const Op& op = graph_.ops[part.front()];
    return part.size() == 1 && op.matrix.columns == product.shape.parts.front() &&
           op.operands.size() == graph_.ops[products[0]].operands.size();
  });
  return equal ? faster(products_.library_work(product), own) : own;
}

// What computes an operand: instructions, and for rows what is read.
void KernelModel::add_prologue(const Kernel& kernel, OpId id, ProductKernel& product) const {
  const auto is_inside = [&](TensorId tensor) {
    const OpId maker = tensor == kNone ? kNone : graph_.value_of(tensor).producer;
    return maker != kNone && std::ranges::binary_search(kernel, maker);
  };
  const std::vector<Operand>& operands = graph_.ops[id].operands;
  const bool rows = is_inside(operands[0].tensor);
  if (!rows && !is_inside(operands[1].tensor)) return;
  Kernel prologue;
  std::vector<TensorId> waiting = {operands[rows ? 0 : 1].tensor};
  std::vector<TensorId> read;
  while (!waiting.empty()) {
    const TensorId tensor = waiting.back();
    waiting.pop_back();
    if (!is_inside(tensor)) {
      if (tensor != kNone) read.push_back(graph_.value_of(tensor).value);
      continue;
    }
    const OpId maker = graph_.value_of(tensor).producer;
    if (std::ranges::find(prologue, maker) != prologue.end()) continue;
    prologue.push_back(maker);
    for (const Operand& operand : graph_.ops[maker].operands) waiting.push_back(operand.tensor);
  }
  std::ranges::sort(prologue);
  const double each = instructions_of(prologue, kNone);
  product.epilogue -= each;
  const auto elements = static_cast<double>(graph_.tensors[operands[rows ? 0 : 1].tensor].elements);
  if (rows) {
    product.makes_rows = true;
    product.row_prologue = each;
    for (const KernelTraffic::Entry& entry : product.traffic.reads) {
      const TensorId value = graph_.tensors[entry.tensor].value;
      if (std::ranges::find(read, value) == read.end()) continue;
      const auto bytes = static_cast<double>(entry.bytes);
      product.row_bytes += bytes / elements;
      product.operands += bytes;
      product.beside -= bytes;
    }
    return;
  }
  constexpr double kUnpack = 10;  // instructions, to load a weight and to pack it
  // The same where a group's scale is applied to its sum, and with more than eight rows.
  constexpr double kPacked = 5;
  constexpr double kPackedMore = 8;
  constexpr std::uint64_t kFewRows = 8;
  const bool packed = grouped_weights(graph_, kernel, id).has_value();
  const double instructions = !packed                       ? each + kUnpack
                              : product.shape.m <= kFewRows ? kPacked
                                                            : kPackedMore;
  product.prologue = instructions * elements;
}

KernelWork KernelModel::product_work(const Kernel& kernel, OpId id, const KernelTraffic& traffic) {
  const std::optional<Halves> halves = halves_of(graph_, kernel, id);
  const OpId second = halves ? halves->other : kNone;
  ProductKernel product =
      product_of(graph_.ops[id], traffic, std::span(&second, second != kNone ? std::size_t{1} : 0));
  product.epilogue = instructions_of(kernel, id);
  product.shape.halves = halves.has_value();
  if (second != kNone) product.epilogue -= instructions_of({second}, kNone);
  // Ops behind one half and the other compute once for two elements of the products.
  const double whole = halves ? instructions_of(halves->before, id) : 0;
  if (halves) product.epilogue = (product.epilogue - whole) / 2 + whole;
  add_prologue(kernel, id, product);
  const bool row_held =
      holds_rows_of(graph_, kernel, counter_.phases().resolve(kernel).phases(), id);
  if (row_held) return products_.whole_rows_work(product);
  const bool lone = kernel.size() == 1;
  const bool grouped = product.shape.grouped;
  // The library, as we call it, knows no scales.
  const bool scaled = graph_.ops[id].row->family == OpFamily::kScaledMatmul;
  const bool ours = grouped || scaled;
  if (lone && !ours && !products_.contests(product)) return products_.library_work(product);
  KernelWork own = products_.tile_work(product);
  if (grouped) {
    own.time_doubt = std::max(own.time_doubt, kUnequalGroupsDoubt);
    own.read_doubt = std::max(own.read_doubt, kUnequalReadsDoubt);
    return own;
  }
  if (scaled || product.shape.halves || product.makes_rows) return own;
  // The library adds a bias for its columns, and knows the tanh form of gelu only.
  const Op& other = graph_.ops[lone || kernel[0] != id ? kernel[0] : kernel[1]];
  const LibraryStep step = other.row->library;
  const bool tanh = other.attributes->approximate == GeluKind::kTanh;
  const double bias = static_cast<double>(product.shape.n) * product.operand_bytes;
  const bool in_library =
      kernel.size() == 2 && (step == LibraryStep::kRelu || (step == LibraryStep::kGelu && tanh) ||
                             (step == LibraryStep::kBias && product.beside <= bias));
  if (!in_library && !lone) return own;
  return faster(products_.library_work(product), own);
}

// Of what the library runs and a kernel of ours: measuring takes the faster one.
KernelWork KernelModel::faster(const KernelWork& library, const KernelWork& own) const {
  return predict(library, device_).time_us < predict(own, device_).time_us ? library : own;
}

}  // namespace fusecalc
