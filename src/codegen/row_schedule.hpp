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
  unsigned width = 1;  // elements that a thread takes together, along memory
  // Blocks have whole lines of memory, so many taken as one: as many as whole groups divide
  // together. Their columns are merged in the end, with room for the states of so many lines.
  unsigned lines = 0;
  std::uint64_t room = 0;
  // Groups begin at multiples of the width in memory, wherever their row does: threads take what
  // the row has before its first and after its last whole group one by one.
  bool shifted = false;
  unsigned team = 1;         // threads that share a row
  unsigned threads = 1;      // of a block
  unsigned rounds = 1;       // how often a thread takes a group of its row: the loop's rounds
  std::uint64_t splits = 1;  // blocks that share a row
  bool cluster = false;      // they are a cluster, which holds the row together
  // Where what is held stays: the first rounds in shared memory, the others in registers; both are
  // 0 where nothing is held.
  unsigned in_shared = 0;
  unsigned in_registers = 0;
  bool as_stored = false;  // it is rounded to what it would be in memory
  // All rows of a block pass through shared memory, as the one run that they are in memory.
  bool in_runs = false;
  // What goes to shared memory is copied there asynchronously, all of it at once.
  bool copies = false;
  unsigned resident = 0;    // blocks that must fit a multiprocessor at once; 0: no demand
  std::uint64_t stays = 0;  // blocks in all, which go on with other rows; 0: a block for each

  unsigned teams() const { return threads / team; }
  bool holds() const { return in_shared + in_registers > 0; }
};

// What a row schedule is chosen for.
struct RowWork {
  const RowLayout& rows;
  unsigned widest_bytes = 4;           // of an element that is moved in full
  std::uint64_t held_bytes = 0;        // per element, over all values that stay on chip
  std::uint64_t stored_bytes = 0;      // the same, as they would be stored in memory
  std::uint64_t least_bytes = 4;       // of an element of one of them, as it would be stored
  bool holds = false;                  // whether they may
  bool read_once = false;              // they are needed once: to hold them is to read ahead
  bool plain = false;                  // all of them come from memory as they are
  std::uint64_t state_bytes = 0;       // of the largest state, per row
  bool waits = false;                  // blocks that share a row wait for each other in between
  bool writes = false;                 // a result as large as the rows
  bool adds_up = false;                // a loss: one result over all rows
  bool moments = false;                // means and variances are found
  bool places = false;                 // what is left of a row is a place in it
  bool shifts = false;                 // groups may begin anywhere in a row
  unsigned lines = 0;                  // RowSchedule::lines, if blocks may have whole lines
  std::uint64_t line_state_bytes = 0;  // then of all states of a column
  // Per element, of all memories that hold the rows one after another; 0 where others do, too.
  std::uint64_t run_bytes = 0;
};

RowSchedule schedule_rows(const RowWork& work, const Device& device);

// For users.
std::string describe(const RowSchedule& schedule);

}  // namespace fusecalc
