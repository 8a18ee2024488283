#include "profile/records.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "backend/injection.hpp"
#include "backend/kernel_name.hpp"

namespace fusecalc {
namespace {

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::array<std::uint64_t, 3> triple(const std::string& text) {
  std::array<std::uint64_t, 3> values{};
  std::istringstream stream(text);
  stream >> values[0] >> values[1] >> values[2];
  return values;
}

std::vector<std::string> split_ranges(std::string_view text) {
  std::vector<std::string> ranges;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\x1f'), text.size());
    ranges.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ranges;
}

// "cuMemcpyDtoDAsync_v2" becomes "copy device to device", and a kernel's symbol its short name.
std::string name_of_work(const std::string& call, LaunchKind kind) {
  if (kind == LaunchKind::kKernel) return short_kernel_name(demangled(call));
  if (kind == LaunchKind::kGraph) return "graph";
  if (kind == LaunchKind::kFill) return "fill";
  const auto has = [&](std::string_view part) { return call.find(part) != std::string::npos; };
  if (has("HtoD") || has("HtoA")) return "copy host to device";
  if (has("DtoH") || has("AtoH")) return "copy device to host";
  if (has("DtoD") || has("AtoA") || has("AtoD") || has("DtoA") || has("Peer")) {
    return "copy device to device";
  }
  return has("Prefetch") ? "prefetch" : "copy";
}

// A kernel, copy or fill, as the GPU ran it.
struct TimedWork {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  GraphNode node{};
};

// The most time first.
std::vector<ProfiledKernel> kernels_of_graphs(const std::vector<ProfiledLaunch>& launches) {
  std::map<std::pair<LaunchKind, std::string>, ProfiledKernel> found;
  for (const ProfiledLaunch& launch : launches) {
    for (const GraphNode& node : launch.nodes) {
      ProfiledKernel& kernel = found[{node.kind, node.name}];
      kernel.name = node.name;
      kernel.kind = node.kind;
      ++kernel.launches;
      ++kernel.timed;
      kernel.seconds += node.seconds;
    }
  }
  std::vector<ProfiledKernel> kernels;
  for (auto& [key, kernel] : found) kernels.push_back(std::move(kernel));
  std::ranges::stable_sort(kernels, std::greater{}, &ProfiledKernel::seconds);
  return kernels;
}

void add_up(ProfiledProcess& process) {
  process.kernels.clear();
  process.totals = {};
  process.seconds = 0;
  std::map<std::pair<LaunchKind, std::string>, ProfiledKernel> kernels;
  for (const ProfiledLaunch& launch : process.launches) {
    ProfiledKernel& kernel = kernels[{launch.kind, launch.name}];
    kernel.name = launch.name;
    kernel.kind = launch.kind;
    ++kernel.launches;
    if (launch.dram) {
      ++kernel.counted;
      kernel.dram.read += launch.dram->read;
      kernel.dram.write += launch.dram->write;
      process.totals.read += launch.dram->read;
      process.totals.write += launch.dram->write;
    }
    if (!launch.seconds) continue;
    ++kernel.timed;
    kernel.seconds += *launch.seconds;
    process.seconds += *launch.seconds;
    if (launch.dram) kernel.timed_bytes += launch.dram->total();
  }
  process.totals.write += process.drained.value_or(0);
  for (auto& [key, kernel] : kernels) process.kernels.push_back(std::move(kernel));
  std::ranges::stable_sort(process.kernels, [](const auto& a, const auto& b) {
    return a.dram.total() > b.dram.total();
  });
  process.graph_kernels = kernels_of_graphs(process.launches);
}

class RecordReader {
 public:
  void take(const Record& record) {
    const auto& field = record.fields;
    const auto has = [&](std::size_t count) { return field.size() >= count; };
    switch (record.kind) {
      case RecordKind::kProcess:
        if (!has(5)) break;
        process_.pid = number(field[0]);
        process_.command = field[4];
        break;
      case RecordKind::kDevice:
        if (has(4)) take_device(field);
        break;
      case RecordKind::kLaunch:
        if (has(11)) take_launch(field);
        break;
      case RecordKind::kBytes:
        if (has(4)) take_bytes(field);
        break;
      case RecordKind::kUncounted:
        if (has(2)) reasons_[number(field[0])] = field[1];
        break;
      case RecordKind::kCaptured:
        if (has(1)) captured_ = number(field[0]);
        break;
      case RecordKind::kSkipped:
        if (has(1)) skipped_ = number(field[0]);
        break;
      case RecordKind::kOvertaken:
        if (has(1)) overtaken_ = number(field[0]);
        break;
      case RecordKind::kTime:
        if (has(7)) take_time(field);
        break;
      case RecordKind::kDrained:
        if (has(2)) process_.drained = process_.drained.value_or(0) + number(field[1]);
        break;
      case RecordKind::kCost:
        if (!has(3)) break;
        process_.cost_s = static_cast<double>(number(field[0])) * 1e-9;
        process_.wall_s = static_cast<double>(number(field[1])) * 1e-9;
        process_.opening_s = static_cast<double>(number(field[2])) * 1e-9;
        break;
      case RecordKind::kFault:
        if (has(1)) process_.faults.push_back(field[0]);
        break;
      case RecordKind::kEnd: process_.ended = true; break;
    }
  }

  ProfiledProcess finish() {
    set_times();
    name_uncounted();
    add_up(process_);
    return std::move(process_);
  }

