#include "core/short_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kGap = "...";

// The first so many characters, and the last.
std::string head_of(const std::string& text, std::size_t columns) {
  std::size_t end = 0;
  for (; columns > 0 && end < text.size(); --columns) {
    end += utf8_sequence_length(std::string_view(text).substr(end));
  }
  return text.substr(0, end);
}

std::string tail_of(const std::string& text, std::size_t columns) {
  const std::size_t head = head_of(text, display_width(text) - columns).size();
  return text.substr(head);
}

}  // namespace

std::string ShortNames::shortened(const std::string& name) {
  if (display_width(name) <= columns_ && !taken_.contains(name)) return name;
  const std::size_t kept = columns_ - kGap.size();
  // The cut moves from the middle to the end, then to the front, until no other name reads so.
  for (std::size_t i = 0; i < kept; ++i) {
    const std::size_t head = (kept / 2 + i) % kept;
    if (display_width(name) <= kept) break;
    std::string cut = head_of(name, head) + std::string(kGap) + tail_of(name, kept - head);
    if (!taken_.contains(cut)) return cut;
  }
  while (true) {
    const std::string suffix = fmt::format("{}{}", kGap, ++numbered_);
    std::string numbered = head_of(name, columns_ - std::min(columns_, suffix.size())) + suffix;
    if (!taken_.contains(numbered)) return numbered;
  }
}

const std::string& ShortNames::of(std::string_view name) {
  const auto [entry, added] = known_.try_emplace(std::string(name));
  if (added) {
    entry->second = shortened(printable(name, kNoLimit));
    taken_.insert(entry->second);
  }
  return entry->second;
}

}  // namespace fusecalc
