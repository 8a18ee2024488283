#include "report/profile_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostNotes = 12;
constexpr std::size_t kFusionsTold = 3;

std::string percent_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

ProfileRow row_of(const ProfiledKernel& kernel, const ProfiledProcess& process) {
  const std::optional<double> rate = kernel.bytes_per_second();
  const bool counted = kernel.counted > 0;
  const double peak = process.peak_bytes_per_s;
  const std::string_view bound = bound_of(kernel, peak);
  return {.kernel = kernel.name,
          .cells = {grouped_digits(kernel.launches), counted ? human_bytes(kernel.dram.read) : "-",
                    counted ? human_bytes(kernel.dram.write) : "-",
                    kernel.timed > 0 ? human_seconds(kernel.seconds) : "-",
                    percent_of(kernel.dram.total(), process.totals.total()),
                    rate ? fmt::format("{:.0f}", *rate / 1e9) : "-",
                    rate && peak > 0 ? fmt::format("{:.0f} %", 100 * *rate / peak) : "-",
                    bound.empty() ? "-" : std::string(bound)}};
}

// "counting took 0.8 s of 2.1 s: 0.6 s to begin, then 110 us for each counted launch, with the
// launch itself".
std::string cost_in_words(const ProfiledProcess& process) {
  std::string text = fmt::format("counting took {} of {}", human_seconds(process.cost_s),
                                 human_seconds(process.wall_s));
  std::uint64_t counted = 0;
  for (const ProfiledKernel& kernel : process.kernels) counted += kernel.counted;
  if (counted == 0 || process.cost_s <= process.opening_s) return text;
  const double each = (process.cost_s - process.opening_s) / static_cast<double>(counted);
  return text +
         fmt::format(": {} to begin, then {} for each counted launch, with the launch itself",
                     human_seconds(process.opening_s), human_seconds(each));
}

std::string op_names(const Alignment& alignment, const std::vector<OpId>& ops) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, ops.size()); ++i) {
    text += (i > 0 ? "+" : "") + alignment.ops[ops[i]];
  }
  if (ops.size() > kMost) text += fmt::format("+{} more", ops.size() - kMost);
  return text;
}

}  // namespace

std::vector<ProfileRow> profile_rows(const ProfiledProcess& process, std::size_t most) {
  std::vector<ProfileRow> rows;
  const std::size_t shown = std::min(most, process.kernels.size());
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(row_of(process.kernels[i], process));
  if (process.kernels.size() > shown) {
    ProfiledKernel rest{.name = fmt::format("{} more", process.kernels.size() - shown)};
    std::uint64_t read = 0;
    std::uint64_t write = 0;
    for (std::size_t i = shown; i < process.kernels.size(); ++i) {
      const ProfiledKernel& kernel = process.kernels[i];
      rest.launches += kernel.launches;
      rest.counted += kernel.counted;
      rest.timed += kernel.timed;
      rest.seconds += kernel.seconds;
      rest.timed_bytes += kernel.timed_bytes;
      read += kernel.dram.read;
      write += kernel.dram.write;
    }
    rest.dram = {.read = read, .write = write};
    rows.push_back(row_of(rest, process));
  }
  for (std::size_t i = 0; i < std::min(most, process.graph_kernels.size()); ++i) {
    const ProfiledKernel& kernel = process.graph_kernels[i];
    rows.push_back({.kernel = "in graphs: " + kernel.name,
                    .cells = {grouped_digits(kernel.launches), "-", "-",
                              human_seconds(kernel.seconds), "-", "-", "-", "-"}});
  }
  if (process.drained.value_or(0) > 0) {
    rows.push_back(
        {.kernel = "left in the L2 at the end",
         .cells = {"-", "-", human_bytes(*process.drained), "-",
                   percent_of(*process.drained, process.totals.total()), "-", "-", "-"}});
  }
  rows.push_back(
      {.kernel = "total",
       .cells = {grouped_digits(process.launches.size()), human_bytes(process.totals.read),
                 human_bytes(process.totals.write),
                 process.seconds > 0 ? human_seconds(process.seconds) : "-", "", "", "", ""}});
  return rows;
}

std::string verdict_of(const Profile& profile) {
  if (!profile.alignment) return "";
  const Alignment& alignment = *profile.alignment;
  if (alignment.matches.empty()) {
    return "no launch matches " + printable(alignment.document) + ": is it this program's op list?";
  }
  std::string text = "moved " + human_bytes(alignment.moved.total());
  for (std::size_t i = 0; i < alignment.plans.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? ": " : ", ", name_of(alignment.plans[i].first),
                        human_bytes(alignment.plans[i].second));
  }
  const std::size_t told = std::min(kFusionsTold, alignment.fusions.size());
  for (std::size_t i = 0; i < told; ++i) {
    const MissedFusion& fusion = alignment.fusions[i];
    text += fmt::format("{}{} ({}{})", i == 0 ? "; the fusions that would save most: " : ", ",
                        op_names(alignment, fusion.ops), human_bytes(fusion.bytes),
                        fusion.seconds ? ", about " + human_seconds(*fusion.seconds) : "");
  }
  return text;
}

std::vector<std::string> profile_notes(const Profile& profile, const ProfiledProcess& process) {
  std::vector<std::string> notes;
  for (const std::string& fault : process.faults) notes.push_back(fault);
  for (std::size_t i = 0; i < process.uncounted.size(); ++i) {
    if (i == kMostNotes) {
      notes.push_back(fmt::format("{} more kinds of launches were not counted: see the JSON",
                                  process.uncounted.size() - i));
      break;
    }
    const Uncounted& row = process.uncounted[i];
    notes.push_back(
        fmt::format("not counted: {} ({}): {}", row.what, grouped_digits(row.launches), row.why));
  }
  if (!profile.isolated && !process.drained && !process.launches.empty()) {
    notes.emplace_back(
        "what was still in the L2 at the end was not written out, so that up to its "
        "size is missing from the writes");
  }
  if (!profile.isolated) {
    notes.emplace_back(
        "a write is charged to the launch that drives it out of the L2; reads and "
        "totals are exact");
  }
  if (process.wall_s > 0) {
    notes.push_back(cost_in_words(process));
  }
  if (profile.alignment && &process == &profile.processes[profile.aligned_process]) {
    const Alignment& alignment = *profile.alignment;
    notes.push_back(fmt::format(
        "{} of what the last of {} runs of {} moved is attributed to its ops; {} launches match "
        "nothing, {} ops were found in no launch",
        percent_of(alignment.attributed, alignment.moved.total()), alignment.runs,
        alignment.document, alignment.unmatched.size(), alignment.missing.size()));
    if (!alignment.layouts.empty()) {
      notes.push_back(fmt::format(
          "{} ({}) of it is overhead of layouts: {} launches that change them or pad for "
          "convolutions",
          human_bytes(alignment.layout_bytes),
          percent_of(alignment.layout_bytes, alignment.moved.total()), alignment.layouts.size()));
    }
  }
  return notes;
}

std::string profile_head(const Profile& profile) {
  const Bytes totals = profile.totals();
  return fmt::format("{} launches, {} counted: {} read, {} written",
                     grouped_digits(profile.launches()), grouped_digits(profile.counted()),
                     human_bytes(totals.read), human_bytes(totals.write));
}

}  // namespace fusecalc