 private:
  void take_device(const std::vector<std::string>& field) {
    if (process_.peak_bytes_per_s > 0) return;
    // Two transfers a clock.
    process_.peak_bytes_per_s =
        static_cast<double>(number(field[2])) * 2 * static_cast<double>(number(field[3])) / 8;
  }

  void take_launch(const std::vector<std::string>& field) {
    ProfiledLaunch launch;
    launch.index = number(field[0]);
    launch.thread = number(field[1]);
    launch.kind = launch_kind_named(field[2]);
    launch.device = number(field[3]);
    launch.stream = number(field[5]);
    launch.grid = triple(field[6]);
    launch.block = triple(field[7]);
    launch.name = name_of_work(field[9], launch.kind);
    launch.ranges = split_ranges(field[10]);
    at_[launch.index] = process_.launches.size();
    correlations_.push_back(number(field[8]));
    process_.launches.push_back(std::move(launch));
  }

  void take_bytes(const std::vector<std::string>& field) {
    const auto found = at_.find(number(field[0]));
    if (found == at_.end()) return;
    ProfiledLaunch& launch = process_.launches[found->second];
    launch.dram = Bytes{.read = number(field[1]), .write = number(field[2])};
    launch.together = number(field[3]);
  }

  void take_time(const std::vector<std::string>& field) {
    TimedWork work{.begin = number(field[1]), .end = number(field[2])};
    GraphNode& node = work.node;
    node.kind = launch_kind_named(field[3]);
    node.name = name_of_work(field[4], node.kind);
    node.grid = triple(field[5]);
    node.block = triple(field[6]);
    node.seconds = static_cast<double>(work.end - work.begin) * 1e-9;
    times_[number(field[0])].push_back(std::move(work));
  }

  // A graph has one correlation for all of its nodes: it takes from the first begin to the last
  // end.
  void set_times() {
    for (std::size_t i = 0; i < process_.launches.size(); ++i) {
      const auto found = times_.find(correlations_[i]);
      if (found == times_.end()) continue;
      std::vector<TimedWork>& times = found->second;
      std::ranges::stable_sort(times, {}, &TimedWork::begin);
      const std::uint64_t end = std::ranges::max(times, {}, &TimedWork::end).end;
      ProfiledLaunch& launch = process_.launches[i];
      launch.seconds = static_cast<double>(end - times.front().begin) * 1e-9;
      if (launch.kind != LaunchKind::kGraph) continue;
      for (TimedWork& work : times) launch.nodes.push_back(std::move(work.node));
    }
  }

  void name_uncounted() {
    std::map<std::pair<std::string, std::string>, std::uint64_t> found;
    std::uint64_t with_next = 0;
    for (std::size_t i = process_.launches.size(); i-- > 0;) {
      const ProfiledLaunch& launch = process_.launches[i];
      if (launch.dram) {
        with_next = launch.together;
        continue;
      }
      const auto reason = reasons_.find(launch.index);
      if (reason != reasons_.end()) {
        ++found[{launch.name, reason->second}];
      } else if (with_next > 0) {
        --with_next;
        ++found[{launch.name, "it ended only after a later launch, and is counted with that"}];
      } else {
        ++found[{launch.name, "the process ended before its counters were read"}];
      }
    }
    for (const auto& [key, launches] : found) {
      process_.uncounted.push_back({key.first, launches, key.second});
    }
    if (captured_ > 0) {
      process_.uncounted.push_back(
          {"launches recorded into graphs", captured_,
           "they run when the graph is launched, which is counted as a whole"});
    }
    if (skipped_ > 0) {
      process_.uncounted.push_back({"launches that were not asked for", skipped_,
                                    "--skip, --count, --range, --kernel or cudaProfilerStop"});
    }
    if (overtaken_ > 0) {
      process_.uncounted.push_back({"launches of further threads", overtaken_,
                                    "a launch of another thread was being counted for ten "
                                    "seconds"});
    }
  }

  ProfiledProcess process_;
  std::unordered_map<std::uint64_t, std::size_t> at_;  // launches by index
  std::vector<std::uint64_t> correlations_;
  std::unordered_map<std::uint64_t, std::vector<TimedWork>> times_;  // by correlation
  std::unordered_map<std::uint64_t, std::string> reasons_;
  std::uint64_t captured_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t overtaken_ = 0;
};

}  // namespace

ProfiledProcess read_records(std::string_view text) {
  RecordReader reader;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // it was being written
    if (const auto record = read_record(text.substr(0, end))) reader.take(*record);
    text.remove_prefix(end + 1);
  }
  return reader.finish();
}

std::size_t take_times(std::vector<ProfiledProcess>& counted,
                       const std::vector<ProfiledProcess>& timed) {
  std::size_t without = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    using Key = std::pair<LaunchKind, std::string>;
    std::map<Key, std::vector<const ProfiledLaunch*>> second;
    if (i < timed.size()) {
      for (const ProfiledLaunch& launch : timed[i].launches) {
        second[{launch.kind, launch.name}].push_back(&launch);
      }
    }
    std::map<Key, std::size_t> first;
    for (const ProfiledLaunch& launch : counted[i].launches) ++first[{launch.kind, launch.name}];
    std::map<Key, std::size_t> place;
    for (ProfiledLaunch& launch : counted[i].launches) {
      const Key key{launch.kind, launch.name};
      const auto& same = second[key];
      if (same.size() == first[key]) {
        const ProfiledLaunch& other = *same[place[key]++];
        launch.seconds = other.seconds;
        launch.nodes = other.nodes;
      }
      if (!launch.seconds) ++without;
    }
    add_up(counted[i]);
  }
  return without;
}

}  // namespace fusecalc
