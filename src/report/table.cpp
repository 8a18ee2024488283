#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/reasons.hpp"
#include "analysis/repeats.hpp"
#include "core/format.hpp"
#include "core/ratio.hpp"
#include "core/short_names.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

// Lines of columns are at most 80 columns wide.
constexpr std::size_t kLongestName = 31;  // as the formats say, too
constexpr std::size_t kMostRows = 12;     // of a section, unless --explain shows all

constexpr std::string_view kBold = "1";
constexpr std::string_view kBefore = "33";
constexpr std::string_view kAfter = "32";
constexpr std::string_view kFaint = "2";

// A bar of `share` of its full width, to an eighth of a cell; never empty for a share above 0.
std::string bar(double share, int cells) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  auto eighths = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * cells * 8));
  if (share > 0) eighths = std::max<std::size_t>(eighths, 1);
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return text;
}

std::string bar_of(std::uint64_t part, std::uint64_t whole, int cells, std::string_view code,
                   const Style& style) {
  return whole == 0 ? "" : coloured(bar(exact_ratio(part, whole), cells), code, style);
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped_digits(count), noun, count == 1 ? "" : "s");
}

// "x 32", or nothing for once.
std::string times(std::uint64_t count) { return count == 1 ? "" : "x " + grouped_digits(count); }

// Adjacent names of one scope are written once: "layers.0.mlp.act+mul" for layers.0.mlp.act and
// layers.0.mlp.mul.
std::string in_scope(const OpGraph& graph, const Kernel& kernel, const std::string& name) {
  const std::string& first = graph.ops[kernel.front()].name;
  const std::size_t end = first.find_last_of("./");
  if (kernel.size() < 2 || end == std::string::npos) return name;
  const std::string scope = first.substr(0, end + 1);
  std::string text = name;
  for (std::size_t at = text.find('+' + scope); at != std::string::npos;
       at = text.find('+' + scope, at + 1)) {
    text.erase(at + 1, scope.size());
  }
  return text;
}

