#include "measure/graph_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/generate.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/interrupt.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "measure/device_buffer.hpp"
#include "measure/inputs.hpp"
#include "measure/verify.hpp"

namespace fusecalc {
namespace {

// Room for what the driver allocates besides the tensors.
constexpr std::uint64_t kReserve = std::uint64_t{256} << 20U;

bool launches(const PreparedKernel& kernel) { return !kernel.steps.empty(); }

// A kernel of a plan on its way to a launch.
struct Draft {
  const Kernel* ops = nullptr;
  std::optional<GeneratedKernel> code;
  std::string reason;  // why there is none
};

// 90 for "9.0".
unsigned capability_of(const DeviceInfo& device) {
  unsigned digits = 0;
  for (const char c : device.compute_capability) {
    if (c >= '0' && c <= '9') digits = digits * 10 + static_cast<unsigned>(c - '0');
  }
  return digits;
}

// The graph's tensors and kernels on one device.
class GraphBench {
 public:
  GraphBench(GpuBackend& gpu, TrafficCounter& counter, const MeasureOptions& options)
      : gpu_(gpu),
        counter_(counter),
        graph_(counter.graph()),
        inputs_(random_inputs(graph_, options.seed)),
        seed_(options.seed) {}

  void draft(const NamedPlan& plan);
  // The memory for all drafts. Throws Error where the device has too little.
  void allocate();
  void keep_sources(const std::string& folder) const;
  PreparedPlan prepare(std::size_t plan, const Progress& progress);
  // Runs both plans once on fresh inputs, `unfused` last, so that what lies between the kernels is
  // there for every one of them; fills in what was found.
  void check(const PreparedPlan& unfused, const PreparedPlan& fused,
             std::vector<PlanMeasurement>& results, const Progress& progress);

 private:
  struct DraftedPlan {
    const NamedPlan* plan = nullptr;
    std::vector<Draft> drafts;
  };

  const std::vector<CompiledKernel>& compile(const KernelSource& source);
  // Fresh inputs; what kernels write holds nothing that they could have written.
  void fill();
  void fill_all();
  void fill_input(const GraphInput& input);
  void run(const PreparedPlan& plan);
  void launch(const PreparedKernel& kernel);
  Verification check_kernels(std::size_t which, const PreparedPlan& plan, const Progress& progress);
  std::vector<TensorId> results() const;
  std::vector<PreparedStep> launches_of(const GeneratedKernel& code, const BufferAt& workspace);
  Launch entry_of(const GeneratedKernel& code, std::size_t entry, const FollowingEntry& extent,
                  const BufferAt& workspace);
  std::optional<PreparedMatmul> library_product(const GeneratedKernel& code,
                                                const BufferAt& workspace);
  void add_code(PreparedKernel& kernel, const GeneratedKernel& code);
  std::uint64_t largest_intermediate(const DraftedPlan& plan) const;

