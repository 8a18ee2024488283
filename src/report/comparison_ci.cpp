// A comparison for CI systems: JUnit's XML and GitHub's annotations.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/text.hpp"
#include "report/comparison_cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

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
  output.write(fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"",
                           xml_text(finding.spec), xml_text(test_name(finding))));
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

// "::error file=nets/mlp.json,line=7,title=fusecalc: mlp worse::auto of mlp: bytes ..."
std::string annotation_of(const Finding& finding, std::string_view severity) {
  std::string place;
  if (!finding.file.empty()) {
    place = fmt::format("file={},line={},", command_text(finding.file, true), finding.line);
  }
  const std::string title =
      fmt::format("fusecalc: {} {}", printable(finding.spec), verdict_in_words(finding));
  return fmt::format("::{} {}title={}::{}\n", severity, place, command_text(title, true),
                     command_text(in_words(finding), false));
}

}  // namespace

// One suite a spec, one test case a figure. The attributes are those of Jenkins' junit-10.xsd; the
// figures take no time, and a time stamp would differ from run to run.
void write_junit(const Comparison& comparison, const Style& /*style*/, Output& output) {
  const auto count = [&](const auto& counts) {
    return std::ranges::count_if(comparison.findings, counts);
  };
  const auto skipped = [](const Finding& f) {
    return f.judgement == Judgement::kUnknown && !f.failed;
  };
  output.write(
      fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<testsuites name=\"fusecalc compare\" tests=\"{}\" failures=\"{}\" "
                  "errors=\"0\" time=\"0\">\n",
                  comparison.findings.size(), count([](const Finding& f) { return f.failed; })));
  for (const std::string& spec : comparison.specs) {
    const auto here = [&](const Finding& f) { return f.spec == spec; };
    output.write(fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" "
        "time=\"0\">\n",
        xml_text(spec), count(here), count([&](const Finding& f) { return here(f) && f.failed; }),
        count([&](const Finding& f) { return here(f) && skipped(f); })));
    for (const Finding& finding : comparison.findings) {
      if (here(finding)) write_test_case(finding, output);
    }
    output.write("  </testsuite>\n");
  }
  output.write("</testsuites>\n");
}

// The table for the log and, as workflow commands, annotations: GitHub shows ten of a kind a step.
void write_github(const Comparison& comparison, const Style& style, Output& output) {
  constexpr std::size_t kMostAnnotations = 10;
  write_table(comparison, style, output);
  for (const std::string_view severity : {"error", "warning", "notice"}) {
    std::size_t written = 0;
    for (const Finding& finding : comparison.findings) {
      if (severity_of(finding) != severity || written == kMostAnnotations) continue;
      ++written;
      output.write(annotation_of(finding, severity));
    }
  }
}

}  // namespace fusecalc
