#include "compare/tolerance.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/checked.hpp"
#include "core/format.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kNames[kQuantities] = {"bytes", "dram", "time"};
constexpr double kPicoseconds = 1e6;  // in a microsecond

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return whole && value >= 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool matches(const std::string& pattern, std::string_view text) {
  return pattern == "*" || ::fnmatch(pattern.c_str(), std::string(text).c_str(), 0) == 0;
}

bool matches(const ToleranceRule& rule, const Place& place) {
  if (!matches(rule.spec, place.spec) || !matches(rule.plan, place.plan)) return false;
  if (rule.kernel == "*") return true;
  return std::ranges::any_of(place.kernels,
                             [&](const std::string& name) { return matches(rule.kernel, name); });
}

std::optional<std::size_t> quantity_named(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<std::size_t>(found - std::begin(kNames));
}

// Patterns before the colon: SPEC or SPEC/KERNEL.
std::string_view take_scope(std::string_view text, ToleranceRule& rule) {
  const std::size_t colon = text.substr(0, text.find('=')).rfind(':');
  if (colon == std::string_view::npos) return text;
  const std::string_view scope = text.substr(0, colon);
  const std::size_t slash = scope.find('/');
  if (!scope.substr(0, slash).empty()) rule.spec = scope.substr(0, slash);
  if (slash != std::string_view::npos) rule.kernel = scope.substr(slash + 1);
  return text.substr(colon + 1);
}

}  // namespace

std::string_view name_of(Quantity quantity) { return kNames[static_cast<std::size_t>(quantity)]; }

Tolerances::Tolerances() {
  ToleranceRule rule;
  rule.tolerances = {Tolerance{.percent = 0}, Tolerance{.percent = 1}, Tolerance{.percent = 5}};
  add(std::move(rule));
}

void Tolerances::add(ToleranceRule rule) {
  rules_.push_back(std::move(rule));
  used_.push_back(false);
}

Tolerance Tolerances::of(Quantity quantity, const Place& place) {
  Tolerance tolerance;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!matches(rules_[i], place)) continue;
    used_[i] = true;
    const auto& own = rules_[i].tolerances[static_cast<std::size_t>(quantity)];
    if (own) tolerance = *own;
  }
  return tolerance;
}

std::vector<const ToleranceRule*> Tolerances::unused() const {
  std::vector<const ToleranceRule*> rules;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!used_[i]) rules.push_back(&rules_[i]);
  }
  return rules;
}

std::optional<Tolerance> parse_tolerance(Quantity quantity, std::string_view text) {
  if (text.ends_with('%')) {
    text.remove_suffix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    const std::optional<double> percent = parse_number(text);
    return percent ? std::optional(Tolerance{.percent = *percent}) : std::nullopt;
  }
  const bool time = quantity == Quantity::kTime;
  if (time && text != "0") {
    if (!text.ends_with("us")) return std::nullopt;
    text.remove_suffix(2);
  }
  const std::optional<double> value = parse_number(text);
  const double scaled = value.value_or(-1) * (time ? kPicoseconds : 1);
  const bool counts = time || scaled == std::floor(scaled);
  if (!(scaled >= 0 && scaled < static_cast<double>(kMaxCount)) || !counts) return std::nullopt;
  return Tolerance{.amount = static_cast<std::uint64_t>(std::llround(scaled))};
}

std::string_view tolerance_forms(Quantity quantity) {
  return quantity == Quantity::kTime ? "a percentage such as 5%, a time such as 2us, or 0"
                                     : "a percentage such as 1%, a number of bytes, or 0";
}

std::string to_string(Quantity quantity, const Tolerance& tolerance) {
  const auto number = [](double value) {
    std::string text = shortest_decimal(value);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  };
  if (tolerance.amount == 0) return tolerance.percent == 0 ? "0" : number(tolerance.percent) + "%";
  if (quantity != Quantity::kTime) return std::to_string(tolerance.amount);
  return number(static_cast<double>(tolerance.amount) / kPicoseconds) + "us";
}