  GpuBackend& gpu_;
  TrafficCounter& counter_;
  const OpGraph& graph_;
  std::vector<GraphInput> inputs_;
  std::uint64_t seed_;
  std::vector<DraftedPlan> plans_;
  std::map<TensorId, DeviceBuffer> storages_;
  std::vector<DeviceBuffer> workspaces_;
  std::map<std::string, std::vector<CompiledKernel>> compiled_;
};

void GraphBench::draft(const NamedPlan& plan) {
  DraftedPlan drafted{.plan = &plan, .drafts = {}};
  const Target target{.multiprocessors = gpu_.device().sm_count,
                      .shared_bytes_per_block = gpu_.device().shared_bytes_per_block,
                      .capability = capability_of(gpu_.device())};
  for (const Kernel& ops : plan.kernels) {
    Draft& draft = drafted.drafts.emplace_back();
    draft.ops = &ops;
    try {
      draft.code = generate(counter_, ops, target);
    } catch (const Error& error) {
      if (error.fault() != Fault::kUnavailable) throw;
      draft.reason = error.what();
    }
  }
  plans_.push_back(std::move(drafted));
}

void GraphBench::allocate() {
  std::set<TensorId> needed;
  std::uint64_t bytes = 0;
  for (const DraftedPlan& plan : plans_) {
    for (const Draft& draft : plan.drafts) {
      if (!draft.code) continue;
      needed.insert(draft.code->storages.begin(), draft.code->storages.end());
      bytes += draft.code->workspace_bytes;
    }
  }
  for (const TensorId id : needed) bytes += graph_.tensors[id].bytes;
  // One plan's results are kept while the other makes them.
  for (const TensorId id : results()) bytes += graph_.tensors[id].bytes;
  const std::uint64_t available = gpu_.free_bytes();
  if (bytes > available - std::min(available, kReserve)) {
    throw Error(
        Fault::kBadInput,
        fmt::format("{}: its tensors need {} of device memory, and {} has {} free of {}; make it "
                    "smaller with --dim",
                    graph_.document, human_bytes(bytes), gpu_.device().name, human_bytes(available),
                    human_bytes(gpu_.device().memory_bytes)));
  }
  for (const TensorId id : needed) storages_.try_emplace(id, gpu_, graph_.tensors[id].bytes);
}

void GraphBench::fill() {
  for (const auto& [id, buffer] : storages_) gpu_.poison(buffer);
  for (const GraphInput& input : inputs_) fill_input(input);
  gpu_.finish();
}

void GraphBench::fill_input(const GraphInput& input) {
  const auto found = storages_.find(graph_.storage_of(input.tensor));
  if (found != storages_.end()) place_input(gpu_, input, found->second.at(0));
}

const std::vector<CompiledKernel>& GraphBench::compile(const KernelSource& source) {
  const auto known = compiled_.find(source.text);
  if (known != compiled_.end()) return known->second;
  return compiled_.emplace(source.text, gpu_.compile(source)).first->second;
}

Launch GraphBench::entry_of(const GeneratedKernel& code, std::size_t entry,
                            const FollowingEntry& extent, const BufferAt& workspace) {
  Launch launch{.kernel = compile(code.source)[entry],
                .grid = {static_cast<unsigned>(extent.blocks)},
                .block = {extent.threads},
                .shared_bytes = 0,
                .arguments = {}};
  for (const TensorId id : code.storages) launch.arguments.emplace_back(storages_.at(id).at(0));
  if (code.workspace_bytes > 0) launch.arguments.emplace_back(workspace);
  return launch;
}

std::vector<PreparedStep> GraphBench::launches_of(const GeneratedKernel& code,
                                                  const BufferAt& workspace) {
  Launch first = entry_of(code, 0, {code.blocks, code.threads}, workspace);
  first.grid.y = code.blocks_y;
  first.grid.z = code.blocks_z;
  first.shared_bytes = code.shared_bytes;
  first.cooperative = code.cooperative;
  std::vector<Argument> maps;
  for (const MappedTensor& map : code.maps) {
    const bool packed = map.storage == kNone;
    maps.emplace_back(TensorMap{
        .at = packed ? BufferAt{workspace.buffer, code.packed_at} : storages_.at(map.storage).at(0),
        .dtype = map.dtype,
        .extents = map.extents,
        .strides = map.strides,
        .box = map.box});
  }
  first.arguments.insert(first.arguments.begin(), maps.begin(), maps.end());
  std::vector<PreparedStep> steps = {std::move(first)};
  for (std::size_t i = 0; i < code.following.size(); ++i) {
    steps.emplace_back(entry_of(code, i + 1, code.following[i], workspace));
  }
  return steps;
}

// Nothing where the library does not take it.
std::optional<PreparedMatmul> GraphBench::library_product(const GeneratedKernel& code,
                                                          const BufferAt& workspace) {
  if (!code.library) return std::nullopt;
  const LibraryProduct& product = *code.library;
  const auto place = [&](TensorId id) { return storages_.at(graph_.storage_of(id)).at(0); };
  LibraryMatmul matmul = product.matmul;
  matmul.a = product.a == kNone ? BufferAt{workspace.buffer, code.packed_at} : place(product.a);
  matmul.b = place(product.b);
  matmul.result = place(product.result);
  if (product.bias != kNone) matmul.bias = place(product.bias);
  try {
    return gpu_.prepare(matmul);
  } catch (const Error& error) {
    if (error.fault() != Fault::kUnavailable) throw;
    return std::nullopt;
  }
}

void GraphBench::add_code(PreparedKernel& kernel, const GeneratedKernel& code) {
  BufferAt workspace;
  if (code.workspace_bytes > 0) {
    workspace = workspaces_.emplace_back(gpu_, code.workspace_bytes).at(0);
    gpu_.upload(workspace, std::vector<std::byte>(code.workspace_bytes));
  }
  kernel.gaps = code.gaps;
  if (const std::optional<PreparedMatmul> product = library_product(code, workspace)) {
    kernel.steps = {*product};
    kernel.schedule =
        product->launches > 1 ? fmt::format("cuBLASLt, {} calls", product->launches) : "cuBLASLt";
  } else {
    kernel.steps = launches_of(code, workspace);
    kernel.schedule = code.schedule;
  }
  if (!code.packing) return;
  kernel.schedule += ", an operand put in order before";
  kernel.steps.insert(kernel.steps.begin(),
                      entry_of(code, code.source.entries.size() - 1, *code.packing, workspace));
}

void GraphBench::keep_sources(const std::string& folder) const {
  for (const DraftedPlan& plan : plans_) {
    for (std::size_t k = 0; k < plan.drafts.size(); ++k) {
      if (!plan.drafts[k].code) continue;
      Output file = Output::file(fmt::format("{}/{}.{}.cu", folder, plan.plan->key, k));
      file.write(plan.drafts[k].code->source.text);
      file.finish();
    }
  }
}

// The largest tensor that one kernel writes and another reads.
std::uint64_t GraphBench::largest_intermediate(const DraftedPlan& plan) const {
  std::map<TensorId, const Draft*> writer;
  std::uint64_t largest = 0;
  for (const Draft& draft : plan.drafts) {
    for (const OpId id : *draft.ops) {
      for (const Operand& operand : graph_.ops[id].operands) {
        if (operand.tensor == kNone) continue;
        const auto found = writer.find(graph_.tensors[operand.tensor].value);
        if (found == writer.end() || found->second == &draft) continue;
        largest = std::max(largest, graph_.tensors[found->first].bytes);
      }
      for (const TensorId output : graph_.ops[id].outputs) writer[output] = &draft;
    }
  }
  return largest;
}

// What the graph's kernels hand to the outside.
std::vector<TensorId> GraphBench::results() const {
  std::vector<TensorId> found;
  for (TensorId id = 0; id < graph_.tensors.size(); ++id) {
    const Tensor& tensor = graph_.tensors[id];
    if (tensor.output && tensor.value == id && tensor.producer != kNone) found.push_back(id);
  }
  return found;
}

void GraphBench::run(const PreparedPlan& plan) {
  fill();
  for (const PreparedKernel& kernel : plan.kernels) launch(kernel);
  gpu_.finish();
}

void GraphBench::check(const PreparedPlan& unfused, const PreparedPlan& fused,
                       std::vector<PlanMeasurement>& measured, const Progress& progress) {
  const auto record = [&](std::size_t plan, const Verification& found) {
    if (found.checked == 0) {
      const bool runs = std::ranges::any_of((plan == 0 ? unfused : fused).kernels, launches);
      measured[plan].verified_reason = !runs                     ? "none of its kernels has code"
                                       : found.unchecked.empty() ? "it has no results"
                                                                 : found.unchecked.front();
      return;
    }
    measured[plan].verified = Verified{.max_rel_err = found.max_rel_err,
                                       .tolerance = found.tolerance,
                                       .ok = found.ok,
                                       .worst = found.worst};
  };
  const auto whole = [](const PreparedPlan& plan) {
    return std::ranges::all_of(plan.kernels, launches);
  };
  if (!whole(unfused) || !whole(fused)) {
    record(0, check_kernels(0, unfused, progress));
    record(1, check_kernels(1, fused, progress));
    fill_all();
    return;
  }
  progress("working out what is right");
  const std::vector<TensorId> outputs = results();
  const Verifier verifier(graph_, inputs_, outputs, seed_);
  const auto in_place = [&](TensorId id) { return storages_.at(graph_.storage_of(id)).at(0); };
  progress(fmt::format("checking {}", fused.key));
  run(fused);
  Verification of_fused = verifier.check(gpu_, in_place);
  std::map<TensorId, DeviceBuffer> kept;
  for (const TensorId id : outputs) {
    const DeviceBuffer& copy = kept.try_emplace(id, gpu_, graph_.tensors[id].bytes).first->second;
    gpu_.copy(copy.at(0), in_place(id), graph_.tensors[id].bytes);
  }
  progress(fmt::format("checking {}", unfused.key));
  run(unfused);
  Verification of_unfused = verifier.check(gpu_, in_place);
  of_fused = worse_of(std::move(of_fused),
                      verifier.compare(
                          gpu_, [&](TensorId id) { return kept.at(id).at(0); }, in_place));
  if (of_unfused.checked == 0) {
    // The whole is too much work for the reference; its kernels are not.
    of_unfused = worse_of(std::move(of_unfused), check_kernels(0, unfused, progress));
    of_fused = worse_of(std::move(of_fused), check_kernels(1, fused, progress));
    run(unfused);
  }
  record(0, of_unfused);
  record(1, of_fused);
}

// Each kernel that has code, from data of its own.
Verification GraphBench::check_kernels(std::size_t which, const PreparedPlan& plan,
                                       const Progress& progress) {
  Verification all;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (!launches(plan.kernels[k])) continue;
    stop_if_interrupted();
    progress(fmt::format("checking {}, kernel {} of {}", plan.key, k + 1, plan.kernels.size()));
    const GraphPart part = part_of(graph_, *plans_[which].drafts[k].ops);
    for (const TensorId id : part.results) gpu_.poison(storages_.at(graph_.storage_of(id)));
    all = worse_of(std::move(all),
                   check_part(
                       gpu_, graph_, part, seed_,
                       [&](TensorId id) { return storages_.at(graph_.storage_of(id)).at(0); },
                       [&] { launch(plan.kernels[k]); }));
  }
  return all;
}

void GraphBench::launch(const PreparedKernel& kernel) { enqueue(gpu_, kernel.steps); }

// Something for every kernel to work on, where some of what they need was never made.
void GraphBench::fill_all() {
  for (const auto& [id, buffer] : storages_) {
    const DType dtype = graph_.tensors[id].type.dtype;
    gpu_.fill(buffer, {.dtype = dtype, .low = 0, .high = 1, .seed = seed_ + id});
  }
  for (const GraphInput& input : inputs_) fill_input(input);
  gpu_.finish();
}

PreparedPlan GraphBench::prepare(std::size_t which, const Progress& progress) {
  const DraftedPlan& drafted = plans_[which];
  PreparedPlan plan{.key = drafted.plan->key, .analytic = {}};
  plan.largest_intermediate = largest_intermediate(drafted);
  for (std::size_t k = 0; k < drafted.drafts.size(); ++k) {
    stop_if_interrupted();
    progress(fmt::format("compiling {}, kernel {} of {}", plan.key, k + 1, drafted.drafts.size()));
    const Draft& draft = drafted.drafts[k];
    PreparedKernel kernel{.name = drafted.plan->names[k],
                          .operations = draft.ops->size(),
                          .analytic = counter_.bytes(*draft.ops)};
    plan.analytic.read += kernel.analytic.read;
    plan.analytic.write += kernel.analytic.write;
    if (draft.code) {
      add_code(kernel, *draft.code);
    } else {
      kernel.reason = draft.reason;
    }
    plan.kernels.push_back(std::move(kernel));
  }
  return plan;
}

}  // namespace

