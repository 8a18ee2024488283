// A profile as a page: where the program stands, its launches as a timeline, which scripts draw,
// its kernels, and the launches that run the ops of an op list.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/ratio.hpp"
#include "report/cells.hpp"
#include "report/html/page.hpp"
#include "report/html/profile_data.hpp"
#include "report/profile_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostProfileRows = 500;

std::string list_of(const std::vector<std::string>& items) {
  std::string list = "<ul>\n";
  for (const std::string& item : items) list += fmt::format("<li>{}</li>\n", html_text(item));
  return list + "</ul>\n";
}

class ProfilePage {
 public:
  explicit ProfilePage(const Profile& profile) : profile_(profile) {}

  HtmlPage page() const {
    HtmlPage page{.title = profile_.name,
                  .subtitle = subtitle(),
                  .body = verdict() + figures(),
                  .data = timeline_json(profile_),
                  .scripts = PageScripts::kTimeline};
    if (profile_.alignment) page.body += plans() + fusions();
    for (std::size_t i = 0; i < profile_.processes.size(); ++i) page.body += process(i);
    if (profile_.alignment) page.body += matches();
    return page;
  }

 private:
  std::string subtitle() const {
    std::string text;
    for (const std::string& word : profile_.program) {
      text += (text.empty() ? "" : " ") + html_name(word);
    }
    text += fmt::format(" · {}", html_text(profile_.outcome));
    if (profile_.gpu) text += " · " + html_text(profile_.gpu->device.name);
    return text + (profile_.isolated ? " · each launch alone, from a clean L2"
                                     : " · caches as the program has them");
  }

  std::string verdict() const {
    const std::string words = verdict_of(profile_);
    if (words.empty()) return "";
    return fmt::format("<p class=\"verdict-line\">{}</p>\n", html_text(words));
  }

  std::string figures() const {
    const Bytes totals = profile_.totals();
    double seconds = 0;
    for (const ProfiledProcess& process : profile_.processes) seconds += process.seconds;
    std::vector<HtmlFigure> figures = {
        {.value = grouped_digits(profile_.launches()), .words = "launches"},
        {.value = human_bytes(totals.read), .words = "read from DRAM"},
        {.value = human_bytes(totals.write), .words = "written to DRAM"}};
    if (seconds > 0) figures.push_back({.value = human_seconds(seconds), .words = "on the GPU"});
    if (profile_.counted() < profile_.launches()) {
      figures.push_back({.value = grouped_digits(profile_.launches() - profile_.counted()),
                         .words = "launches not counted",
                         .tone = "bad"});
    }
    return html_figures(figures);
  }

  // The program among the plans of its op list.
  std::string plans() const {
    const Alignment& alignment = *profile_.alignment;
    HtmlTable table{
        .id = "plan-table",
        .caption = fmt::format("What the last of {} run{} of {} moved, beside the "
                               "bytes of each plan",
                               grouped_digits(alignment.runs), alignment.runs == 1 ? "" : "s",
                               html_name(alignment.document)),
        .columns = {{"plan"}, {"bytes", true}, {"of the program's", true}, {""}}};
    std::uint64_t most = alignment.moved.total();
    for (const auto& [kind, bytes] : alignment.plans) most = std::max(most, bytes);
    const auto add = [&](const std::string& name, std::uint64_t bytes, std::string_view tone) {
      table.rows.push_back({name, human_bytes(bytes),
                            fmt::format("{:.1f} %", 100 * share_of(bytes, alignment.moved.total())),
                            html_bar(share_of(bytes, most), tone)});
    };
    add("<b>this program</b>", alignment.moved.total(), "before");
    for (const auto& [kind, bytes] : alignment.plans) {
      add(std::string(name_of(kind)), bytes, kind == PlanKind::kAuto ? "after" : "faint");
    }
    return html_section("plans", "The program among its plans", table.html());
  }

  std::string ops_in_words(const std::vector<OpId>& ops) const {
    std::string text;
    for (const OpId op : ops) {
      text += (text.empty() ? "" : " + ") + html_name(profile_.alignment->ops[op]);
    }
    return text;
  }

