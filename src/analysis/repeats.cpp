#include "analysis/repeats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace fusecalc {
namespace {

// The most kernels of a layer that are looked for.
constexpr std::uint32_t kLongestPeriod = 256;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void add_without_numbers(std::string_view name, std::string& text) {
  for (const char c : name) {
    if (!is_digit(c)) {
      text += c;
    } else if (text.empty() || text.back() != '#') {
      text += '#';
    }
  }
}

// Equal for kernels that are alike.
std::string signature_of(const OpGraph& graph, const KernelAnalysis& kernel) {
  std::string text;
  const auto add_number = [&](std::uint64_t number) {
    const fmt::format_int digits(number);
    text.append(digits.data(), digits.size()) += ' ';
  };
  for (const OpId op : kernel.ops) {
    text.append(graph.ops[op].row->name) += ' ';
    add_without_numbers(graph.ops[op].name, text);
    text += '\n';
  }
  for (const auto* entries : {&kernel.traffic.reads, &kernel.traffic.writes}) {
    text += '\n';
    for (const KernelTraffic::Entry& entry : *entries) {
      add_number(entry.bytes);
      add_number(entry.passes);
      add_without_numbers(graph.tensors[entry.tensor].name, text);
      text += '\n';
    }
  }
  return text;
}

// How often the `period` kernels from `first` on come in a row.
std::uint32_t count_of(const std::vector<std::uint32_t>& kinds, std::size_t first,
                       std::size_t period) {
  std::size_t end = first + period;
  while (end < kinds.size() && kinds[end] == kinds[end - period]) ++end;
  return static_cast<std::uint32_t>((end - first) / period);
}

}  // namespace

std::string without_numbers(std::string_view name) {
  std::string text;
  add_without_numbers(name, text);
  return text;
}

std::vector<Repeat> repeats_of(const OpGraph& graph, const PlanAnalysis& plan) {
  std::unordered_map<std::string, std::uint32_t> ids;
  std::vector<std::uint32_t> kinds;
  for (const KernelAnalysis& kernel : plan.kernels) {
    const auto next = static_cast<std::uint32_t>(ids.size());
    kinds.push_back(ids.try_emplace(signature_of(graph, kernel), next).first->second);
  }
  std::vector<Repeat> repeats;
  for (std::uint32_t first = 0; first < kinds.size();) {
    Repeat best{.first = first};
    const auto most = std::min<std::size_t>(kLongestPeriod, (kinds.size() - first) / 2);
    for (std::uint32_t period = 1; period <= most; ++period) {
      if (kinds[first] != kinds[first + period]) continue;
      const std::uint32_t count = count_of(kinds, first, period);
      if (count > 1 && count * period > best.count * best.period) {
        best = {.first = first, .period = period, .count = count};
      }
    }
    repeats.push_back(best);
    first += best.period * best.count;
  }
  return repeats;
}

}  // namespace fusecalc
