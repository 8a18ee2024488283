#pragma once

#include <cstddef>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace fusecalc {

// How many threads share work on a graph of so many ops: one, where starting another takes longer
// than it saves.
inline std::size_t threads_for(std::size_t ops) {
  constexpr std::size_t kFewOps = 2000;
  const unsigned processors = std::thread::hardware_concurrency();
  return ops < kFewOps || processors < 2 ? 1 : processors;
}

// Work on a graph of so many ops, done at once in a thread of its own or, where one thread does
// all, when its result is asked for.
template <typename Work>
auto started(std::size_t ops, Work work) {
  const std::launch when = threads_for(ops) > 1 ? std::launch::async : std::launch::deferred;
  return std::async(when, std::move(work));
}

// A value that is made by the thread that first asks for it. Others that ask meanwhile wait.
template <typename T>
class Lazy {
 public:
  template <typename Make>
  const T& get(const Make& make) {
    std::call_once(made_, [&] { value_.emplace(make()); });
    return *value_;
  }

 private:
  std::once_flag made_;
  std::optional<T> value_;
};

}  // namespace fusecalc
