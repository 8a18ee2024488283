#include "report/comparison_cells.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

std::string magnitude(const Finding& finding, std::uint64_t value) {
  constexpr double kPicosecond = 1e-12;
  switch (row_of(finding.figure).unit) {
    case Unit::kBytes: return human_bytes(value);
    case Unit::kPicoseconds: return human_seconds(static_cast<double>(value) * kPicosecond);
    case Unit::kCount: break;
  }
  return std::to_string(value);
}

}  // namespace

std::optional<std::int64_t> as_signed(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

std::string value_in_words(const Finding& finding, const std::optional<std::uint64_t>& value) {
  return value ? magnitude(finding, *value) : "-";
}

std::string delta_in_words(const Finding& finding) {
  const std::optional<std::int64_t> delta = finding.delta();
  if (!delta) return "-";
  if (*delta == 0) return "0";
  const auto size = static_cast<std::uint64_t>(*delta < 0 ? -*delta : *delta);
  return (*delta < 0 ? "-" : "+") + magnitude(finding, size);
}

std::string share_in_words(const Finding& finding) {
  const std::optional<double> share = finding.share();
  if (share && *share == 0) return "0 %";
  // Two decimals of a change that they do not show would claim that there is none.
  if (share && std::abs(*share) < 0.005) return *share < 0 ? "> -0.01 %" : "< +0.01 %";
  if (share) return fmt::format("{:+.2f} %", *share);
  if (!finding.delta()) return "-";
  return *finding.after == 0 ? "0 %" : "from 0";
}

std::string verdict_in_words(const Finding& finding) {
  const std::string judgement(name_of(finding.judgement));
  const bool told = finding.change == Change::kSame || name_of(finding.change) == judgement;
  return told ? judgement : fmt::format("{}, {}", name_of(finding.change), judgement);
}

std::string in_words(const Finding& finding) {
  std::string text = printable(finding.spec);
  if (!finding.plan.empty()) text = fmt::format("{} of {}", printable(finding.plan), text);
  if (!finding.kernel.empty()) text += ", kernel " + printable(finding.kernel);
  text += ": ";
  if (finding.figure != Figure::kSpec) {
    text += fmt::format("{} {} -> {}", row_of(finding.figure).words,
                        value_in_words(finding, finding.before),
                        value_in_words(finding, finding.after));
    if (const auto delta = finding.delta()) {
      const bool shown = *delta == 0 || value_in_words(finding, finding.before) !=
                                            value_in_words(finding, finding.after);
      text += fmt::format(" ({}{})", shown ? "" : delta_in_words(finding) + ", ",
                          share_in_words(finding));
    }
  } else {
    text += name_of(finding.judgement);
  }
  if (!finding.note.empty()) text += ": " + finding.note;
  return text;
}

std::string summary_of(const Comparison& comparison) {
  std::string failed;
  std::string passed;
  for (std::size_t i = 0; i < judgement_names().size(); ++i) {
    const auto judgement = static_cast<Judgement>(i);
    const std::size_t failures = comparison.count_failed(judgement);
    const auto add = [&](std::string& list, std::size_t count) {
      if (count == 0) return;
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", grouped_digits(count),
                          name_of(judgement));
    };
    add(failed, failures);
    add(passed, comparison.count(judgement) - failures);
  }
  if (failed.empty()) return "passed: " + passed;
  return "failed: " + failed + (passed.empty() ? "" : "; passed: " + passed);
}

}  // namespace fusecalc
