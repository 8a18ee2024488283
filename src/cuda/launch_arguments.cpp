#include "cuda/launch_arguments.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "cuda/driver.hpp"

namespace fusecalc::cuda {
namespace {

CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::kF64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::kF32:
    case DType::kTf32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
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

CUtensorMap encode(const TensorMap& map) {
  if (map.windows) return encode_windows(map);
  CUtensorMap encoded;
  constexpr std::array<std::uint32_t, 4> kEvery = {1, 1, 1, 1};
  check(driver().cuTensorMapEncodeTiled(
            &encoded, map_type(map.dtype), static_cast<cuuint32_t>(map.extents.size()),
            reinterpret_cast<void*>(map.at.buffer.id + map.at.offset), map.extents.data(),
            map.strides.data(), map.box.data(), kEvery.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
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
