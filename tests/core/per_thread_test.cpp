#include "core/per_thread.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace fusecalc {
namespace {

const std::string kLong(100, 'x');  // on the heap

struct Name {
  std::string text;
};

std::string found_at_exit;

// Destroyed after the thread's Name, if it was made before it.
struct UsesNameAtExit {
  bool used = false;
  ~UsesNameAtExit() {
    if (!used) return;
    found_at_exit = PerThread<Name>::get().text;
    PerThread<Name>::get().text = kLong;
    found_at_exit += PerThread<Name>::get().text;
    delete &PerThread<Name>::get();  // made again, it would stay
  }
};

TEST_CASE("an object of a thread is its own, and keeps what it holds") {
  PerThread<Name>::get().text = "main";
  std::thread([] { PerThread<Name>::get().text = "other"; }).join();
  CHECK(PerThread<Name>::get().text == "main");
}

// With a plain thread_local object this writes to memory that was freed.
TEST_CASE("an object of a thread can be used while the thread's other objects are destroyed") {
  std::thread([] {
    thread_local UsesNameAtExit last;
    last.used = true;
    PerThread<Name>::get().text = kLong;
  }).join();
  CHECK(found_at_exit == kLong);
}

}  // namespace
}  // namespace fusecalc
