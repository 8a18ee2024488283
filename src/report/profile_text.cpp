#include <fmt/format.h>

#include <algorithm>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/listing.hpp"
#include "report/profile_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kWidestName = 52;
constexpr std::size_t kCellWidth = 11;

std::string padded(std::string_view text, std::size_t width, bool right) {
  const std::size_t shown = display_width(text);
  const std::string space(width > shown ? width - shown : 0, ' ');
  return right ? space + std::string(text) : std::string(text) + space;
}

void write_process(const Profile& profile, const ProfiledProcess& process, const Style& style,
                   Output& output) {
  const std::vector<ProfileRow> rows = profile_rows(process);
  std::size_t width = 8;
  for (const ProfileRow& row : rows) {
    width = std::max(width, std::min(kWidestName, display_width(printable(row.kernel))));
  }
  std::string head = "\n  " + padded("kernel", width, false);
  for (const std::string_view column : kProfileColumns) head += padded(column, kCellWidth, true);
  output.write(head + "\n");
  for (const ProfileRow& row : rows) {
    std::string line = padded(printable(row.kernel, kWidestName), width, false);
    for (const std::string& cell : row.cells) line += padded(cell, kCellWidth, true);
    while (line.ends_with(' ')) line.pop_back();
    const bool total = &row == &rows.back();
    output.write("  " + (total ? coloured(line, "1", style) : line) + "\n");
  }
  for (const std::string& note : profile_notes(profile, process)) {
    output.write("  " + coloured("note: ", "33", style) + printable(note, 400) + "\n");
  }
}

void write_matches(const Profile& profile, Output& output) {
  const Alignment& alignment = *profile.alignment;
  const ProfiledProcess& process = profile.processes[profile.aligned_process];
  output.write(fmt::format("\n  {:<34} {:<40}{:>11}{:>11}{:>11}\n", "ops", "launch", "moved",
                           "unfused", "confidence"));
  for (const Match& match : alignment.matches) {
    const ProfiledLaunch& launch = process.launches[match.launch];
    std::string ops = alignment.ops[match.ops.front()];
    if (match.ops.size() > 1) {
      ops += fmt::format(" .. {} ({})", alignment.ops[match.ops.back()], match.ops.size());
    }
    output.write(fmt::format(
        "  {} {}{:>11}{:>11}{:>11.2f}\n", padded(printable(ops, 34), 34, false),
        padded(fmt::format("{} {}", launch.index, printable(launch.name, 34)), 40, false),
        launch.dram ? human_bytes(launch.dram->total()) : "-", human_bytes(match.unfused.total()),
        match.confidence));
  }
}

void write_markdown_process(const Profile& profile, const ProfiledProcess& process,
                            Output& output) {
  std::string head = "\n| kernel |";
  std::string rule = "|---|";
  for (const std::string_view column : kProfileColumns) {
    head += fmt::format(" {} |", column);
    rule += "---:|";
  }
  output.write(head + "\n" + rule + "\n");
  for (const ProfileRow& row : profile_rows(process)) {
    std::string line = fmt::format("| {} |", markdown_text(row.kernel));
    for (const std::string& cell : row.cells) line += fmt::format(" {} |", cell);
    output.write(line + "\n");
  }
  for (const std::string& note : profile_notes(profile, process)) {
    output.write("\n- " + markdown_text(note));
  }
  output.write("\n");
}

}  // namespace

void write_table(const Profile& profile, const Style& style, Output& output) {
  output.write(fmt::format("{}: {}{}\n", coloured(printable(profile.name), "1", style),
                           profile_head(profile),
                           profile.gpu ? ", on " + printable(profile.gpu->device.name) : ""));
  if (const std::string verdict = verdict_of(profile); !verdict.empty()) {
    output.write(coloured(printable(verdict, kNoLimit), "1", style) + "\n");
  }
  for (const ProfiledProcess& process : profile.processes) {
    if (profile.processes.size() > 1) {
      output.write(fmt::format("\nprocess {}: {}\n", process.pid, printable(process.command, 80)));
    }
    write_process(profile, process, style, output);
  }
  if (profile.alignment && !profile.alignment->matches.empty()) write_matches(profile, output);
}

void write_markdown(const Profile& profile, const Style& /*style*/, Output& output) {
  output.write(fmt::format("### {}\n\n{}\n", markdown_text(profile.name), profile_head(profile)));
  if (const std::string verdict = verdict_of(profile); !verdict.empty()) {
    output.write("\n**" + markdown_text(verdict) + "**\n");
  }
  for (const ProfiledProcess& process : profile.processes) {
    if (profile.processes.size() > 1) {
      output.write(fmt::format("\nProcess {}: {}\n", process.pid, markdown_text(process.command)));
    }
    write_markdown_process(profile, process, output);
  }
}

void write_csv(const Profile& profile, const Style& /*style*/, Output& output) {
  output.write("pid,kernel,kind,launches,counted,dram_read,dram_write,time_us,gbps\n");
  for (const ProfiledProcess& process : profile.processes) {
    for (const ProfiledKernel& kernel : process.kernels) {
      const std::optional<double> rate = kernel.bytes_per_second();
      output.write(fmt::format("{},{},{},{},{},{},{},{},{}\n", process.pid, csv_field(kernel.name),
                               name_of(kernel.kind), kernel.launches, kernel.counted,
                               kernel.counted > 0 ? std::to_string(kernel.dram.read) : "",
                               kernel.counted > 0 ? std::to_string(kernel.dram.write) : "",
                               kernel.timed > 0 ? fmt::format("{:.3f}", kernel.seconds * 1e6) : "",
                               rate ? fmt::format("{:.1f}", *rate / 1e9) : ""));
    }
  }
}

}  // namespace fusecalc
