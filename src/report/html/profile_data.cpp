#include "report/html/profile_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/format.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "json/writer.hpp"

namespace fusecalc {
namespace {

// About 0.6 MB for all processes together.
constexpr std::size_t kMostBars = 15'000;
constexpr std::size_t kNames = 1'000;  // of kernels, each process

// One launch, or several short ones that follow each other.
struct Bar {
  std::size_t first = 0;  // its place among the launches
  std::size_t launches = 0;
  double seconds = 0;
  std::optional<std::uint64_t> bytes{};
};

bool timed(const ProfiledProcess& process) { return process.seconds > 0; }

// Without times all launches are equally wide.
double width_of(const ProfiledProcess& process, const ProfiledLaunch& launch) {
  return timed(process) ? launch.seconds.value_or(0) : 1;
}

// Launches that have a width: those without a time cannot be drawn where others have one.
std::size_t drawn_launches(const ProfiledProcess& process) {
  return static_cast<std::size_t>(std::ranges::count_if(
      process.launches,
      [&](const ProfiledLaunch& launch) { return width_of(process, launch) > 0; }));
}

std::vector<Bar> bars_of(const ProfiledProcess& process, std::size_t most) {
  double total = 0;
  for (const ProfiledLaunch& launch : process.launches) total += width_of(process, launch);
  // Every second bar is at least that wide, so that there are at most `most`.
  const double least = drawn_launches(process) <= most ? 0 : 2 * total / static_cast<double>(most);
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < process.launches.size(); ++i) {
    const ProfiledLaunch& launch = process.launches[i];
    const double width = width_of(process, launch);
    if (width <= 0) continue;
    if (bars.empty() || bars.back().seconds + width > least) bars.push_back({.first = i});
    Bar& bar = bars.back();
    ++bar.launches;
    bar.seconds += width;
    if (launch.dram) bar.bytes = bar.bytes.value_or(0) + launch.dram->total();
  }
  return bars;
}

std::size_t share_of_bars(const Profile& profile) {
  return kMostBars / std::max<std::size_t>(profile.processes.size(), 1);
}

// "name first launches nanoseconds bytes" of each bar, separated by spaces.
std::string bars_in_words(const ProfiledProcess& process, std::size_t most) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < std::min(process.kernels.size(), kNames); ++i) {
    places.emplace(process.kernels[i].name, i);
  }
  std::string text;
  for (const Bar& bar : bars_of(process, most)) {
    const ProfiledLaunch& launch = process.launches[bar.first];
    const auto place = places.find(launch.name);
    const bool named = bar.launches == 1 && place != places.end();
    text += fmt::format("{}{} {} {} {:.0f} {}", text.empty() ? "" : " ",
                        named ? std::to_string(place->second) : "-", launch.index, bar.launches,
                        timed(process) ? bar.seconds * 1e9 : bar.seconds,
                        bar.bytes ? std::to_string(*bar.bytes) : "-");
  }
  return text;
}

}  // namespace

std::string timeline_json(const Profile& profile) {
  Output output = Output::memory();
  JsonWriter json(output);
  json.begin_object(JsonWriter::Layout::kCompact).key("processes").begin_array();
  for (const ProfiledProcess& process : profile.processes) {
    json.begin_object().member("timed", timed(process)).member("peak", process.peak_bytes_per_s);
    json.key("names").begin_array();
    for (std::size_t i = 0; i < std::min(process.kernels.size(), kNames); ++i) {
      json.value(printable(process.kernels[i].name, kNoLimit));
    }
    json.end().member("bars", bars_in_words(process, share_of_bars(profile))).end();
  }
  json.end().end();
  return output.take();
}

std::string timeline_element(const Profile& profile, std::size_t process) {
  const ProfiledProcess& shown = profile.processes[process];
  const std::size_t drawn = drawn_launches(shown);
  if (drawn == 0) return "";
  std::string text = fmt::format("<div class=\"timeline\" data-process=\"{}\"></div>\n", process);
  if (drawn > share_of_bars(profile)) {
    text += fmt::format(
        "<p class=\"left-out\">Of the {} launches the shortest are drawn together with their "
        "neighbours; json has each.</p>\n",
        grouped_digits(drawn));
  }
  if (drawn < shown.launches.size()) {
    text += fmt::format(
        "<p class=\"left-out\">{} of {} launches have no time and are not drawn."
        "</p>\n",
        grouped_digits(shown.launches.size() - drawn), grouped_digits(shown.launches.size()));
  }
  return text +
         "<noscript><p>The timeline is drawn by scripts; the tables need none.</p>"
         "</noscript>\n";
}

}  // namespace fusecalc