  std::string fusions() const {
    const std::vector<MissedFusion>& fusions = profile_.alignment->fusions;
    if (fusions.empty()) return "";
    HtmlTable table{
        .id = "fusion-table",
        .caption = "What auto fuses and the program does not",
        .columns = {{"ops"}, {"launches", true}, {"would save", true}, {"time, about", true}, {""}},
        .rest = left_out(fusions.size(), kMostProfileRows, "fusion", "json lists")};
    for (std::size_t i = 0; i < std::min(fusions.size(), kMostProfileRows); ++i) {
      const MissedFusion& fusion = fusions[i];
      table.rows.push_back({ops_in_words(fusion.ops), grouped_digits(fusion.launches),
                            human_bytes(fusion.bytes),
                            fusion.seconds ? human_seconds(*fusion.seconds) : "-",
                            html_bar(share_of(fusion.bytes, fusions.front().bytes), "after")});
    }
    return html_section("fusions", "Fusions that would save most", table.html());
  }

  std::string process(std::size_t i) const {
    const ProfiledProcess& process = profile_.processes[i];
    const std::string number = std::to_string(i);
    std::string text;
    if (const std::string timeline = timeline_element(profile_, i); !timeline.empty()) {
      text += html_section("timeline-" + number, heading("Timeline", process), timeline);
    }
    text += html_section("kernels-" + number, heading("Kernels", process), kernels(process, i));
    const std::vector<std::string> notes = profile_notes(profile_, process);
    if (!notes.empty()) {
      text += html_section("notes-" + number, heading("Notes", process), list_of(notes));
    }
    return text;
  }

  std::string heading(std::string_view words, const ProfiledProcess& process) const {
    if (profile_.processes.size() == 1) return std::string(words);
    return fmt::format("{} of process {}: {}", words, process.pid, process.command);
  }

  static std::string kernels(const ProfiledProcess& process, std::size_t i) {
    HtmlTable table{.id = fmt::format("kernel-table-{}", i),
                    .caption =
                        "The launches of each name added up, the most bytes first; bars: "
                        "share of all bytes",
                    .columns = {{"kernel"}}};
    for (const std::string_view column : kProfileColumns) {
      table.columns.push_back({std::string(column), column != "bound"});
    }
    table.columns.push_back({""});
    const std::vector<ProfileRow> rows = profile_rows(process, kMostProfileRows);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      std::vector<std::string> row = {html_name(rows[k].kernel)};
      for (const std::string& cell : rows[k].cells) row.push_back(html_text(cell));
      const bool kernel = k < std::min(process.kernels.size(), kMostProfileRows);
      row.push_back(
          kernel
              ? html_bar(share_of(process.kernels[k].dram.total(), process.totals.total()), "after")
              : "");
      table.rows.push_back(std::move(row));
    }
    return table.html();
  }

  std::string matches() const {
    const Alignment& alignment = *profile_.alignment;
    if (alignment.matches.empty()) return "";
    const ProfiledProcess& process = profile_.processes[profile_.aligned_process];
    HtmlTable table{
        .id = "match-table",
        .caption = fmt::format("Which launch ran which ops of {}", html_name(alignment.document)),
        .columns = {{"ops"},
                    {"launch", true},
                    {"kernel"},
                    {"moved", true},
                    {"unfused", true},
                    {"as one kernel", true},
                    {"time", true},
                    {"confidence", true}},
        .rest = left_out(alignment.matches.size(), kMostProfileRows, "row", "json lists")};
    for (std::size_t i = 0; i < std::min(alignment.matches.size(), kMostProfileRows); ++i) {
      const Match& match = alignment.matches[i];
      const ProfiledLaunch& launch = process.launches[match.launch];
      table.rows.push_back({ops_in_words(match.ops), std::to_string(launch.index),
                            html_name(launch.name),
                            launch.dram ? human_bytes(launch.dram->total()) : "-",
                            human_bytes(match.unfused.total()), human_bytes(match.fused.total()),
                            launch.seconds ? human_seconds(*launch.seconds) : "-",
                            fmt::format("{:.2f}", match.confidence)});
    }
    for (std::size_t i = 0; i < std::min(alignment.layouts.size(), kMostProfileRows); ++i) {
      const LayoutLaunch& layout = alignment.layouts[i];
      const ProfiledLaunch& launch = process.launches[layout.launch];
      table.rows.push_back({"layout for " + ops_in_words(alignment.matches[layout.match].ops),
                            std::to_string(launch.index), html_name(launch.name),
                            launch.dram ? human_bytes(launch.dram->total()) : "-", "-", "-",
                            launch.seconds ? human_seconds(*launch.seconds) : "-", "-"});
    }
    return html_section("matches", "Launches and ops", table.html());
  }

  const Profile& profile_;
};

}  // namespace

void write_html(const Profile& profile, const Style& /*style*/, Output& output) {
  write_page(ProfilePage(profile).page(), output);
}

}  // namespace fusecalc
