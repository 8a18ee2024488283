// Blocks of threads on the host. A block is a thread of the operating system, and its threads are
// fibers: one runs until it waits for others.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace host {

constexpr unsigned kWarp = 32;

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

// A thread of the block. `moved` is what it hands to the others of its warp.
struct Fiber {
  Dimensions place;
  ucontext_t context;  // that it begins with; from then on it jumps, without a system call
  bool begun = false;
  jmp_buf position;
  std::unique_ptr<char[]> stack;
  bool done = false;
  std::uint64_t moved = 0;
};

// Threads that wait for each other, as often as they like.
struct Barrier {
  unsigned expected = 0, arrived = 0, turn = 0;
};

// `asking` which of its lanes are side by side; the others that run have to ask, too, or to wait.
struct Warp {
  Barrier barrier;
  unsigned lanes = 0, asking = 0, elsewhere = 0, turn = 0;
  bool whole = false;
};

struct Block {
  Dimensions place, grid, size;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier all;
  Barrier named[16];
  Fiber* running = nullptr;
  ucontext_t start;
  jmp_buf scheduler;
  void (*entry)(void**) = nullptr;
  void** arguments = nullptr;
  std::vector<char> dynamic;
};
extern constinit thread_local Block* block;

inline void yield() {
  if (_setjmp(block->running->position) == 0) _longjmp(block->scheduler, 1);
}

inline Warp& warp_of(const Fiber& fiber) { return block->warps[fiber.place.x / kWarp]; }

inline void wait(Barrier& barrier) {
  if (++barrier.arrived >= barrier.expected) {
    barrier.arrived = 0;
    ++barrier.turn;
    return;
  }
  Warp& warp = warp_of(*block->running);
  ++warp.elsewhere;
  for (const unsigned turn = barrier.turn; barrier.turn == turn;) yield();
  --warp.elsewhere;
}

// Whether all lanes of the warp have come to the same place.
inline bool is_whole(Warp& warp) {
  ++warp.asking;
  for (const unsigned turn = warp.turn; warp.turn == turn;) {
    if (warp.asking + warp.elsewhere < warp.lanes) {
      yield();
    } else {
      warp.whole = warp.asking == kWarp;
      warp.asking = 0;
      ++warp.turn;
    }
  }
  return warp.whole;
}

struct Launch {
  Dimensions grid, size;
  std::uint32_t shared_bytes;
  bool together;  // blocks wait for each other
};

// Runs a kernel, whose entry finds its arguments behind the pointers.
void run_grid(const Launch& launch, void (*entry)(void**), void** arguments);

}  // namespace host