Measurement measure_graph(GpuBackend& gpu, TrafficCounter& counter, const NamedPlan& unfused,
                          const NamedPlan& fused, const MeasureOptions& options,
                          const std::optional<std::string>& sources, const Progress& progress) {
  const OpGraph& graph = counter.graph();
  Measurement result{.operations = graph.ops.size(),
                     .seed = options.seed,
                     .synthetic = false,
                     .device = gpu.device()};
  {
    progress("generating kernels");
    GraphBench bench(gpu, counter, options);
    bench.draft(unfused);
    bench.draft(fused);
    if (sources) bench.keep_sources(*sources);
    bench.allocate();
    std::vector<PreparedPlan> plans;
    for (std::size_t plan = 0; plan < 2; ++plan) plans.push_back(bench.prepare(plan, progress));
    std::vector<PlanMeasurement> checked(2);
    bench.check(plans[0], plans[1], checked, progress);
    std::vector<PlanMeasurement> measured = run_plans(gpu, plans, options, progress);
    for (std::size_t plan = 0; plan < 2; ++plan) {
      measured[plan].verified = std::move(checked[plan].verified);
      measured[plan].verified_reason = std::move(checked[plan].verified_reason);
    }
    result.unfused = std::move(measured[0]);
    result.fused = std::move(measured[1]);
  }
  result.interrupted = interrupted();
  if (result.interrupted) return result;
  progress("timing the device's own copy");
  result.copy_bytes_per_s = copy_ceiling(gpu);
  return result;
}

}  // namespace fusecalc
