#include "cuda/matmuls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "cuda/cublas.hpp"
#include "cuda/driver.hpp"

namespace fusecalc::cuda {
namespace {

// The size that cuBLAS recommends for compute capability 9.0.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;

// Where blocks share k, their sums are added up as they were computed: rounded to the result's type
// first, those of bf16 lose several bits.
constexpr std::uint32_t kSumsInComputeType = 2;

struct TypeRow {
  DType operand;
  CublasType type;
  CublasCompute compute;
  CublasType scale;
};

constexpr std::array kTypes = {
    TypeRow{DType::kF64, CublasType::kF64, CublasCompute::kF64, CublasType::kF64},
    TypeRow{DType::kF32, CublasType::kF32, CublasCompute::k32F, CublasType::kF32},
    TypeRow{DType::kTf32, CublasType::kF32, CublasCompute::kFastTf32, CublasType::kF32},
    TypeRow{DType::kF16, CublasType::kF16, CublasCompute::k32F, CublasType::kF32},
    TypeRow{DType::kBf16, CublasType::kBf16, CublasCompute::k32F, CublasType::kF32},
    TypeRow{DType::kFp8E4m3, CublasType::kFp8E4m3, CublasCompute::k32F, CublasType::kF32},
    TypeRow{DType::kFp8E5m2, CublasType::kFp8E5m2, CublasCompute::k32F, CublasType::kF32},
    TypeRow{DType::kI8, CublasType::kI8, CublasCompute::k32I, CublasType::kI32},
    TypeRow{DType::kI32, CublasType::kI32, CublasCompute::k32I, CublasType::kI32},
};

const TypeRow& row_of(DType dtype) {
  const auto* row = std::ranges::find(kTypes, dtype, &TypeRow::operand);
  if (row == kTypes.end()) {
    throw gpu_error(GpuFault::kCublas, fmt::format("it does not support {}", name_of(dtype)));
  }
  return *row;
}

std::uint32_t epilogue_code(MatmulEpilogue epilogue) {
  constexpr std::uint32_t kRelu = 2, kBias = 4, kGelu = 32;
  switch (epilogue) {
    case MatmulEpilogue::kPlain: return 1;
    case MatmulEpilogue::kBias: return kBias;
    case MatmulEpilogue::kRelu: return kRelu;
    case MatmulEpilogue::kReluBias: return kRelu | kBias;
    case MatmulEpilogue::kGelu: return kGelu;
    case MatmulEpilogue::kGeluBias: return kGelu | kBias;
  }
  return 1;
}

// A descriptor and the function that ends it.
class Descriptor {
 public:
  explicit Descriptor(CublasStatus (*destroy)(void*)) : destroy_(destroy) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  void** out() { return &handle_; }
  void* get() const { return handle_; }

 private:
  CublasStatus (*destroy_)(void*);
  void* handle_ = nullptr;
};

std::uint64_t address(const BufferAt& place) { return place.buffer.id + place.offset; }

// The alignment of what begins at a place and so many elements further: the largest power of two
// that divides all their addresses, up to 256.
std::uint32_t alignment_of(const BufferAt& place, DType dtype,
                           const std::vector<MatmulBatch>& batches,
                           std::uint64_t MatmulBatch::*distance) {
  std::uint64_t bits = address(place) | 256U;
  for (const MatmulBatch& batch : batches) bits |= bytes_of(dtype, batch.*distance);
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

// Of a node of a graph; empty if it launches no kernel.
std::string kernel_name(CUgraphNode node) {
  CUgraphNodeType type{};
  CUDA_KERNEL_NODE_PARAMS launch{};
  const char* name = nullptr;
  if (driver().cuGraphNodeGetType(node, &type) != CUDA_SUCCESS ||
      type != CU_GRAPH_NODE_TYPE_KERNEL ||
      driver().cuGraphKernelNodeGetParams(node, &launch) != CUDA_SUCCESS) {
    return {};
  }
  const CUresult found = launch.func != nullptr ? driver().cuFuncGetName(&name, launch.func)
                                                : driver().cuKernelGetName(&name, launch.kern);
  return found == CUDA_SUCCESS && name != nullptr ? name : "";
}

}  // namespace

// The library is column-major, so it computes the transposed product: its A is our b, its m our n.
// Our row-major matrix is a transposed one for it.
struct Matmuls::Plan {
  Plan(const LibraryMatmul& of, const MatmulOperands& at) : product(of), operands(at) {
    join_siblings();
  }

