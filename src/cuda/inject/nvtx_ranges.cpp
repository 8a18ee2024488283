// The interface between NVTX and a tool, as nvtx3/nvtxDetail/nvtxTypes.h lays it down: NVTX hands
// the tool tables of pointers to its functions, which the tool points at its own.

#include "cuda/inject/nvtx_ranges.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "core/per_thread.hpp"

namespace fusecalc::cuda {
namespace {

using Function = void (*)();

struct ExportedTables {
  std::size_t bytes;
  int (*functions_of)(unsigned module, Function*** table, unsigned* count);
};

// The start of nvtxEventAttributes_t: these members never moved.
struct EventAttributes {
  std::uint16_t version;
  std::uint16_t bytes;
  std::uint32_t category;
  std::int32_t colour_kind;
  std::uint32_t colour;
  std::int32_t payload_kind;
  std::int32_t reserved;
  std::uint64_t payload;
  std::int32_t message_kind;
  const void* message;
};
constexpr std::int32_t kAsciiMessage = 1;
constexpr std::int32_t kRegisteredMessage = 3;

struct RegisteredString {
  std::string text;
};

std::string message_of(const EventAttributes* event) {
  if (event == nullptr || event->message == nullptr) return {};
  if (event->message_kind == kAsciiMessage) return static_cast<const char*>(event->message);
  if (event->message_kind == kRegisteredMessage) {
    return static_cast<const RegisteredString*>(event->message)->text;
  }
  return {};
}

std::string text_of(const char* message) { return message == nullptr ? "" : message; }

// Never destroyed: a program may close ranges while it ends.
struct Ranges {
  std::mutex mutex;
  std::uint64_t begun = 0;
  std::map<std::uint64_t, std::string> started;
};

Ranges& ranges() {
  static Ranges& instance = *new Ranges;
  return instance;
}

std::vector<std::string>& pushed() { return PerThread<std::vector<std::string>>::get(); }

int push(std::string name) {
  pushed().push_back(std::move(name));
  return static_cast<int>(pushed().size()) - 1;
}

int push_plain(const char* message) { return push(text_of(message)); }
int push_event(const EventAttributes* event) { return push(message_of(event)); }
int push_in_domain(void* /*domain*/, const EventAttributes* event) {
  return push(message_of(event));
}

// A range may have been pushed before the library was loaded.
int pop() {
  if (pushed().empty()) return -1;
  pushed().pop_back();
  return static_cast<int>(pushed().size());
}
int pop_in_domain(void* /*domain*/) { return pop(); }

std::uint64_t start(std::string name) {
  const std::lock_guard lock(ranges().mutex);
  ranges().started.emplace(++ranges().begun, std::move(name));
  return ranges().begun;
}

std::uint64_t start_plain(const char* message) { return start(text_of(message)); }
std::uint64_t start_event(const EventAttributes* event) { return start(message_of(event)); }
std::uint64_t start_in_domain(void* /*domain*/, const EventAttributes* event) {
  return start(message_of(event));
}

void end(std::uint64_t range) {
  const std::lock_guard lock(ranges().mutex);
  ranges().started.erase(range);
}
void end_in_domain(void* /*domain*/, std::uint64_t range) { end(range); }

const void* register_string(void* /*domain*/, const char* text) {
  return new RegisteredString{text_of(text)};  // lives as long as the program
}

struct Hook {
  unsigned module;
  unsigned place;
  Function function;
};

template <typename Any>
Function as_function(Any* function) {
  return reinterpret_cast<Function>(function);
}

bool hook(const ExportedTables& tables) {
  constexpr unsigned kCore = 1;
  constexpr unsigned kCore2 = 5;
  const Hook hooks[] = {
      {kCore, 4, as_function(start_event)},
      {kCore, 5, as_function(start_plain)},
      {kCore, 7, as_function(end)},
      {kCore, 8, as_function(push_event)},
      {kCore, 9, as_function(push_plain)},
      {kCore, 11, as_function(pop)},
      {kCore2, 2, as_function(start_in_domain)},
      {kCore2, 3, as_function(end_in_domain)},
      {kCore2, 4, as_function(push_in_domain)},
      {kCore2, 5, as_function(pop_in_domain)},
      {kCore2, 10, as_function(register_string)},
  };
  for (const Hook& entry : hooks) {
    Function** table = nullptr;
    unsigned count = 0;
    if (tables.functions_of(entry.module, &table, &count) == 0 || table == nullptr) return false;
    if (entry.place < count && table[entry.place] != nullptr) *table[entry.place] = entry.function;
  }
  return true;
}

}  // namespace

std::vector<std::string> open_nvtx_ranges() {
  std::vector<std::string> open;
  {
    const std::lock_guard lock(ranges().mutex);
    for (const auto& [id, name] : ranges().started) open.push_back(name);
  }
  open.insert(open.end(), pushed().begin(), pushed().end());
  return open;
}

}  // namespace fusecalc::cuda

// NVTX calls it at the program's first NVTX call, with a function that hands out its tables.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*export_table)(std::uint32_t)) {
  constexpr std::uint32_t kCallbacks = 1;
  const void* tables = export_table(kCallbacks);
  if (tables == nullptr) return 0;
  return fusecalc::cuda::hook(*static_cast<const fusecalc::cuda::ExportedTables*>(tables)) ? 1 : 0;
}
