#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace fusecalc {

// An element type. The order is that of the table in dtype.cpp.
enum class DType : std::uint8_t {
  kF64,
  kF32,
  kTf32,
  kF16,
  kBf16,
  kFp8E4m3,
  kFp8E5m2,
  kFp4E2m1,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kI4,
  kU4,
  kBool,
};

std::string_view name_of(DType dtype);
std::optional<DType> dtype_named(std::string_view name);
std::span<const std::string_view> dtype_names();

bool is_float(DType dtype);
bool is_fp8(DType dtype);
bool is_packed(DType dtype);     // two elements a byte
double highest_of(DType dtype);  // of its numbers that are finite; that of i64 is rounded up

// The size of `elements` of this type in bytes; 4-bit types are rounded up to a whole byte.
// Does not overflow for elements whose bytes were checked when the tensor was made.
std::uint64_t bytes_of(DType dtype, std::uint64_t elements);
// The same; empty above kMaxCount.
std::optional<std::uint64_t> checked_bytes_of(DType dtype, std::uint64_t elements);

// The type that an operation on both yields: any float over any integer over bool, then the wider;
// f16 with bf16 is f32, and a signed integer with an unsigned one that is as wide the next wider
// signed one.
DType promote(DType a, DType b);

}  // namespace fusecalc
