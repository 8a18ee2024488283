#include "cuda/launch_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "cuda/driver.hpp"

namespace fusecalc::cuda {
namespace {

CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::kF64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::kF32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kTf32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;  // rounded as it is copied
    case DType::kF16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

CUtensorMap encode_windows(const TensorMap& map) {
  const MappedWindows& windows = *map.windows;
  const std::array<std::uint32_t, 4> steps = {1, windows.strides[0], windows.strides[1], 1};
  CUtensorMap encoded;
  check(driver().cuTensorMapEncodeIm2col(
            &encoded, map_type(map.dtype), static_cast<cuuint32_t>(map.extents.size()),
            reinterpret_cast<void*>(map.at.buffer.id + map.at.offset), map.extents.data(),
            map.strides.data(), windows.first.data(), windows.last.data(), map.box[0], map.box[1],
            steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeIm2col");
  return encoded;
}

// Boxes bring 128 bytes of a line. Where those lie in two of the L2's lines, it would fetch 512
// bytes from memory for them, many of them again for the next box: up to 1.3 times as many bytes,
// and products that take 1.2 times as long.
CUtensorMapL2promotion promotion_of(const TensorMap& map) {
  constexpr std::uint64_t kLine = 128;
  const bool straddles =
      map.at.offset % kLine != 0 ||
      std::ranges::any_of(map.strides, [](std::uint64_t bytes) { return bytes % kLine != 0; });
  return straddles ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
}

// Lines of a box that are shorter than 128 bytes follow each other without gaps.
CUtensorMapSwizzle swizzle_of(const TensorMap& map) {
  switch (bytes_of(map.dtype, map.box[0])) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    default: return CU_TENSOR_MAP_SWIZZLE_128B;
  }
}

CUtensorMap encode(const TensorMap& map) {
  if (map.windows) return encode_windows(map);
  CUtensorMap encoded;
  constexpr std::array<std::uint32_t, 4> kEvery = {1, 1, 1, 1};
  check(driver().cuTensorMapEncodeTiled(
            &encoded, map_type(map.dtype), static_cast<cuuint32_t>(map.extents.size()),
            reinterpret_cast<void*>(map.at.buffer.id + map.at.offset), map.extents.data(),
            map.strides.data(), map.box.data(), kEvery.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle_of(map), promotion_of(map), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return encoded;
}

}  // namespace

// The driver copies as many bytes as a parameter has; on this little-endian host those are the
// first ones of its value.
LaunchArguments::LaunchArguments(const std::vector<Argument>& arguments)
    : values_(arguments.size()), pointers_(arguments.size()) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    pointers_[i] = &values_[i];
    std::visit(
        [&](const auto& argument) {
          using Type = std::decay_t<decltype(argument)>;
          if constexpr (std::is_same_v<Type, BufferAt>) {
            values_[i] = argument.buffer.id + argument.offset;
          } else if constexpr (std::is_same_v<Type, TensorMap>) {
            pointers_[i] = &maps_.emplace_back(encode(argument));
          } else {
            std::memcpy(&values_[i], &argument, sizeof argument);
          }
        },
        arguments[i]);
  }
}

}  // namespace fusecalc::cuda
