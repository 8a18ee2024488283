#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/random_drawer.hpp"

namespace fusecalc::testing {

// What fits the ops of one family.
struct RandomRule {
  OpFamily family;
  void (*propose)(Drawer&, const OpRow&, Line&);
};
// Those of scans, sorts, and ops whose results depend on where their elements are.
std::span<const RandomRule> index_rules();

// Those of convolutions, pooling, upsampling and gradients.
std::span<const RandomRule> window_rules();

// Attributes and their values, as JSON.
std::string list(std::string_view key, const std::vector<std::int64_t>& values);
std::string flag(std::string_view key, bool value);
std::string word(std::string_view key, std::string_view value);
std::string number(Drawer& d);
std::vector<std::int64_t> signed_of(const Shape& shape);
// Some axis, now and then counted from the end.
std::int64_t some_axis(Drawer& d, std::size_t rank);
std::string combining(Drawer& d);

}  // namespace fusecalc::testing
