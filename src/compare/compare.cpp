#include "compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "compare/sums.hpp"
#include "core/text.hpp"
#include "plan/plan_kind.hpp"

namespace fusecalc {
namespace {

class DocumentComparer {
 public:
  DocumentComparer(const ResultDocument& before, const ResultDocument& after, std::string spec,
                   Comparison& comparison)
      : before_(before),
        after_(after),
        spec_(std::move(spec)),
        comparison_(comparison),
        first_finding_(comparison.findings.size()),
        matcher_(before, after) {}

  void compare() {
    std::vector<const PlanFigures*> gone;
    std::vector<const PlanFigures*> fresh;
    for (const PlanFigures& plan : after_.plans) {
      if (find(before_, plan.name) == nullptr) fresh.push_back(&plan);
    }
    for (const PlanFigures& plan : before_.plans) {
      const PlanFigures* same = find(after_, plan.name);
      if (same == nullptr) {
        gone.push_back(&plan);
      } else {
        compare_plans(plan, *same, Change::kSame);
      }
    }
    for (const PlanFigures* plan : gone) {
      const auto alike = std::ranges::find_if(
          fresh, [&](const PlanFigures* other) { return computes_the_same(*plan, *other); });
      if (alike == fresh.end()) {
        add_unpaired_plan(*plan, Change::kRemoved);
      } else {
        compare_plans(*plan, **alike, Change::kRenamed);
        fresh.erase(alike);
      }
    }
    for (const PlanFigures* plan : fresh) add_unpaired_plan(*plan, Change::kAdded);
    add_headline(std::string(name_of(PlanKind::kUnfused)), before_.unfused, after_.unfused);
    add_headline(before_.plan == after_.plan ? after_.plan : before_.plan + " -> " + after_.plan,
                 before_.fused, after_.fused);
    const bool named = before_.plans.empty() || find(before_, before_.plan) == nullptr ||
                       find(after_, after_.plan) != nullptr;
    if (!named || (!before_.plan.empty() && after_.plan.empty())) {
      start_plan("", "", Change::kSame);
      add_missing(Figure::kSpec, "the plan that the result is about is not one of its plans");
    } else if (!before_.plan.empty() && before_.plan != after_.plan) {
      start_plan("", "", Change::kSame);
      add_missing(Figure::kSpec, fmt::format("the result is about the plan {}, not {}",
                                             printable(after_.plan), printable(before_.plan)));
    }
  }

 private:
  static const PlanFigures* find(const ResultDocument& document, std::string_view name) {
    const auto found = std::ranges::find(document.plans, name, &PlanFigures::name);
    return found == document.plans.end() ? nullptr : &*found;
  }

  bool computes_the_same(const PlanFigures& before, const PlanFigures& after) const {
    const std::vector<KernelMatch> matches = matcher_.match(before, after);
    return !matches.empty() && std::ranges::all_of(matches, [](const KernelMatch& match) {
      return match.change == Change::kSame || match.change == Change::kRenamed;
    });
  }

  void compare_plans(const PlanFigures& before, const PlanFigures& after, Change change) {
    start_plan(change == Change::kSame ? after.name : before.name + " -> " + after.name, after.name,
               change);
    lists_all_kernels_ = adds_up(after);
    const KernelFigures old_sum = sum_of(before.kernels, all_of(before.kernels));
    const KernelFigures new_sum = sum_of(after.kernels, all_of(after.kernels));
    add_bytes(before.bytes, after.bytes, tensors_in_words(old_sum, new_sum));
    add_measured(before.isolated, after.isolated, Figure::kDramRead);
    add_measured(before.pipeline, after.pipeline, Figure::kPipelineDramRead);
    if (before.verified || after.verified) {
      const auto wrong = [](const std::optional<bool>& verified) {
        return verified ? std::optional<std::uint64_t>(*verified ? 0 : 1) : std::nullopt;
      };
      add_wrong(wrong(before.verified), wrong(after.verified));
    }
    if (before.name == name_of(PlanKind::kLimit)) return;  // the lower bound's kernel is not real
    // A baseline may contain only the totals of its plans.
    if (before.kernels.empty()) return;
    if (after.kernels.empty()) {
      add_missing(Figure::kBytes, "its kernels are no longer listed");
      return;
    }
    const std::vector<KernelMatch> matches = matcher_.match(before, after);
    matches_all_kernels_ = std::ranges::none_of(
        matches, [](const KernelMatch& match) { return match.change == Change::kAdded; });
    for (const KernelMatch& match : matches) {
      compare_kernels(match, before.kernels, after.kernels);
    }
  }

