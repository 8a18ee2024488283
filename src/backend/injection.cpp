#include "backend/injection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace fusecalc {
namespace {

constexpr std::array<std::pair<RecordKind, std::string_view>, 13> kNames = {{
    {RecordKind::kProcess, "process"},
    {RecordKind::kDevice, "device"},
    {RecordKind::kLaunch, "launch"},
    {RecordKind::kBytes, "bytes"},
    {RecordKind::kUncounted, "uncounted"},
    {RecordKind::kCaptured, "captured"},
    {RecordKind::kSkipped, "skipped"},
    {RecordKind::kOvertaken, "overtaken"},
    {RecordKind::kTime, "time"},
    {RecordKind::kDrained, "drained"},
    {RecordKind::kCost, "cost"},
    {RecordKind::kFault, "fault"},
    {RecordKind::kEnd, "end"},
}};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '\t': result += "\\t"; break;
      case '\n': result += "\\n"; break;
      case '\\': result += "\\\\"; break;
      default: result += c;
    }
  }
  return result;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    ++i;
    result += text[i] == 't' ? '\t' : text[i] == 'n' ? '\n' : text[i];
  }
  return result;
}

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const std::size_t tab = line.find('\t');
    fields.push_back(unescaped(line.substr(0, tab)));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string settings_text(const InjectionSettings& settings) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text += fmt::format("{}\t{}\n", key, escaped(value));
  };
  const auto flag = [](bool set) { return std::string(set ? "1" : "0"); };
  add("counters", flag(settings.counters));
  add("isolated", flag(settings.isolated));
  add("wait_for_start", flag(settings.wait_for_start));
  add("skip", std::to_string(settings.skip));
  if (settings.count) add("count", std::to_string(*settings.count));
  add("range", settings.range);
  add("kernel", settings.kernel);
  return text;
}

InjectionSettings read_settings(std::string_view text) {
  InjectionSettings settings;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), text.find('\n') + 1))) {
    const std::vector<std::string> line = fields_of(text.substr(0, text.find('\n')));
    if (line.size() != 2) break;
    const std::string& value = line[1];
    const bool set = value == "1";
    if (line[0] == "counters") settings.counters = set;
    if (line[0] == "isolated") settings.isolated = set;
    if (line[0] == "wait_for_start") settings.wait_for_start = set;
    if (line[0] == "skip") settings.skip = number(value);
    if (line[0] == "count") settings.count = number(value);
    if (line[0] == "range") settings.range = value;
    if (line[0] == "kernel") settings.kernel = value;
  }
  return settings;
}

std::string record_line(RecordKind kind, std::span<const std::string> fields) {
  std::string line(
      std::ranges::find(kNames, kind, [](const auto& row) { return row.first; })->second);
  for (const std::string& field : fields) line += '\t' + escaped(field);
  return line + '\n';
}

std::optional<Record> read_record(std::string_view line) {
  std::vector<std::string> fields = fields_of(line);
  const auto row =
      std::ranges::find(kNames, fields.front(), [](const auto& name) { return name.second; });
  if (row == kNames.end()) return std::nullopt;
  fields.erase(fields.begin());
  return Record{.kind = row->first, .fields = std::move(fields)};
}

}  // namespace fusecalc
