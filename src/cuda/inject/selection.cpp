#include "cuda/inject/selection.hpp"

#include <algorithm>

#include "backend/kernel_name.hpp"

namespace fusecalc::cuda {

Selection::Selection(const InjectionSettings& settings)
    : settings_(settings), kernel_(settings.kernel), running_(!settings.wait_for_start) {}

bool Selection::name_matches(const std::string& name) {
  if (settings_.kernel.empty()) return true;
  const auto known = matches_.find(name);
  if (known != matches_.end()) return known->second;
  const bool found = std::regex_search(short_kernel_name(demangled(name)), kernel_);
  matches_.emplace(name, found);
  return found;
}

bool Selection::takes(const std::string& name, const std::vector<std::string>& ranges) {
  if (!running_) return false;
  if (!settings_.range.empty() && std::ranges::find(ranges, settings_.range) == ranges.end()) {
    return false;
  }
  if (!name_matches(name)) return false;
  const std::uint64_t place = seen_++;
  if (place < settings_.skip) return false;
  return !settings_.count || place - settings_.skip < *settings_.count;
}

}  // namespace fusecalc::cuda
