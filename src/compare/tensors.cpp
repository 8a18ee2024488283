#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compare/compare.hpp"
#include "core/format.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

struct Side {
  std::uint64_t then = 0;
  std::uint64_t now = 0;

  std::uint64_t growth() const { return now > then ? now - then : 0; }
};

Side side_of(const TensorBytes& before, const TensorBytes& after, const std::string& tensor) {
  const auto bytes = [&](const TensorBytes& tensors) {
    const auto found = tensors.find(tensor);
    return found == tensors.end() ? 0 : found->second;
  };
  return {.then = bytes(before), .now = bytes(after)};
}

// "h is now written and read (1.074 GB)", or "x is read more (+4.096 kB)"; `is` says which way.
std::string in_words(const std::string& tensor, const Side& write, const Side& read,
                     std::string_view fresh, std::string_view grown) {
  const auto is_fresh = [](const Side& side) { return side.growth() > 0 && side.then == 0; };
  std::string verbs;
  bool all_fresh = true;
  for (const auto& [side, verb] : {std::pair(write, "written"), std::pair(read, "read")}) {
    if (side.growth() == 0) continue;
    verbs += (verbs.empty() ? "" : " and ") + std::string(verb);
    all_fresh = all_fresh && is_fresh(side);
  }
  const std::string bytes = human_bytes(write.growth() + read.growth());
  return all_fresh ? fmt::format("{} is {} {} ({})", printable(tensor), fresh, verbs, bytes)
                   : fmt::format("{} is {} {} ({})", printable(tensor), verbs, grown, bytes);
}

}  // namespace

std::string tensors_in_words(const KernelFigures& before, const KernelFigures& after) {
  if (!before.lists_tensors || !after.lists_tensors || !before.bytes || !after.bytes) return "";
  const bool worse = *after.bytes >= *before.bytes;
  // An improvement is the reverse of a growth.
  const KernelFigures& from = worse ? before : after;
  const KernelFigures& to = worse ? after : before;
  constexpr std::size_t kShown = 3;
  struct Grown {
    std::uint64_t bytes;
    std::string words;
  };
  std::vector<Grown> grown;
  std::set<std::string> tensors;
  for (const TensorBytes* side : {&to.reads, &to.writes}) {
    for (const auto& [name, bytes] : *side) tensors.insert(name);
  }
  for (const std::string& tensor : tensors) {
    const Side write = side_of(from.writes, to.writes, tensor);
    const Side read = side_of(from.reads, to.reads, tensor);
    const std::uint64_t bytes = write.growth() + read.growth();
    if (bytes == 0) continue;
    grown.push_back({bytes, in_words(tensor, write, read, worse ? "now" : "no longer",
                                     worse ? "more" : "less")});
  }
  std::ranges::stable_sort(grown, std::greater<>(), &Grown::bytes);
  std::string text;
  for (std::size_t i = 0; i < std::min(grown.size(), kShown); ++i) {
    text += (text.empty() ? "" : ", ") + grown[i].words;
  }
  if (grown.size() > kShown) text += fmt::format(" and {} more", grown.size() - kShown);
  return text;
}

}  // namespace fusecalc
