#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/reasons.hpp"
#include "core/format.hpp"
#include "core/ratio.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr int kBarCells = 30;
constexpr std::size_t kLongestName = 32;
constexpr std::size_t kMostRows = 12;  // of a section, unless --explain shows all

constexpr std::string_view kBold = "1";
constexpr std::string_view kBefore = "33";
constexpr std::string_view kAfter = "32";
constexpr std::string_view kFaint = "2";

// A bar of `share` of the full width, to an eighth of a cell; never empty for a share above 0.
std::string bar(double share) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  auto eighths = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarCells * 8));
  if (share > 0) eighths = std::max<std::size_t>(eighths, 1);
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return text;
}

std::string bar_of(std::uint64_t part, std::uint64_t whole, std::string_view code,
                   const Style& style) {
  return whole == 0 ? "" : coloured(bar(exact_ratio(part, whole)), code, style);
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped_digits(count), noun, count == 1 ? "" : "s");
}

std::string short_name(std::string_view name) { return printable(name, kLongestName - 3); }

class Table {
 public:
  Table(const Analysis& analysis, const Style& style, Output& output)
      : analysis_(analysis), style_(style), output_(output) {}

  void write() {
    write_title();
    write_plans();
    if (analysis_.operations == 0) return;
    const Savings savings = analysis_.savings();
    const bool less = savings.bytes() >= 0;
    const auto difference = static_cast<std::uint64_t>(less ? savings.bytes() : -savings.bytes());
    line("\n  {} {} {} ({} %), estimated speedup {}x",
         analysis_.graph ? name_of(analysis_.plan) : "fusion", less ? "saves" : "moves",
         coloured(human_bytes(difference), kBold, style_) + (less ? "" : " more"),
         shortest_decimal(savings.percent()),
         coloured(shortest_decimal(savings.speedup()), kBold, style_));
    if (!analysis_.graph) return;
    write_saved_tensors();
    write_kernels();
    write_doubts();
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    output_.write(fmt::format(format, std::forward<Args>(args)...) + "\n");
  }

  const PlanAnalysis& headline() const { return analysis_.graph->plan(analysis_.plan); }

  void write_title() {
    const std::string name = coloured(printable(analysis_.name), kBold, style_);
    if (analysis_.graph) {
      line("{}: {}\n", name, plural(analysis_.operations, "operation"));
    } else {
      line("{}: {}, {} an element\n", name, plural(analysis_.operations, "operation"),
           plural(analysis_.dtype_bytes, "byte"));
    }
  }

  void plan_row(std::string_view name, const std::string& kernels, const Bytes& bytes,
                std::uint64_t most, std::string_view code) {
    line("  {:<9}{:>9}{:>12}{:>12}{:>12}  {}", name, kernels, human_bytes(bytes.read),
         human_bytes(bytes.write), human_bytes(bytes.total()),
         bar_of(bytes.total(), most, code, style_));
  }

