#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusecalc {

// A dim and the values that it takes one after the other; all different, and at least one.
struct SweepAxis {
  std::string name;
  std::vector<std::uint64_t> values;
};

// "T=1024..65536*2", "T=64..512+64", "T=2048,4096", or a list of such. Throws std::invalid_argument
// with what is wrong.
SweepAxis parse_axis(const std::string& text);

}  // namespace fusecalc