  void compare_kernels(const KernelMatch& match, const std::vector<KernelFigures>& before,
                       const std::vector<KernelFigures>& after) {
    const KernelFigures then = sum_of(before, match.before);
    const KernelFigures now = sum_of(after, match.after);
    change_ = match.change;
    kernel_ = match.before.empty()    ? now.name
              : match.after.empty()   ? then.name
              : then.name == now.name ? now.name
                                      : then.name + " -> " + now.name;
    op_ = match.after.empty() ? before[match.before.front()].ops.front()
                              : after[match.after.front()].ops.front();
    kernel_names_.clear();
    for (const std::size_t k : match.before) kernel_names_.push_back(before[k].name);
    for (const std::size_t k : match.after) kernel_names_.push_back(after[k].name);
    if (match.before.empty() || match.after.empty()) {
      const bool added = match.before.empty();
      add_unpaired(added ? now.bytes : then.bytes);
      if (added) add_unlaunchable(std::nullopt, now.cannot_launch, true);
      return;
    }
    const std::size_t first = comparison_.findings.size();
    std::string note = tensors_in_words(then, now);
    const std::string why = why_not_fused(after, match.after);
    if (!note.empty() && !why.empty()) note += "; ";
    add_bytes(then.bytes, now.bytes, note + why);
    add_measured(then.measured, now.measured, Figure::kDramRead);
    add_lost_parts(before, match.before, now);
    add_unlaunchable(then.cannot_launch, now.cannot_launch,
                     unlaunchable_ops(after, match.after) > unlaunchable_ops(before, match.before));
    // An unchanged kernel adds nothing to the figures of its plan.
    auto& findings = comparison_.findings;
    const auto same = [](const Finding& finding) { return !finding.changed(); };
    findings.erase(
        std::remove_if(findings.begin() + static_cast<std::ptrdiff_t>(first), findings.end(), same),
        findings.end());
  }

  Tolerance tolerance(Quantity quantity) {
    return comparison_.tolerances.of(quantity, {spec_, plan_pattern_, kernel_names_});
  }

  Finding& add(Figure figure, const std::optional<std::uint64_t>& before,
               const std::optional<std::uint64_t>& after, Judgement judgement) {
    Finding finding{.spec = spec_, .plan = plan_, .kernel = kernel_};
    finding.op = op_;
    finding.headline = plan_pattern_ == after_.plan;
    finding.change = change_;
    finding.figure = figure;
    finding.before = before;
    finding.after = after;
    finding.judgement = judgement;
    const bool differs = finding.changed() && judgement != Judgement::kNoise;
    finding.failed = judgement == Judgement::kWorse || (comparison_.strict && differs) ||
                     (!comparison_.allow_missing && is_missing(finding));
    comparison_.findings.push_back(std::move(finding));
    return comparison_.findings.back();
  }

  // What was compared before and cannot be now. A kernel that is gone together with its ops and its
  // bytes is a change of the op list, unless others are new: they may be the same under new names.
  bool is_missing(const Finding& finding) const {
    if (finding.judgement == Judgement::kRemoved) {
      return finding.kernel.empty() || !lists_all_kernels_ || !matches_all_kernels_;
    }
    return finding.judgement == Judgement::kUnknown && !finding.after;
  }

  void add_missing(Figure figure, std::string note) {
    add(figure, std::nullopt, std::nullopt, Judgement::kUnknown).note = std::move(note);
  }

  void start_plan(std::string plan, std::string pattern, Change change) {
    plan_ = std::move(plan);
    plan_pattern_ = std::move(pattern);
    change_ = change;
    kernel_.clear();
    op_.clear();
    kernel_names_.clear();
    lists_all_kernels_ = matches_all_kernels_ = true;
  }

