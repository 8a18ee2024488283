#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/reasons.hpp"
#include "analysis/repeats.hpp"
#include "core/format.hpp"
#include "report/listing.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

// Lists of sizes have no `time`.
void write_row(Output& output, std::string_view plan, std::string_view kernels,
               std::string_view time, const Bytes& bytes) {
  output.write(fmt::format("| {} | {} | {}{} | {} | {} |\n", plan, kernels, time,
                           human_bytes(bytes.read), human_bytes(bytes.write),
                           human_bytes(bytes.total())));
}

std::string entries_in_words(const OpGraph& graph,
                             const std::vector<KernelTraffic::Entry>& entries) {
  std::string text;
  for (const KernelTraffic::Entry& entry : entries) {
    if (entry.bytes == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        markdown_text(graph.tensors[entry.tensor].name), human_bytes(entry.bytes));
  }
  return text;
}

// `count` is how often it repeats in later layers.
void write_kernel(Output& output, const GraphAnalysis& analysis, const KernelAnalysis& kernel,
                  std::uint32_t count) {
  output.write(fmt::format("| {}{} | {} | {} | {} | {} |\n", markdown_text(kernel.name),
                           count > 1 ? fmt::format(" (x {})", count) : "",
                           entries_in_words(analysis.graph, kernel.traffic.reads),
                           entries_in_words(analysis.graph, kernel.traffic.writes),
                           human_time(kernel.predicted.time_us),
                           human_bytes(kernel.traffic.bytes.total())));
}

// Reasons that read alike but for numbers, as those of later layers do, are told once.
std::string reasons_in_words(const GraphAnalysis& analysis, const PlanAnalysis& plan) {
  struct Reason {
    std::string text;
    std::uint64_t count = 1;
  };
  std::vector<Reason> reasons;
  std::unordered_map<std::string, std::size_t> known;
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    const KernelAnalysis& kernel = plan.kernels[k];
    for (const Boundary& boundary : plan.boundaries->of(k)) {
      const std::string pair =
          fmt::format("- **{}** and **{}**, through {}: ", markdown_text(kernel.name),
                      markdown_text(plan.kernels[boundary.with].name),
                      markdown_text(analysis.graph.tensors[boundary.tensor].name));
      const std::string reason = markdown_text(full_reason_of(analysis, boundary));
      const auto [place, added] = known.try_emplace(without_numbers(pair) + reason, reasons.size());
      if (added) {
        reasons.push_back({.text = pair + reason});
      } else {
        ++reasons[place->second].count;
      }
    }
  }
  std::string text;
  for (const Reason& reason : reasons) {
    text += reason.text;
    text += reason.count > 1 ? fmt::format(" (x {})\n", reason.count) : "\n";
  }
  return text;
}

void write_kernels(Output& output, const GraphAnalysis& analysis, const PlanAnalysis& plan) {
  output.write(
      fmt::format("\nKernels of {}:\n\n| kernel | reads | writes | time | total |\n"
                  "|---|---|---|---:|---:|\n",
                  name_of(plan.kind)));
  for (const Repeat& repeat : repeats_of(analysis.graph, plan)) {
    for (std::uint32_t place = 0; place < repeat.period; ++place) {
      write_kernel(output, analysis, plan.kernels[repeat.at(place, 0)], repeat.count);
    }
  }
  const std::string reasons = reasons_in_words(analysis, plan);
  if (!reasons.empty()) output.write("\nWhy they are not fused:\n\n" + reasons);
}

}  // namespace

void write_markdown(const Analysis& analysis, const Style& style, Output& output) {
  const Savings savings = analysis.savings();
  output.write(fmt::format("### {}\n\n", markdown_text(analysis.name)));
  output.write(analysis.graph ? "| plan | kernels | time | read | written | total |\n"
                                "|---|---:|---:|---:|---:|---:|\n"
                              : "| plan | kernels | read | written | total |\n"
                                "|---|---:|---:|---:|---:|\n");
  if (analysis.graph) {
    for (const PlanAnalysis& plan : analysis.graph->plans) {
      const bool limit = plan.kind == PlanKind::kLimit;
      const std::string time = plan.kernels.empty() ? "" : human_time(plan.predicted.time_us);
      write_row(output, name_of(plan.kind), limit ? "-" : std::to_string(plan.kernels.size()),
                time + " | ", plan.bytes);
    }
  } else {
    write_row(output, "unfused", std::to_string(analysis.operations), "", analysis.unfused);
    write_row(output, "auto (fused)", analysis.operations > 0 ? "1" : "0", "", analysis.fused);
  }
  if (analysis.operations == 0) {
    output.write(analysis.lists_nothing() ? "\nNo operations.\n"
                                          : "\nViews alone, which move nothing.\n");
    return;
  }
  if (!analysis.graph) {
    output.write(fmt::format("\nFusion saves **{} %** of the traffic; estimated speedup **{}x**.\n",
                             shortest_decimal(savings.percent()),
                             shortest_decimal(savings.speedup())));
    return;
  }
  output.write(fmt::format(
      "\n{} saves **{} %** of the traffic; speedup **{:.2f}x** by predicted time on {}, {}x by "
      "bytes alone.\n",
      name_of(analysis.plan), shortest_decimal(savings.percent()),
      analysis.predicted_speedup().value_or(1), markdown_text(analysis.graph->device.name),
      shortest_decimal(savings.speedup())));
  if (style.explain) {
    write_kernels(output, *analysis.graph, analysis.graph->plan(analysis.plan));
  }
}

void write_markdown(std::span<const Analysis> analyses, const Style& style, Output& output) {
  for (const Analysis& analysis : analyses) {
    if (&analysis != &analyses.front()) output.write("\n");
    write_markdown(analysis, style, output);
  }
}

}  // namespace fusecalc
