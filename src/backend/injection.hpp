// What fusecalc and the library that it injects into a program tell each other: settings one way,
// records the other, in files of one folder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusecalc {

inline constexpr char kInjectionFile[] = "libfusecalc_inject.so";

// The environment variable that names the folder, for the program and its children.
inline constexpr char kInjectionFolderVariable[] = "FUSECALC_PROFILE_FOLDER";
inline constexpr char kSettingsFile[] = "settings";
inline constexpr char kRecordSuffix[] = ".records";

// Which launches are counted, and how.
struct InjectionSettings {
  bool counters = true;         // else times are recorded, which counting would change
  bool isolated = false;        // the L2 is cleaned before each launch and drained after it
  bool wait_for_start = false;  // begin at the program's cudaProfilerStart
  std::uint64_t skip = 0;       // launches that are let through first
  std::optional<std::uint64_t> count{};  // at most so many are counted
  std::string range{};                   // only inside an NVTX range of this name
  std::string kernel{};                  // only names that this regular expression finds
};

std::string settings_text(const InjectionSettings& settings);
InjectionSettings read_settings(std::string_view text);

// The kinds of records: the first field of a line. What follows is in src/profile/records.cpp.
enum class RecordKind {
  kProcess,  // pid, parent, wall clock in ns, version of fusecalc, command line
  kDevice,   // ordinal, UUID, memory clock in Hz, memory bus in bits
  kLaunch,   // index, thread, kind, device, context, stream, grid, block, correlation, name, ranges
  kBytes,    // index, read, write, launches counted before it in the same range
  kUncounted,  // index, why
  kCaptured,   // launches recorded into graphs so far
  kSkipped,    // launches let through by the settings so far
  kOvertaken,  // launches let through because one of another thread was counted for long, so far
  kTime,       // correlation, begin and end in ns, kind, name, grid, block: of a launch or a node
  kDrained,    // device, bytes written when what was left in the L2 was driven out
  kCost,       // ns spent counting so far, ns since the library was loaded, ns of opening counters
  kFault,      // why nothing more is counted on a device
  kEnd,        // the process ended by itself
};

// A line of fields separated by tabs, with its line end; tabs and line ends of fields are escaped.
std::string record_line(RecordKind kind, std::span<const std::string> fields);

struct Record {
  RecordKind kind{};
  std::vector<std::string> fields{};
};

// Empty for a line that is not one: the last one of a process that was killed.
std::optional<Record> read_record(std::string_view line);

}  // namespace fusecalc