  void write_plans() {
    line("  {:<9}{:>9}{:>12}{:>12}{:>12}", "plan", "kernels", "read", "written", "total");
    std::uint64_t most = std::max(analysis_.unfused.total(), analysis_.fused.total());
    if (!analysis_.graph) {
      const bool any = analysis_.operations > 0;
      plan_row("unfused", std::to_string(analysis_.operations), analysis_.unfused, most, kBefore);
      plan_row("fused", any ? "1" : "0", analysis_.fused, most, kAfter);
      return;
    }
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      most = std::max(most, plan.bytes.total());
    }
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      const bool limit = plan.kind == PlanKind::kLimit;
      const bool chosen = plan.kind == analysis_.plan;
      plan_row(name_of(plan.kind), limit ? "-" : grouped_digits(plan.kernels.size()), plan.bytes,
               most,
               chosen                            ? kAfter
               : plan.kind == PlanKind::kUnfused ? kBefore
                                                 : kFaint);
    }
  }

  void write_saved_tensors() {
    const std::vector<SavedTensor> saved = saved_tensors(*analysis_.graph, headline());
    if (saved.empty()) return;
    line("\n  {}", coloured("saved, by tensor", kBold, style_));
    for (std::size_t i = 0; i < rows_of(saved.size()); ++i) {
      const auto& [id, bytes, never_in_memory] = saved[i];
      line("  {:<32}{:>22}  {}{}", short_name(analysis_.graph->graph.tensors[id].name),
           human_bytes(bytes), bar_of(bytes, saved.front().bytes, kAfter, style_),
           never_in_memory ? coloured(" never in memory", kFaint, style_) : "");
    }
    write_rest(saved.size(), "tensor");
  }

  void write_kernels() {
    const std::vector<KernelAnalysis>& reports = headline().kernels;
    std::vector<KernelId> kernels(reports.size());
    std::iota(kernels.begin(), kernels.end(), KernelId{0});
    const auto bytes = [&](KernelId k) { return reports[k].traffic.bytes.total(); };
    std::uint64_t most = 0;
    for (const KernelId k : kernels) most = std::max(most, bytes(k));
    // In execution order with --explain; otherwise the largest first.
    if (!style_.explain) std::ranges::stable_sort(kernels, std::greater<>(), bytes);
    line("\n  {}", coloured(fmt::format("kernels of {}", name_of(analysis_.plan)), kBold, style_));
    for (std::size_t i = 0; i < rows_of(kernels.size()); ++i) {
      const KernelAnalysis& kernel = reports[kernels[i]];
      line("  {:<32}{:>10}{:>12}  {}", short_name(kernel.name),
           kernel.ops.size() == 1 ? "" : plural(kernel.ops.size(), "op"),
           human_bytes(kernel.traffic.bytes.total()),
           bar_of(kernel.traffic.bytes.total(), most, kAfter, style_));
      if (style_.explain) explain_kernel(kernel, headline().boundaries->of(kernels[i]));
    }
    write_rest(kernels.size(), "kernel");
  }

  void explain_kernel(const KernelAnalysis& kernel, std::span<const Boundary> boundaries) {
    const GraphAnalysis& details = *analysis_.graph;
    std::string kinds;
    for (const OpId op : kernel.ops) {
      kinds += (kinds.empty() ? "" : ", ") + std::string(details.graph.ops[op].row->name);
    }
    line("    does    {}", kinds);
    line("    reads   {}", entries_in_words(kernel.traffic.reads));
    line("    writes  {}", entries_in_words(kernel.traffic.writes));
    for (const Boundary& boundary : boundaries) {
      line("    {} {} (shares {}): {}", coloured("not fused with", kBefore, style_),
           short_name(headline().kernels[boundary.with].name),
           short_name(details.graph.tensors[boundary.tensor].name),
           printable(full_reason_of(details, boundary), kNoLimit));
    }
    line("");
  }

  std::string entries_in_words(const std::vector<KernelTraffic::Entry>& entries) const {
    std::string text;
    for (const KernelTraffic::Entry& entry : entries) {
      if (entry.bytes == 0) continue;
      if (!text.empty()) text += ", ";
      text += fmt::format("{} {}", short_name(analysis_.graph->graph.tensors[entry.tensor].name),
                          human_bytes(entry.bytes));
      if (entry.passes > 1) text += fmt::format(" ({} passes)", entry.passes);
    }
    return text.empty() ? "nothing" : text;
  }

  // Warnings about an explicit plan: kernels that cannot be launched or are better split.
  void write_doubts() {
    const GraphAnalysis& details = *analysis_.graph;
    for (const KernelAnalysis& kernel : headline().kernels) {
      const std::string name = short_name(kernel.name);
      if (!kernel.launch.legal()) {
        line("\n  {}: cannot be launched: {}", coloured(name, kBefore, style_),
             printable(reason_of(details, kernel), kNoLimit));
      }
      if (kernel.split) {
        std::string parts;
        for (const Kernel& part : kernel.split->kernels) {
          parts += fmt::format(" [{}]", short_name(kernel_name(details.graph, part)));
        }
        line("\n  {}: split into{} it moves {} instead of {}", coloured(name, kBefore, style_),
             parts, human_bytes(kernel.split->bytes), human_bytes(kernel.traffic.bytes.total()));
      }
    }
  }

  std::size_t rows_of(std::size_t count) const {
    return style_.explain ? count : std::min(count, kMostRows);
  }

  void write_rest(std::size_t count, std::string_view noun) {
    if (rows_of(count) == count) return;
    line("  {}", coloured(fmt::format("and {} (--explain shows all)",
                                      plural(count - kMostRows, fmt::format("more {}", noun))),
                          kFaint, style_));
  }

  const Analysis& analysis_;
  const Style& style_;
  Output& output_;
};

}  // namespace

void write_table(const Analysis& analysis, const Style& style, Output& output) {
  Table(analysis, style, output).write();
}

}  // namespace fusecalc
