#include "sweep/axis.hpp"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include "core/checked.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostValues = 1'000'000;

std::uint64_t parse_extent(std::string_view text, const std::string& whole) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || value > kMaxCount) {
    throw std::invalid_argument(
        fmt::format("must have the form T=4096, T=2048,4096, T=1024..65536*2 or T=64..512+64, "
                    "not {}",
                    in_quotes(whole)));
  }
  return value;
}

class AxisParser {
 public:
  explicit AxisParser(const std::string& text) : text_(text) {}

  SweepAxis parse() {
    const std::size_t equals = text_.find('=');
    if (equals == std::string::npos || equals == 0) parse_extent("", text_);
    axis_.name = text_.substr(0, equals);
    std::string_view rest = std::string_view(text_).substr(equals + 1);
    for (;;) {
      const std::size_t comma = rest.find(',');
      add_item(rest.substr(0, comma));
      if (comma == std::string_view::npos) return std::move(axis_);
      rest.remove_prefix(comma + 1);
    }
  }

 private:
  // "4096", "1024..65536*2", "64..512+64"; "1..8" is "1..8+1".
  void add_item(std::string_view item) {
    const std::size_t dots = item.find("..");
    if (dots == std::string_view::npos) return add(parse_extent(item, text_));
    const std::uint64_t first = parse_extent(item.substr(0, dots), text_);
    std::string_view last_and_step = item.substr(dots + 2);
    const std::size_t sign = last_and_step.find_first_of("*+");
    const bool product = sign != std::string_view::npos && last_and_step[sign] == '*';
    const std::uint64_t step =
        sign == std::string_view::npos ? 1 : parse_extent(last_and_step.substr(sign + 1), text_);
    const std::uint64_t last = parse_extent(last_and_step.substr(0, sign), text_);
    if (first > last) refuse("ends before it begins");
    if (step < (product ? 2 : 1) || (product && first == 0)) refuse("would never end");
    for (std::uint64_t value = first; value <= last;) {
      add(value);
      const bool fits = product ? checked_multiply(value, step) : checked_add(value, step);
      if (!fits) break;
    }
  }

  void add(std::uint64_t value) {
    if (axis_.values.size() == kMostValues) {
      refuse(fmt::format("has more than {} values", kMostValues));
    }
    if (!known_.insert(value).second) refuse(fmt::format("has {} twice", value));
    axis_.values.push_back(value);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument(in_quotes(text_) + " " + why);
  }

  const std::string text_;
  SweepAxis axis_;
  std::unordered_set<std::uint64_t> known_;
};

}  // namespace

SweepAxis parse_axis(const std::string& text) { return AxisParser(text).parse(); }

}  // namespace fusecalc
