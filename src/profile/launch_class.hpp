#pragma once

#include <cstdint>
#include <string_view>

#include "profile/launch.hpp"

namespace fusecalc {

// What a launch computes, as its name tells.
enum class LaunchClass : std::uint8_t {
  kUnknown,
  kProduct,     // a matrix product or a convolution of a library
  kAttention,   // all of it
  kRows,        // a normalisation or softmax
  kScaleShift,  // a batch norm by known statistics, or the second half of one: pointwise
  kReduce,
  kPointwise,
  kCopy,  // a kernel that copies, maybe as another type or in another order
  kMovement,
  kLayout,    // a library's change of layout or padding, around a convolution
  kTransfer,  // a copy or a fill
  kGraph,     // any number of kernels
};

LaunchClass classify(const ProfiledLaunch& launch);

}  // namespace fusecalc