  // True if both sides have the figure; if only one has, it is recorded as unknown.
  template <typename Value>
  bool both(Figure figure, const std::optional<Value>& before, const std::optional<Value>& after,
            const std::string& why_before = {}, const std::string& why_after = {}) {
    if (before && after) return true;
    if (!before && !after) return false;
    const auto count = [](const std::optional<Value>& value) {
      std::optional<std::uint64_t> number;
      if constexpr (std::is_same_v<Value, std::uint64_t>) {
        number = value;
      } else if (value) {
        number = value->median;
      }
      return number;
    };
    const std::string& why = before ? why_after : why_before;
    add(figure, count(before), count(after), Judgement::kUnknown).note =
        fmt::format("{}{}{}", before ? "no longer available" : "not available before",
                    why.empty() ? "" : ": ", why);
    return false;
  }

  void add_bytes(const std::optional<std::uint64_t>& before,
                 const std::optional<std::uint64_t>& after, std::string note) {
    if (!both(Figure::kBytes, before, after)) return;
    const Judgement judgement = judge_bytes(*before, *after, tolerance(Quantity::kBytes));
    Finding& finding = add(Figure::kBytes, before, after, judgement);
    if (*before != *after) finding.note = std::move(note);
  }

  void add_wrong(const std::optional<std::uint64_t>& before,
                 const std::optional<std::uint64_t>& after) {
    const bool wrong = after == std::uint64_t{1};
    if (!wrong && !both(Figure::kWrong, before, after)) return;
    Finding& finding = add(Figure::kWrong, before, after,
                           wrong              ? Judgement::kWorse
                           : *before > *after ? Judgement::kBetter
                                              : Judgement::kSame);
    if (wrong) finding.note = "its results do not match the reference";
  }

  // What some of the kernels before had, so that their sum has none, and the kernels now lack.
  void add_lost_parts(const std::vector<KernelFigures>& before,
                      const std::vector<std::size_t>& chosen, const KernelFigures& now) {
    const auto check = [&](Figure figure, const auto& figure_of) {
      const auto has = [&](std::size_t k) { return figure_of(before[k]).has_value(); };
      const bool partial = std::ranges::any_of(chosen, has) && !std::ranges::all_of(chosen, has);
      if (!partial || figure_of(now)) return;
      add_missing(figure, "some of its kernels had it, and it is no longer available");
    };
    check(Figure::kBytes, [](const KernelFigures& kernel) { return kernel.bytes; });
    check(Figure::kDramRead, [](const KernelFigures& kernel) { return kernel.measured.read; });
    check(Figure::kDramWrite, [](const KernelFigures& kernel) { return kernel.measured.write; });
    check(Figure::kTime, [](const KernelFigures& kernel) { return kernel.measured.time; });
  }

  // `more`: of ops that could be launched before.
  void add_unlaunchable(const std::optional<std::string>& before,
                        const std::optional<std::string>& after, bool more) {
    if (!before && !after) return;
    const Judgement judgement = !before || (after && more) ? Judgement::kWorse
                                : !after                   ? Judgement::kBetter
                                                           : Judgement::kSame;
    Finding& finding = add(Figure::kUnlaunchable, before ? 1 : 0, after ? 1 : 0, judgement);
    if (after) finding.note = printable(*after);
  }

  // `first` is the figure of the bytes read; those written and the time follow it.
  void add_measured(const MeasuredFigures& before, const MeasuredFigures& after, Figure first) {
    const auto figure = [&](int i) { return static_cast<Figure>(static_cast<int>(first) + i); };
    const std::uint64_t total = before.read.value_or(0) + before.write.value_or(0);
    // Bytes of fewer launches are no fewer bytes.
    const auto lacks = [](const MeasuredFigures& some, const MeasuredFigures& others) {
      return some.uncounted <= others.uncounted
                 ? some.reason
                 : fmt::format("{} of its launches not counted, {} in the other", some.uncounted,
                               others.uncounted);
    };
    const bool fewer = after.uncounted > before.uncounted;
    const bool more = after.uncounted < before.uncounted;
    int i = 0;
    for (const auto part : {&MeasuredFigures::read, &MeasuredFigures::write}) {
      const Figure now = figure(i++);
      if (!both(now, more ? std::nullopt : before.*part, fewer ? std::nullopt : after.*part,
                lacks(before, after), lacks(after, before))) {
        continue;
      }
      const std::uint64_t then = *(before.*part);
      add(now, then, after.*part,
          judge_dram(then, *(after.*part), total, tolerance(Quantity::kDram)));
    }
    if (!both(figure(i), before.time, after.time, before.reason, after.reason)) return;
    const Judgement judgement = judge_time(*before.time, *after.time, tolerance(Quantity::kTime));
    Finding& finding = add(figure(i), before.time->median, after.time->median, judgement);
    if (judgement == Judgement::kNoise) finding.note = "the p10 to p90 ranges overlap";
  }

