#include "predict/prediction.hpp"

#include <array>

namespace fusecalc {

std::string_view name_of(Bound bound) {
  static constexpr std::array<std::string_view, 5> kNames = {"memory", "l2", "compute", "launch",
                                                             "latency"};
  return kNames[static_cast<std::size_t>(bound)];
}

}  // namespace fusecalc