namespace {

// Adds "bytes=1%" or "PLAN.bytes=1%" to the rules.
void add_part(std::string_view part, std::string_view text, const ToleranceRule& scope,
              std::vector<ToleranceRule>& rules) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) {
    throw std::invalid_argument("must have the form bytes=0,dram=1%,time=5%, not " +
                                in_quotes(text));
  }
  const std::string_view figure = part.substr(0, equals);
  const std::size_t point = figure.rfind('.');
  const bool any_plan = point == std::string_view::npos;
  const std::string_view name = any_plan ? figure : figure.substr(point + 1);
  const std::string_view plan = any_plan ? "*" : figure.substr(0, point);
  const std::optional<std::size_t> index = quantity_named(name);
  if (!index) {
    throw std::invalid_argument(in_quotes(name) + " is not one of " + listed(kNames) +
                                did_you_mean(name, kNames));
  }
  if (plan.empty()) {
    throw std::invalid_argument(fmt::format("{} names no plan before the point", in_quotes(part)));
  }
  const auto quantity = static_cast<Quantity>(*index);
  const std::optional<Tolerance> tolerance = parse_tolerance(quantity, part.substr(equals + 1));
  if (!tolerance) {
    throw std::invalid_argument(fmt::format("{} must be {}, not {}", name,
                                            tolerance_forms(quantity),
                                            in_quotes(part.substr(equals + 1))));
  }
  // Parts of different plans stay in their order: the last that matches applies.
  if (rules.empty() || rules.back().plan != plan) {
    rules.push_back(scope);
    rules.back().plan = plan;
  }
  if (rules.back().tolerances[*index]) {
    throw std::invalid_argument(fmt::format("{} is given twice in {}", figure, in_quotes(text)));
  }
  rules.back().tolerances[*index] = tolerance;
}

}  // namespace

std::vector<ToleranceRule> parse_tolerance_rules(std::string_view text) {
  ToleranceRule scope;
  std::string_view rest = take_scope(text, scope);
  std::vector<ToleranceRule> rules;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    add_part(part, text, scope, rules);
    if (part.size() == rest.size()) return rules;
    rest.remove_prefix(part.size() + 1);
  }
}

namespace {

// One of bytes, dram and time, as text ("1%") or as a plain number of bytes.
Tolerance read_tolerance(JsonReader& reader, Quantity quantity) {
  const bool number = reader.peek() == JsonKind::kNumber;
  const std::string text = number ? std::string(reader.read_number().text) : reader.read_string();
  const std::optional<Tolerance> tolerance = parse_tolerance(quantity, text);
  if (!tolerance) {
    reader.fail(fmt::format("must be {}, not {}", tolerance_forms(quantity), in_quotes(text)));
  }
  return *tolerance;
}

constexpr std::string_view kRuleFields[] = {"bytes", "dram", "time", "spec", "plan", "kernel"};
constexpr std::string_view kFileFields[] = {"bytes", "dram", "time", "schema", "rules"};
constexpr std::string_view kSchema = "fusecalc.tolerances/1";

ToleranceRule read_rule(JsonReader& reader) {
  ToleranceRule rule;
  std::string* const patterns[] = {&rule.spec, &rule.plan, &rule.kernel};
  const std::uint64_t seen = reader.read_object(kRuleFields, [&](std::size_t field) {
    if (field < kQuantities) {
      rule.tolerances[field] = read_tolerance(reader, static_cast<Quantity>(field));
    } else {
      *patterns[field - kQuantities] = reader.read_string();
    }
  });
  constexpr std::uint64_t kAnyQuantity = 7;
  if ((seen & kAnyQuantity) == 0) reader.fail("needs one of " + listed(kNames));
  return rule;
}

}  // namespace

std::vector<ToleranceRule> read_tolerances(JsonReader& reader) {
  std::vector<ToleranceRule> rules(1);
  ToleranceRule general;
  reader.read_object(kFileFields, [&](std::size_t field) {
    if (field < kQuantities) {
      general.tolerances[field] = read_tolerance(reader, static_cast<Quantity>(field));
    } else if (kFileFields[field] == "rules") {
      reader.read_array([&](std::size_t) { rules.push_back(read_rule(reader)); });
    } else if (const std::string schema = reader.read_string(); schema != kSchema) {
      reader.fail(fmt::format("must be \"{}\", not {}", kSchema, in_quotes(schema)));
    }
  });
  reader.expect_end();
  rules.front() = std::move(general);
  return rules;
}

std::string scope_of(const ToleranceRule& rule) {
  std::string text;
  const std::pair<std::string_view, const std::string&> parts[] = {
      {"spec", rule.spec}, {"plan", rule.plan}, {"kernel", rule.kernel}};
  for (const auto& [what, pattern] : parts) {
    if (pattern == "*") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, in_quotes(pattern));
  }
  return text.empty() ? "everything" : text;
}

}  // namespace fusecalc
