#include "sweep/definition.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/text.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

// What a file can be called on any system.
std::string for_file_name(const std::string& text) {
  constexpr std::size_t kLongest = 120;
  std::string name = text.substr(0, kLongest);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '=' && c != '_') c = '-';
  }
  return name;
}

}  // namespace

std::size_t SweepDefinition::size() const {
  std::size_t count = documents.size() * devices.size();
  for (const SweepAxis& axis : axes) count *= axis.values.size();
  return count;
}

void SweepDefinition::check_size() const {
  constexpr std::uint64_t kMostPoints = 1'000'000;
  std::uint64_t count = documents.size() * devices.size();
  for (const SweepAxis& axis : axes) {
    if (!checked_multiply(count, axis.values.size())) count = kMaxCount;
  }
  if (count <= kMostPoints) return;
  throw Error(Fault::kBadInput, fmt::format("sweep: these are more than {} points; give fewer "
                                            "values of --dim, or several sweeps",
                                            kMostPoints));
}

SweepPoint SweepDefinition::point(std::size_t index) const {
  SweepPoint point;
  point.dims.resize(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::vector<std::uint64_t>& values = axes[i].values;
    point.dims[i] = {.name = axes[i].name, .extent = values[index % values.size()]};
    index /= values.size();
  }
  point.device = index % devices.size();
  point.document = index / devices.size();
  return point;
}

std::vector<std::size_t> SweepDefinition::all_points() const {
  std::vector<std::size_t> points(size());
  std::iota(points.begin(), points.end(), std::size_t{0});
  return points;
}

std::string SweepDefinition::label(std::size_t index) const {
  const SweepPoint at = point(index);
  std::string text = documents[at.document].name;
  for (const DimOverride& dim : at.dims) text += fmt::format(" {}={}", dim.name, dim.extent);
  if (!measured) text += " " + devices[at.device];
  return text;
}

std::string SweepDefinition::stem(std::size_t index) const {
  const SweepPoint at = point(index);
  const SweepDocument& document = documents[at.document];
  const std::string& device = devices[at.device];
  std::vector<std::string> dims;
  for (const DimOverride& dim : at.dims) dims.push_back(fmt::format("{}={}", dim.name, dim.extent));
  std::ranges::sort(dims);  // --dim A=1 --dim B=2 is --dim B=2 --dim A=1
  const std::string all_dims = fmt::format("{}", fmt::join(dims, "-"));
  const std::string key = fmt::format("{}\n{}\n{:016x}\n{}\n{}\n{}\n", kVersion, document.name,
                                      document.hash, device, settings, all_dims);
  return fmt::format("{}-{:016x}",
                     for_file_name(fmt::format("{}-{}-{}", document.name, all_dims, device)),
                     hash_of(key));
}

}  // namespace fusecalc
