#pragma once

namespace fusecalc {

// A thread's own object that may be used at any time. Plain thread_local objects may not: a program
// still calls CUDA from the destructors of its static objects, and when these run, the thread_local
// objects of the main thread are gone. This one is made again if it has to be, and then it stays.
template <typename T>
class PerThread {
 public:
  static T& get() {
    T*& object = place();
    if (object == nullptr) {
      object = new T;
      thread_local const AtExit at_exit;
      static_cast<void>(at_exit);
    }
    return *object;
  }

 private:
  struct AtExit {
    AtExit() = default;
    AtExit(const AtExit&) = delete;
    AtExit& operator=(const AtExit&) = delete;
    ~AtExit() {
      delete place();
      place() = nullptr;
    }
  };
  // A pointer needs no destructor, so it can be read when the thread's objects are gone.
  static T*& place() {
    thread_local T* object = nullptr;
    return object;
  }
};

}  // namespace fusecalc
