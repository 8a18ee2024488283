#pragma once

#include <cstdint>
#include <string_view>

#include "profile/launch.hpp"

namespace fusecalc {

// What a launch computes, as its name tells.
enum class LaunchClass : std::uint8_t {
  kUnknown,
  kProduct,    // a matrix product or a convolution of a library
  kAttention,  // all of it
  kRows,       // a normalisation or softmax
  kReduce,
  kPointwise,
  kMovement,
  kTransfer,  // a copy or a fill
  kGraph,     // any number of kernels
};

LaunchClass classify(const ProfiledLaunch& launch);

}  // namespace fusecalc
