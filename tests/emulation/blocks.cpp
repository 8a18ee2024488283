#include "emulation/blocks.hpp"

#include <cstddef>
#include <thread>

namespace host {

constinit thread_local Block* block = nullptr;

namespace {

void resume(Fiber& fiber) {
  block->running = &fiber;
  if (_setjmp(block->scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.position, 1);
  fiber.begun = true;
  swapcontext(&block->start, &fiber.context);
}

// Who has ended keeps nobody waiting.
void leave(Barrier& barrier) {
  --barrier.expected;
  if (barrier.arrived > 0 && barrier.arrived >= barrier.expected) {
    barrier.arrived = 0;
    ++barrier.turn;
  }
}

void run_fiber() {
  Fiber& fiber = *block->running;
  block->entry(block->arguments);
  fiber.done = true;
  Warp& warp = warp_of(fiber);
  ++warp.elsewhere;
  leave(warp.barrier);
  leave(block->all);
  yield();
}

void run_block(Block& own, unsigned threads) {
  constexpr std::size_t kStack = std::size_t{64} << 10U;
  block = &own;
  own.all = {.expected = threads};
  own.warps.assign((threads + kWarp - 1) / kWarp, {});
  own.fibers.resize(threads);
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = own.fibers[i];
    ++own.warps[i / kWarp].lanes;
    ++own.warps[i / kWarp].barrier.expected;
    if (!fiber.stack) fiber.stack = std::unique_ptr<char[]>(new char[kStack]);
    fiber.place = {i, 0, 0};
    fiber.done = fiber.begun = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (Fiber& fiber : own.fibers) {
      if (fiber.done) continue;
      any = true;
      resume(fiber);
    }
  }
}

}  // namespace

void run_grid(const Launch& launch, void (*entry)(void**), void** arguments) {
  const auto run = [&](Block& own, unsigned number) {
    own.place = {number % launch.grid.x, number / launch.grid.x % launch.grid.y,
                 number / launch.grid.x / launch.grid.y};
    own.grid = launch.grid;
    own.size = launch.size;
    own.entry = entry;
    own.arguments = arguments;
    own.dynamic.assign(launch.shared_bytes + 1024, char(0x7f));
    run_block(own, launch.size.x);
  };
  const unsigned blocks = launch.grid.x * launch.grid.y * launch.grid.z;
  if (!launch.together) {
    Block own;
    for (unsigned i = 0; i < blocks; ++i) run(own, i);
    return;
  }
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < blocks; ++i) {
    threads.emplace_back([&run, i] {
      Block own;
      run(own, i);
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace host