// Rows of a section that read alike but for numbers in their names.
template <typename Row>
struct Folded {
  Row row;
  std::uint64_t count = 1;
};

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
    const std::string bytes =
        fmt::format("{} {} ({} %)", less ? "saves" : "moves",
                    coloured(human_bytes(difference), kBold, style_) + (less ? "" : " more"),
                    shortest_decimal(savings.percent()));
    if (!analysis_.graph) {
      line("\n  fusion {}, estimated speedup {}x", bytes,
           coloured(shortest_decimal(savings.speedup()), kBold, style_));
      return;
    }
    write_headline(bytes);
    write_saved_tensors();
    write_kernels();
    write_doubts();
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    output_.write(fmt::format(format, std::forward<Args>(args)...) + "\n");
  }

  // Time leads; the ratio of bytes alone is what it would be if nothing but memory took time.
  void write_headline(const std::string& bytes) {
    const GraphAnalysis& graph = *analysis_.graph;
    const Prediction& before = graph.plan(PlanKind::kUnfused).predicted;
    const Prediction& after = headline().predicted;
    const double saved = before.time_us - after.time_us;
    const std::string time = coloured(human_time(std::abs(saved)), kBold, style_);
    line("\n  {} {} and {} on {}", name_of(analysis_.plan), bytes,
         saved >= 0 ? (analysis_.savings().bytes() >= 0 ? "" : "saves ") + time
                    : "takes " + time + " more",
         printable(graph.device.name));
    line("  predicted speedup {}x (by bytes alone {}x)",
         coloured(fmt::format("{:.2f}", analysis_.predicted_speedup().value_or(1)), kBold, style_),
         shortest_decimal(analysis_.savings().speedup()));
    const Prediction& fastest = graph.plan(PlanKind::kFastest).predicted;
    constexpr double kTelling = 0.98;
    if (analysis_.plan == PlanKind::kAuto && fastest.time_us < kTelling * after.time_us) {
      line("  --plan fastest is predicted to take {} less",
           human_time(after.time_us - fastest.time_us));
    }
    if (!graph.device.constants.calibrated()) {
      line("  {}", coloured(fmt::format("times: from {}'s datasheet, within {:.0f} % or so",
                                        printable(graph.device.name),
                                        100 * (after.time_range.high / after.time_us - 1)),
                            kFaint, style_));
    }
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

  // `time`: predicted; empty for lists of sizes.
  void plan_row(std::string_view name, const std::string& kernels, const Bytes& bytes,
                const std::string& time, std::uint64_t most, std::string_view code) {
    constexpr int kBarCells = 20;
    constexpr int kCellsBesideTime = 14;
    if (time.empty() && !analysis_.graph) {
      line("  {:<9}{:>9}{:>12}{:>12}{:>12}  {}", name, kernels, human_bytes(bytes.read),
           human_bytes(bytes.write), human_bytes(bytes.total()),
           bar_of(bytes.total(), most, kBarCells, code, style_));
      return;
    }
    line("  {:<9}{:>8}{:>11}{:>11}{:>11}{:>11}  {}", name, kernels, human_bytes(bytes.read),
         human_bytes(bytes.write), human_bytes(bytes.total()), time,
         bar_of(bytes.total(), most, kCellsBesideTime, code, style_));
  }

  void write_plans() {
    if (analysis_.graph) {
      line("  {:<9}{:>8}{:>11}{:>11}{:>11}{:>11}", "plan", "kernels", "read", "written", "total",
           "time");
    } else {
      line("  {:<9}{:>9}{:>12}{:>12}{:>12}", "plan", "kernels", "read", "written", "total");
    }
    std::uint64_t most = std::max(analysis_.unfused.total(), analysis_.fused.total());
    if (!analysis_.graph) {
      const bool any = analysis_.operations > 0;
      plan_row("unfused", std::to_string(analysis_.operations), analysis_.unfused, "", most,
               kBefore);
      plan_row("fused", any ? "1" : "0", analysis_.fused, "", most, kAfter);
      return;
    }
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      most = std::max(most, plan.bytes.total());
    }
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      const bool limit = plan.kind == PlanKind::kLimit;
      const bool chosen = plan.kind == analysis_.plan;
      plan_row(name_of(plan.kind), limit ? "-" : grouped_digits(plan.kernels.size()), plan.bytes,
               plan.kernels.empty() ? "" : human_time(plan.predicted.time_us), most,
               chosen                            ? kAfter
               : plan.kind == PlanKind::kUnfused ? kBefore
                                                 : kFaint);
    }
  }

  void write_saved_tensors() {
    constexpr int kBarCells = 13;
    const std::vector<Folded<SavedTensor>> saved = folded_tensors();
    if (saved.empty()) return;
    line("\n  {}", coloured("saved, by tensor", kBold, style_));
    std::uint64_t most = 0;
    for (const auto& [tensor, count] : saved) most = std::max(most, tensor.bytes);
    ShortNames names(kLongestName);
    for (std::size_t i = 0; i < rows_of(saved.size()); ++i) {
      const auto& [tensor, count] = saved[i];
      line("  {:<31} {:>7}{:>10}  {}{}", names.of(tensor_name(tensor.tensor)), times(count),
           human_bytes(tensor.bytes), bar_of(tensor.bytes, most, kBarCells, kAfter, style_),
           tensor.never_in_memory ? coloured(" never in memory", kFaint, style_) : "");
    }
    write_rest(saved.size(), "tensor");
  }

  // The most saved first, those of all layers together.
  std::vector<Folded<SavedTensor>> folded_tensors() const {
    std::vector<Folded<SavedTensor>> rows;
    std::map<std::tuple<std::string, std::uint64_t, bool>, std::size_t> known;
    for (const SavedTensor& tensor : saved_tensors(*analysis_.graph, headline())) {
      const auto [place, added] = known.try_emplace(
          {without_numbers(tensor_name(tensor.tensor)), tensor.bytes, tensor.never_in_memory},
          rows.size());
      if (added) {
        rows.push_back({.row = tensor});
      } else {
        ++rows[place->second].count;
      }
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const Folded<SavedTensor>& row) {
      return static_cast<double>(row.row.bytes) * static_cast<double>(row.count);
    });
    return rows;
  }

  // Kernels of the headline's plan that a section shows, those of repeated layers once.
  std::vector<Folded<KernelId>> folded_kernels() {
    std::vector<Folded<KernelId>> rows;
    for (const Repeat& repeat : repeats_of(analysis_.graph->graph, headline())) {
      for (std::uint32_t place = 0; place < repeat.period; ++place) {
        rows.push_back({.row = repeat.at(place, 0), .count = repeat.count});
        repeats_.emplace(repeat.at(place, 0), repeat);
      }
    }
    return rows;
  }

  void write_kernels() {
    constexpr int kBarCells = 9;
    const std::vector<KernelAnalysis>& reports = headline().kernels;
    std::vector<Folded<KernelId>> rows = folded_kernels();
    const auto bytes = [&](const Folded<KernelId>& row) {
      return reports[row.row].traffic.bytes.total();
    };
    std::uint64_t most = 0;
    for (const Folded<KernelId>& row : rows) most = std::max(most, bytes(row));
    // In execution order with --explain; otherwise the largest first.
    if (!style_.explain) std::ranges::stable_sort(rows, std::greater<>(), bytes);
    line("\n  {}", coloured(fmt::format("kernels of {}", name_of(analysis_.plan)), kBold, style_));
    ShortNames names(kLongestName);
    for (std::size_t i = 0; i < rows_of(rows.size()); ++i) {
      const KernelId k = rows[i].row;
      const KernelAnalysis& kernel = reports[k];
      line("  {:<31} {:>7}{:>7}{:>9} {:>9}  {}", names.of(kernel_name_of(kernel)),
           kernel.ops.size() == 1 ? "" : plural(kernel.ops.size(), "op"), times(rows[i].count),
           human_bytes(kernel.traffic.bytes.total()), human_time(kernel.predicted.time_us),
           bar_of(kernel.traffic.bytes.total(), most, kBarCells, kAfter, style_));
      if (style_.explain) explain_kernel(k);
    }
    write_rest(rows.size(), "kernel");
  }

  void explain_kernel(KernelId k) {
    const KernelAnalysis& kernel = headline().kernels[k];
    std::string kinds;
    for (const OpId op : kernel.ops) {
      kinds += (kinds.empty() ? "" : ", ") + std::string(analysis_.graph->graph.ops[op].row->name);
    }
    line("    does    {}", kinds);
    line("    reads   {}", entries_in_words(kernel.traffic.reads));
    line("    writes  {}", entries_in_words(kernel.traffic.writes));
    const Prediction& predicted = kernel.predicted;
    line("    takes   {} to {}, bound by {}; DRAM {}", human_time(predicted.time_range.low),
         human_time(predicted.time_range.high), name_of(predicted.bound),
         human_bytes(static_cast<std::uint64_t>(predicted.dram())));
    std::set<std::string> told;
    const Repeat& repeat = repeats_.at(k);
    for (std::uint32_t i = 0; i < repeat.count; ++i) {
      explain_boundaries(repeat.at(k - repeat.first, i), i > 0, told);
    }
    line("");
  }

  // Of a later layer, only what reads differently than that of an earlier one.
  void explain_boundaries(KernelId k, bool later, std::set<std::string>& told) {
    for (const Boundary& boundary : headline().boundaries->of(k)) {
      const std::string shared = fmt::format(
          "{} (shares {})", printable(kernel_name_of(headline().kernels[boundary.with])),
          printable(tensor_name(boundary.tensor)));
      const std::string reason = printable(full_reason_of(*analysis_.graph, boundary), kNoLimit);
      if (!told.insert(without_numbers(shared) + reason).second) continue;
      line("    {}{} {}",
           later ? printable(kernel_name_of(headline().kernels[k])) + ": " : std::string(),
           coloured("not fused with", kBefore, style_), shared + ": " + reason);
    }
  }

  std::string entries_in_words(const std::vector<KernelTraffic::Entry>& entries) const {
    std::string text;
    for (const KernelTraffic::Entry& entry : entries) {
      if (entry.bytes == 0) continue;
      if (!text.empty()) text += ", ";
      text += fmt::format("{} {}", printable(tensor_name(entry.tensor)), human_bytes(entry.bytes));
      if (entry.passes > 1) text += fmt::format(" ({} passes)", entry.passes);
    }
    return text.empty() ? "nothing" : text;
  }

  // What fusecalc cannot generate, and what is better split: a plan of the document's own.
  void write_doubts() {
    const GraphAnalysis& details = *analysis_.graph;
    for (const Repeat& repeat : repeats_of(details.graph, headline())) {
      for (std::uint32_t place = 0; place < repeat.period; ++place) {
        const KernelAnalysis& kernel = headline().kernels[repeat.at(place, 0)];
        const std::string name =
            coloured(printable(kernel_name_of(kernel)), kBefore, style_) +
            (repeat.count > 1 ? fmt::format(" (x {})", grouped_digits(repeat.count)) : "");
        if (!kernel.launch.legal()) {
          line("\n  {}: fusecalc cannot generate this kernel: {}", name,
               printable(reason_of(details, kernel), kNoLimit));
        }
        if (kernel.split) write_split(name, kernel);
      }
    }
  }

  void write_split(const std::string& name, const KernelAnalysis& kernel) {
    std::string parts;
    for (const Kernel& part : kernel.split->kernels) {
      const OpGraph& graph = analysis_.graph->graph;
      parts += fmt::format(" [{}]", printable(in_scope(graph, part, kernel_name(graph, part))));
    }
    line("\n  {}: split into{} it moves {} instead of {}", name, parts,
         human_bytes(kernel.split->bytes), human_bytes(kernel.traffic.bytes.total()));
  }

  const std::string& tensor_name(TensorId id) const {
    return analysis_.graph->graph.tensors[id].name;
  }

  std::string kernel_name_of(const KernelAnalysis& kernel) const {
    return in_scope(analysis_.graph->graph, kernel.ops, kernel.name);
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
  std::map<KernelId, Repeat> repeats_;  // by each kernel of the first repetition
};

}  // namespace

void write_table(const Analysis& analysis, const Style& style, Output& output) {
  Table(analysis, style, output).write();
}

void write_table(std::span<const Analysis> analyses, const Style& style, Output& output) {
  for (const Analysis& analysis : analyses) {
    if (&analysis != &analyses.front()) output.write("\n\n");
    write_table(analysis, style, output);
  }
}

}  // namespace fusecalc
