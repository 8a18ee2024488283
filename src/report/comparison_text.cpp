// A comparison as CSV, Markdown, JUnit's XML and GitHub's annotations.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/comparison_cells.hpp"
#include "report/listing.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

std::string raw_value(const Finding& finding, const std::optional<std::int64_t>& value) {
  constexpr double kMicrosecond = 1e6;  // in picoseconds
  if (!value) return "";
  if (row_of(finding.figure).unit != Unit::kPicoseconds) return std::to_string(*value);
  return shortest_decimal(static_cast<double>(*value) / kMicrosecond);
}

std::optional<std::int64_t> as_signed(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

void write_markdown_table(const Comparison& comparison, std::size_t most, bool only_changed,
                          Output& output) {
  std::size_t rows = 0;
  std::size_t left_out = 0;
  for (const Finding& finding : comparison.findings) {
    if (only_changed && !finding.changed()) continue;
    if (rows == most) {
      ++left_out;
      continue;
    }
    if (rows++ == 0) {
      output.write(
          "| verdict | spec | plan | kernel | figure | before | after | delta | share | why |\n"
          "|---|---|---|---|---|---:|---:|---:|---:|---|\n");
    }
    const std::string verdict = verdict_in_words(finding);
    output.write(fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        finding.failed ? "**" + verdict + "**" : verdict, markdown_text(finding.spec),
        markdown_text(finding.plan), markdown_text(finding.kernel), row_of(finding.figure).words,
        value_in_words(finding, finding.before), value_in_words(finding, finding.after),
        delta_in_words(finding), share_in_words(finding), markdown_text(finding.note)));
  }
  if (rows > 0) output.write("\n");
  if (left_out > 0) output.write(fmt::format("and {} more.\n\n", grouped_digits(left_out)));
  for (const std::string& note : comparison.notes) output.write("- " + markdown_text(note) + "\n");
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text, kNoLimit)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string test_name(const Finding& finding) {
  std::string name = finding.plan;
  if (!finding.kernel.empty()) name += ": " + finding.kernel;
  return (name.empty() ? "" : name + ": ") + std::string(row_of(finding.figure).words);
}

void write_test_case(const Finding& finding, Output& output) {
  output.write(fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml_text(finding.spec),
                           xml_text(test_name(finding))));
  const std::string words = xml_text(in_words(finding));
  if (finding.failed) {
    output.write(fmt::format(">\n      <failure type=\"{}\" message=\"{}\"/>\n    </testcase>\n",
                             name_of(finding.judgement), words));
  } else if (finding.judgement == Judgement::kUnknown) {
    output.write(fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n", words));
  } else if (finding.changed()) {
    output.write(fmt::format(">\n      <system-out>{}</system-out>\n    </testcase>\n", words));
  } else {
    output.write("/>\n");
  }
}

// GitHub's rules for the text of a workflow command, and for its properties, on one line.
std::string command_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : printable(text, kNoLimit)) {
    const bool special = c == '%' || (property && (c == ':' || c == ','));
    out += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

std::string_view severity_of(const Finding& finding) {
  if (finding.failed) return "error";
  switch (finding.judgement) {
    case Judgement::kUnknown:
    case Judgement::kNoise:
    case Judgement::kWithin: return "warning";
    case Judgement::kBetter: return finding.kernel.empty() ? "notice" : "";
    default: return "";
  }
}

}  // namespace

void write_csv(const Comparison& comparison, const Style& /*style*/, Output& output) {
  output.write(
      "spec,plan,kernel,change,figure,unit,before,after,delta,share_pct,verdict,failed,note\n");
  constexpr std::string_view kUnits[] = {"", "bytes", "us"};
  for (const Finding& finding : comparison.findings) {
    const FigureRow& figure = row_of(finding.figure);
    const std::optional<double> share = finding.share();
    output.write(fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(finding.spec),
        csv_field(finding.plan), csv_field(finding.kernel), name_of(finding.change), figure.name,
        kUnits[static_cast<std::size_t>(figure.unit)],
        raw_value(finding, as_signed(finding.before)), raw_value(finding, as_signed(finding.after)),
        raw_value(finding, finding.delta()), share ? fmt::format("{:.6f}", *share) : "",
        name_of(finding.judgement), finding.failed, csv_field(finding.note)));
  }
}

void write_markdown(const Comparison& comparison, const Style& /*style*/, Output& output) {
  output.write(fmt::format("### {} -> {}\n\n{}\n\n", markdown_text(comparison.base),
                           markdown_text(comparison.fresh), summary_of(comparison)));
  write_markdown_table(comparison, std::string::npos, false, output);
}

// One suite a spec, one test case a figure.
void write_junit(const Comparison& comparison, const Style& /*style*/, Output& output) {
  const auto count = [&](const auto& counts) {
    return std::ranges::count_if(comparison.findings, counts);
  };
  const auto skipped = [](const Finding& f) {
    return f.judgement == Judgement::kUnknown && !f.failed;
  };
  output.write(fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"fusecalc compare\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
      comparison.findings.size(), count([](const Finding& f) { return f.failed; }),
      count(skipped)));
  for (const std::string& spec : comparison.specs) {
    const auto here = [&](const Finding& f) { return f.spec == spec; };
    output.write(fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n", xml_text(spec),
        count(here), count([&](const Finding& f) { return here(f) && f.failed; }),
        count([&](const Finding& f) { return here(f) && skipped(f); })));
    for (const Finding& finding : comparison.findings) {
      if (here(finding)) write_test_case(finding, output);
    }
    output.write("  </testsuite>\n");
  }
  output.write("</testsuites>\n");
}

// A summary in Markdown and, as workflow commands, annotations: GitHub shows ten of a kind a step.
void write_github(const Comparison& comparison, const Style& /*style*/, Output& output) {
  constexpr std::size_t kMostRows = 200;  // a step's summary holds 1 MiB
  constexpr std::size_t kMostAnnotations = 10;
  output.write(fmt::format("### fusecalc compare: {}\n\n", summary_of(comparison)));
  write_markdown_table(comparison, kMostRows, true, output);
  for (const std::string_view severity : {"error", "warning", "notice"}) {
    std::size_t written = 0;
    for (const Finding& finding : comparison.findings) {
      if (severity_of(finding) != severity || written == kMostAnnotations) continue;
      ++written;
      const std::string title =
          "fusecalc: " + printable(finding.spec) + " " + verdict_in_words(finding);
      output.write(fmt::format("::{} title={}::{}\n", severity, command_text(title, true),
                               command_text(in_words(finding), false)));
    }
  }
}

}  // namespace fusecalc