  void join_siblings();
  void describe();
  void set_layout(Descriptor& layout, CublasType type, std::uint64_t rows, std::uint64_t columns,
                  std::uint64_t line, std::uint64_t batch_offset) const;
  // A few algorithms for it, the one that the library expects to be fastest first.
  std::vector<CublasHeuristic> find_algorithms(void* handle) const;

  LibraryMatmul product;
  MatmulOperands operands;
  std::int64_t bias_offset = 0;  // from a product of the batch to the next, in elements
  Descriptor desc{cublas().destroy_desc};
  Descriptor first{cublas().destroy_layout};   // our b
  Descriptor second{cublas().destroy_layout};  // our a
  Descriptor result{cublas().destroy_layout};
};

struct Matmuls::Algorithm {
  std::shared_ptr<const Plan> plan;
  CublasHeuristic found;
};

void Matmuls::Plan::set_layout(Descriptor& layout, CublasType type, std::uint64_t rows,
                               std::uint64_t columns, std::uint64_t line,
                               std::uint64_t batch_offset) const {
  check_cublas(
      cublas().create_layout(layout.out(), type, rows, columns, static_cast<std::int64_t>(line)),
      "cublasLtMatrixLayoutCreate");
  if (product.batches.empty()) return;
  const auto count = static_cast<std::int32_t>(product.batches.back().count);
  const auto offset = static_cast<std::int64_t>(batch_offset);
  const auto set = [&](CublasLayout which, const void* value, std::size_t bytes) {
    check_cublas(cublas().set_layout(layout.get(), which, value, bytes),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  set(CublasLayout::kBatchCount, &count, sizeof count);
  set(CublasLayout::kBatchOffset, &offset, sizeof offset);
}

// Makes them a batch, which they are if they lie evenly apart in memory, in the same order.
void Matmuls::Plan::join_siblings() {
  if (operands.siblings.empty()) return;
  std::vector<MatmulOperands> all = std::move(operands.siblings);
  operands.siblings.clear();
  all.push_back(std::move(operands));
  std::ranges::sort(all, {}, [](const MatmulOperands& each) { return address(each.b); });
  const auto distance = [&](DType dtype, const auto& place) {
    const std::uint64_t bytes = address(place(all[1])) - address(place(all[0]));
    for (std::size_t i = 1; i < all.size(); ++i) {
      const std::uint64_t before = address(place(all[i - 1]));
      const std::uint64_t at = address(place(all[i]));
      if (at <= before || at - before != bytes || bytes % bytes_of(dtype, 1) != 0) {
        throw gpu_error(GpuFault::kCublas, "the products of a call do not lie evenly apart");
      }
    }
    return bytes / bytes_of(dtype, 1);
  };
  product.batches.push_back(
      {.count = all.size(),
       .b = distance(product.operand, [](const MatmulOperands& each) { return each.b; }),
       .result =
           distance(product.outcome, [](const MatmulOperands& each) { return each.result; })});
  if (all.front().bias) {
    bias_offset = static_cast<std::int64_t>(
        distance(product.outcome, [](const MatmulOperands& each) { return *each.bias; }));
  }
  operands = std::move(all.front());
}

void Matmuls::Plan::describe() {
  const TypeRow& row = row_of(product.operand);
  const CublasType outcome = row_of(product.outcome).type;
  check_cublas(cublas().create_desc(desc.out(), row.compute, row.scale),
               "cublasLtMatmulDescCreate");
  const auto set = [&](CublasDesc which, const auto& value) {
    check_cublas(cublas().set_desc(desc.get(), which, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  };
  set(CublasDesc::kTransposeA, std::int32_t{product.b_transposed});
  set(CublasDesc::kTransposeB, std::int32_t{product.a_transposed});
  set(CublasDesc::kEpilogue, epilogue_code(product.epilogue));
  if (operands.bias) {
    set(CublasDesc::kBiasPointer, address(*operands.bias));
    set(CublasDesc::kBiasType, static_cast<std::int32_t>(outcome));
    if (bias_offset != 0) set(CublasDesc::kBiasBatchOffset, bias_offset);
  }
  const MatmulBatch batch = product.batches.empty() ? MatmulBatch{} : product.batches.back();
  const auto [m, n, k] = std::array{product.m, product.n, product.k};
  set_layout(first, row.type, product.b_transposed ? k : n, product.b_transposed ? n : k,
             product.b_line, batch.b);
  set_layout(second, row.type, product.a_transposed ? m : k, product.a_transposed ? k : m,
             product.a_line, batch.a);
  set_layout(result, outcome, n, m, product.result_line, batch.result);
}

std::vector<CublasHeuristic> Matmuls::Plan::find_algorithms(void* handle) const {
  constexpr int kMost = 3;
  Descriptor preference{cublas().destroy_preference};
  check_cublas(cublas().create_preference(preference.out()), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](CublasPreference which, const auto& value) {
    check_cublas(cublas().set_preference(preference.get(), which, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CublasPreference::kWorkspaceBytes, std::uint64_t{kWorkspaceBytes});
  set(CublasPreference::kReductions, kSumsInComputeType);
  const std::uint32_t of_result =
      alignment_of(operands.result, product.outcome, product.batches, &MatmulBatch::result);
  const std::array alignments = {
      alignment_of(operands.b, product.operand, product.batches, &MatmulBatch::b),
      alignment_of(operands.a, product.operand, product.batches, &MatmulBatch::a), of_result,
      of_result};
  for (std::size_t i = 0; i < alignments.size(); ++i) {
    set(static_cast<CublasPreference>(static_cast<int>(CublasPreference::kMinAlignmentA) +
                                      static_cast<int>(i)),
        alignments[i]);
  }
  std::vector<CublasHeuristic> algorithms(kMost);
  int found = 0;
  check_cublas(
      cublas().find_algorithms(handle, desc.get(), first.get(), second.get(), result.get(),
                               result.get(), preference.get(), kMost, algorithms.data(), &found),
      "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) throw gpu_error(GpuFault::kCublas, "it has no algorithm for it");
  check_cublas(algorithms.front().state, "cublasLtMatmulAlgoGetHeuristic");
  algorithms.resize(static_cast<std::size_t>(found));
  std::erase_if(algorithms, [](const CublasHeuristic& each) { return each.state != 0; });
  return algorithms;
}

Matmuls::Matmuls(CUstream stream) : stream_(stream) {
  check_cublas(cublas().create(&handle_), "cublasLtCreate");
  check(driver().cuMemAlloc(&workspace_, kWorkspaceBytes), "cuMemAlloc");
}

Matmuls::~Matmuls() {
  algorithms_.clear();
  if (workspace_ != 0) driver().cuMemFree(workspace_);
  if (handle_ != nullptr) cublas().destroy(handle_);
}

std::vector<PreparedMatmul> Matmuls::prepare(const LibraryMatmul& product,
                                             const MatmulOperands& operands) {
  const auto plan = std::make_shared<Plan>(product, operands);
  plan->describe();
  std::uint64_t launches = 1;
  for (std::size_t i = 0; i + 1 < product.batches.size(); ++i) {
    launches *= product.batches[i].count;
  }
  std::vector<PreparedMatmul> prepared;
  for (const CublasHeuristic& found : plan->find_algorithms(handle_)) {
    const Algorithm algorithm{plan, found};
    prepared.push_back({.id = algorithms_.size(),
                        .workspace_bytes = found.workspace_bytes,
                        .launches = launches,
                        .kernel = kernel_of(algorithm)});
    algorithms_.push_back(algorithm);
  }
  return prepared;
}

// Records the call instead of running it.
std::string Matmuls::kernel_of(const Algorithm& algorithm) {
  const MatmulOperands& operands = algorithm.plan->operands;
  const Driver& cuda = driver();
  CUgraph graph = nullptr;
  check(cuda.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture");
  try {
    multiply(algorithm, address(operands.a), address(operands.b), address(operands.result));
  } catch (const Error&) {
    if (cuda.cuStreamEndCapture(stream_, &graph) == CUDA_SUCCESS) cuda.cuGraphDestroy(graph);
    throw;
  }
  check(cuda.cuStreamEndCapture(stream_, &graph), "cuStreamEndCapture");
  std::size_t count = 0;
  std::string name;
  if (cuda.cuGraphGetNodes(graph, nullptr, &count) == CUDA_SUCCESS) {
    std::vector<CUgraphNode> nodes(count);
    if (cuda.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) nodes.clear();
    for (const CUgraphNode node : nodes) {
      name = kernel_name(node);
      if (!name.empty()) break;
    }
  }
  check(cuda.cuGraphDestroy(graph), "cuGraphDestroy");
  return name;
}

// The innermost batch dimension is the library's, the others are loops.
void Matmuls::run(const PreparedMatmul& product) {
  const Algorithm& algorithm = algorithms_[product.id];
  const Plan& plan = *algorithm.plan;
  const LibraryMatmul& what = plan.product;
  const std::uint64_t operand_bytes = bytes_of(what.operand, 1);
  const std::uint64_t outcome_bytes = bytes_of(what.outcome, 1);
  for (std::uint64_t i = 0; i < product.launches; ++i) {
    std::uint64_t a = address(plan.operands.a), b = address(plan.operands.b),
                  result = address(plan.operands.result);
    std::uint64_t rest = i;
    for (std::size_t d = what.batches.size(); d-- > 1;) {
      const MatmulBatch& batch = what.batches[d - 1];
      const std::uint64_t at = rest % batch.count;
      rest /= batch.count;
      a += at * batch.a * operand_bytes;
      b += at * batch.b * operand_bytes;
      result += at * batch.result * outcome_bytes;
    }
    multiply(algorithm, a, b, result);
  }
}

void Matmuls::multiply(const Algorithm& algorithm, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr result) {
  const Plan& plan = *algorithm.plan;
  const TypeRow& row = row_of(plan.product.operand);
  // One and zero, in the dtype of the scale.
  constexpr double kOne64 = 1;
  constexpr float kOne32 = 1;
  constexpr std::int32_t kOneInt = 1;
  constexpr double kZero = 0;
  const void* one = row.scale == CublasType::kF64   ? static_cast<const void*>(&kOne64)
                    : row.scale == CublasType::kI32 ? static_cast<const void*>(&kOneInt)
                                                    : static_cast<const void*>(&kOne32);
  const auto pointer = [](std::uint64_t place) { return reinterpret_cast<void*>(place); };
  check_cublas(
      cublas().multiply(handle_, plan.desc.get(), one, pointer(b), plan.first.get(), pointer(a),
                        plan.second.get(), &kZero, pointer(result), plan.result.get(),
                        pointer(result), plan.result.get(), &algorithm.found.algorithm,
                        pointer(workspace_), kWorkspaceBytes, stream_),
      "cublasLtMatmul");
}

}  // namespace fusecalc::cuda
