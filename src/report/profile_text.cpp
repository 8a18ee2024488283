#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/listing.hpp"
#include "report/profile_rows.hpp"
#include "report/text_table.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

using Kind = TextTable::Kind;

void write_process(const Profile& profile, const ProfiledProcess& process, const Style& style,
                   Output& output) {
  std::vector<TextTable::Column> columns = {{"kernel", Kind::kName}};
  for (const std::string_view column : kProfileColumns) {
    columns.push_back({std::string(column), Kind::kNumber});
  }
  TextTable table(std::move(columns), style);
  const std::vector<ProfileRow> rows = profile_rows(process);
  for (const ProfileRow& row : rows) {
    std::vector<TextTable::Cell> cells = {row.kernel};
    cells.insert(cells.end(), row.cells.begin(), row.cells.end());
    table.add(std::move(cells), &row == &rows.back() ? kBold : "");
  }
  output.write("\n");
  table.write(output);
  for (const std::string& note : profile_notes(profile, process)) {
    output.write("  " + coloured("note: ", "33", style) + printable(note, 400) + "\n");
  }
}

void write_matches(const Profile& profile, const Style& style, Output& output) {
  const Alignment& alignment = *profile.alignment;
  const ProfiledProcess& process = profile.processes[profile.aligned_process];
  TextTable table({{"ops", Kind::kName},
                   {"", Kind::kNumber},
                   {"launch", Kind::kName},
                   {"moved", Kind::kNumber},
                   {"unfused", Kind::kNumber},
                   {"confidence", Kind::kNumber}},
                  style);
  for (const Match& match : alignment.matches) {
    const ProfiledLaunch& launch = process.launches[match.launch];
    std::string ops = alignment.ops[match.ops.front()];
    if (match.ops.size() > 1) {
      ops += fmt::format(" .. {} ({})", alignment.ops[match.ops.back()], match.ops.size());
    }
    table.add({ops, std::to_string(launch.index), launch.name,
               launch.dram ? human_bytes(launch.dram->total()) : "-",
               human_bytes(match.unfused.total()), fmt::format("{:.2f}", match.confidence)});
  }
  for (const LayoutLaunch& layout : alignment.layouts) {
    const ProfiledLaunch& launch = process.launches[layout.launch];
    const OpId first = alignment.matches[layout.match].ops.front();
    table.add({"layout for " + alignment.ops[first], std::to_string(launch.index), launch.name,
               launch.dram ? human_bytes(launch.dram->total()) : "-", "-", "-"});
  }
  output.write("\n");
  table.write(output);
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
  if (profile.alignment && !profile.alignment->matches.empty())
    write_matches(profile, style, output);
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
