#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace fusecalc::testing {

// The same numbers on every platform.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(engine_() % bound); }
  bool chance(std::size_t percent) { return below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

// An op list of about `ops` ops (views included) as JSON: pointwise work and broadcasts, reductions
// over different axes, normalisations, movement, views, contractions with epilogues, attention as
// primitives, partial and in-place writes, several outputs; rows that fit on chip and rows that do
// not. Rarely, an in-place op makes the list one that build_graph refuses.
std::string random_op_list(std::uint64_t seed, std::size_t ops);

}  // namespace fusecalc::testing