  void add_unpaired(const std::optional<std::uint64_t>& bytes) {
    const bool added = change_ == Change::kAdded;
    const std::optional<std::uint64_t> none;
    add(Figure::kBytes, added ? none : bytes, added ? bytes : none,
        added ? Judgement::kAdded : Judgement::kRemoved);
  }

  void add_unpaired_plan(const PlanFigures& plan, Change change) {
    start_plan(plan.name, plan.name, change);
    add_unpaired(plan.bytes);
  }

  // The document's headline, unless the finding of its plan has the same figures.
  void add_headline(const std::string& plan, const std::optional<std::uint64_t>& before,
                    const std::optional<std::uint64_t>& after) {
    for (std::size_t i = first_finding_; i < comparison_.findings.size(); ++i) {
      const Finding& finding = comparison_.findings[i];
      const bool whole_plan = finding.plan == plan && finding.kernel.empty() &&
                              finding.figure == Figure::kBytes &&
                              finding.judgement != Judgement::kUnknown;
      if (whole_plan && finding.before == before && finding.after == after) return;
    }
    start_plan(plan, plan, Change::kSame);
    add_bytes(before, after, "");
  }

  const ResultDocument& before_;
  const ResultDocument& after_;
  const std::string spec_;
  Comparison& comparison_;
  const std::size_t first_finding_;  // of this document
  const OpMatcher matcher_;
  // Where the next finding belongs.
  std::string plan_;
  std::string plan_pattern_;  // what patterns are matched with
  std::string kernel_;
  std::string op_;  // the first of the kernel's
  std::vector<std::string> kernel_names_;
  Change change_ = Change::kSame;
  bool lists_all_kernels_ = true;    // of the new plan
  bool matches_all_kernels_ = true;  // of the new plan
};

}  // namespace

void compare_documents(const ResultDocument& before, const ResultDocument& after,
                       const std::string& spec, Comparison& comparison) {
  const auto note = [&](const std::string& text) {
    comparison.notes.push_back(printable(spec) + ": " + text);
  };
  for (const std::string& mismatch : mismatches(before, after)) {
    note("compared anyway: " + after.path + ": " + mismatch);
  }
  if (!before.says_inputs || !after.says_inputs) {
    const bool neither = !before.says_inputs && !after.says_inputs;
    note((neither              ? "neither side records"
          : before.says_inputs ? after.path + " does not record"
                               : before.path + " does not record") +
         std::string(" dims and dtypes; matched by name only"));
  }
  for (const auto& [what, now] : after.circumstances) {
    const auto then = before.circumstances.find(what);
    if (then == before.circumstances.end() || then->second == now) continue;
    note(fmt::format("{} changed from {} to {}", what, printable(then->second), printable(now)));
  }
  if (before.name != after.name) {
    note(fmt::format("renamed from {} to {}", in_quotes(before.name), in_quotes(after.name)));
  }
  comparison.specs.push_back(spec);
  if (!after.source.empty()) comparison.sources[spec] = after.source;
  DocumentComparer(before, after, spec, comparison).compare();
}

void note_incomparable_documents(const std::string& spec, const std::string& why,
                                 Comparison& comparison) {
  comparison.specs.push_back(spec);
  Finding finding{.spec = spec, .plan = {}, .kernel = {}};
  finding.figure = Figure::kSpec;
  finding.judgement = Judgement::kUnknown;
  finding.failed = true;
  finding.note = "not comparable: " + why;
  comparison.findings.push_back(std::move(finding));
}

void note_unpaired_document(const std::string& spec, Change change, Comparison& comparison) {
  const bool removed = change == Change::kRemoved;
  comparison.specs.push_back(spec);
  Finding finding{.spec = spec, .plan = {}, .kernel = {}};
  finding.change = change;
  finding.figure = Figure::kSpec;
  finding.judgement = removed ? Judgement::kRemoved : Judgement::kAdded;
  finding.failed = (removed && !comparison.allow_missing) || comparison.strict;
  finding.note = (removed ? comparison.fresh : comparison.base) + " has no result of that name";
  comparison.findings.push_back(std::move(finding));
}

}  // namespace fusecalc
