#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

// cuBLASLt's functions, loaded with the first product. The parts of the toolkit that a build needs
// do not include its header (its wheel has half a gigabyte of code), so the part of its C interface
// that is used is declared here; it has not changed since CUDA 11.
namespace fusecalc::cuda {

using CublasStatus = int;

enum class CublasCompute : int { k32F = 68, kF64 = 70, k32I = 72, kFastTf32 = 77 };

enum class CublasType : int {
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,
  kI8 = 3,
  kI32 = 10,
  kBf16 = 14,
  kFp8E4m3 = 28,
  kFp8E5m2 = 29
};

enum class CublasDesc : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasBatchOffset = 10,
  kBiasType = 26
};

enum class CublasLayout : int { kBatchCount = 5, kBatchOffset = 6 };

enum class CublasPreference : int {
  kWorkspaceBytes = 1,
  kReductions = 3,
  kMinAlignmentA = 5  // then B, C, D
};

struct CublasAlgorithm {
  std::array<std::uint64_t, 8> data;
};

struct CublasHeuristic {
  CublasAlgorithm algorithm;
  std::size_t workspace_bytes;
  CublasStatus state;
  float waves;
  std::array<int, 4> reserved;
};

// Each is loaded by cublas.cpp under the name next to it.
struct Cublas {
  std::size_t (*version)() = nullptr;
  const char* (*status_text)(CublasStatus) = nullptr;
  CublasStatus (*create)(void**) = nullptr;
  CublasStatus (*destroy)(void*) = nullptr;
  CublasStatus (*create_desc)(void**, CublasCompute, CublasType) = nullptr;
  CublasStatus (*set_desc)(void*, CublasDesc, const void*, std::size_t) = nullptr;
  CublasStatus (*destroy_desc)(void*) = nullptr;
  CublasStatus (*create_layout)(void**, CublasType, std::uint64_t, std::uint64_t,
                                std::int64_t) = nullptr;
  CublasStatus (*set_layout)(void*, CublasLayout, const void*, std::size_t) = nullptr;
  CublasStatus (*destroy_layout)(void*) = nullptr;
  CublasStatus (*create_preference)(void**) = nullptr;
  CublasStatus (*set_preference)(void*, CublasPreference, const void*, std::size_t) = nullptr;
  CublasStatus (*destroy_preference)(void*) = nullptr;
  CublasStatus (*find_algorithms)(void*, void*, void*, void*, void*, void*, void*, int,
                                  CublasHeuristic*, int*) = nullptr;
  CublasStatus (*multiply)(void*, void*, const void*, const void*, void*, const void*, void*,
                           const void*, const void*, void*, void*, void*, const CublasAlgorithm*,
                           void*, std::size_t, CUstream) = nullptr;
};

// Throws Error if the library is missing.
const Cublas& cublas();

// "13.0.2"
std::string cublas_version();

// Throws Error for a call that failed; `what` names it.
void check_cublas(CublasStatus status, const char* what);

}  // namespace fusecalc::cuda
