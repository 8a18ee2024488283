#pragma once

#include <cstdint>
#include <string>

#include "codegen/generate.hpp"
#include "graph/shape.hpp"

namespace fusecalc {

// How the rows of a reduction are spread over threads. A team of threads has one row (rows that run
// along memory), or one group of neighbouring columns (rows that run across it).
struct RowSchedule {
  bool columns = false;
  unsigned width = 1;        // elements that a thread takes together, along memory
  unsigned team = 1;         // threads that share a row
  unsigned threads = 1;      // of a block
  unsigned looks = 1;        // how often a thread takes a group of its row: the loop's rounds
  std::uint64_t splits = 1;  // blocks that share a row
  enum class Keep : std::uint8_t { kNothing, kRegisters, kShared } keep = Keep::kNothing;

  unsigned teams() const { return threads / team; }
};

// What there is to spread.
struct RowWork {
  const RowLayout& rows;
  unsigned widest_bytes = 4;      // of an element that is moved in full
  std::uint64_t held_bytes = 0;   // per element, over all values that stay on chip
  bool holds = false;             // whether they may
  std::uint64_t state_bytes = 0;  // of the largest state, per row
  bool waits = false;             // blocks that share a row wait for each other in between
};

RowSchedule schedule_rows(const RowWork& work, const Target& target);

// For people.
std::string describe(const RowSchedule& schedule);

}  // namespace fusecalc
