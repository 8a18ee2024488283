#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/reasons.hpp"
#include "analysis/repeats.hpp"
#include "core/format.hpp"
#include "core/ratio.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/text_table.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

using Kind = TextTable::Kind;

constexpr std::size_t kMostRows = 12;  // of a section, unless --explain shows all

constexpr std::string_view kBefore = "33";
constexpr std::string_view kAfter = "32";

std::string saved_bytes(std::uint64_t before, std::uint64_t after) {
  return before < after ? "-" + human_bytes(after - before) : human_bytes(before - after);
}

std::string saved_time(double before, double after) {
  return (before < after ? "-" : "") + human_time(std::abs(before - after));
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
    if (analysis_.operations == 0) {
      if (!analysis_.lists_nothing()) line("\n  views alone, which move nothing");
      return;
    }
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
    const bool fewer = analysis_.savings().bytes() >= 0;
    line("\n  {} {} {} {} on {}", name_of(analysis_.plan), bytes,
         saved < 0 && fewer ? "but" : "and",
         saved >= 0 ? (fewer ? "" : "saves ") + time : "takes " + time + " more",
         printable(graph.device.name));
    line("  speedup {}x by predicted time, {}x by bytes alone",
         coloured(fmt::format("{:.2f}", analysis_.predicted_speedup().value_or(1)), kBold, style_),
         shortest_decimal(analysis_.savings().speedup()));
    const Prediction& fastest = graph.plan(PlanKind::kFastest).predicted;
    constexpr double kTelling = 0.98;
    if (analysis_.plan == PlanKind::kAuto && fastest.time_us < kTelling * after.time_us) {
      line("  for time use --plan fastest ({}); auto for bytes", human_time(fastest.time_us));
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

  void write_plans() {
    std::vector<TextTable::Column> columns = {{"plan", Kind::kText}};
    const auto add = [&](std::initializer_list<const char*> titles) {
      for (const char* title : titles) columns.push_back({title, Kind::kNumber});
    };
    if (analysis_.graph) {
      add({"time", "time saved", "bytes", "bytes saved", "kernels"});
    } else {
      add({"kernels", "read", "written", "total"});
    }
    columns.push_back({"", Kind::kBar});
    TextTable table(std::move(columns), style_);
    if (analysis_.graph) {
      add_plans_of_graph(table);
    } else {
      add_plans_of_sizes(table);
    }
    table.write(output_);
  }

  void add_plans_of_sizes(TextTable& table) const {
    const std::uint64_t most = std::max(analysis_.unfused.total(), analysis_.fused.total());
    const auto add = [&](std::string_view name, std::uint64_t kernels, const Bytes& bytes,
                         std::string_view code) {
      table.add({name,
                 std::to_string(kernels),
                 human_bytes(bytes.read),
                 human_bytes(bytes.write),
                 human_bytes(bytes.total()),
                 {share_of(bytes.total(), most), code}});
    };
    add("unfused", analysis_.operations, analysis_.unfused, kBefore);
    add("auto (fused)", analysis_.operations > 0 ? 1 : 0, analysis_.fused, kAfter);
  }

  void add_plans_of_graph(TextTable& table) const {
    std::uint64_t most = 0;
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      most = std::max(most, plan.bytes.total());
    }
    const PlanAnalysis& unfused = analysis_.graph->plan(PlanKind::kUnfused);
    for (const PlanAnalysis& plan : analysis_.graph->plans) {
      const bool limit = plan.kind == PlanKind::kLimit;
      const bool first = &plan == &unfused;
      const bool timed = !plan.kernels.empty();
      const std::string_view code = plan.kind == analysis_.plan ? kAfter : first ? kBefore : kFaint;
      const double time = plan.predicted.time_us;
      table.add({name_of(plan.kind),
                 timed ? human_time(time) : "",
                 timed && !first ? saved_time(unfused.predicted.time_us, time) : "",
                 human_bytes(plan.bytes.total()),
                 first ? "" : saved_bytes(unfused.bytes.total(), plan.bytes.total()),
                 limit ? "-" : grouped_digits(plan.kernels.size()),
                 {share_of(plan.bytes.total(), most), code}});
    }
  }

  void write_saved_tensors() {
    const std::vector<Folded<SavedTensor>> saved = folded_tensors();
    if (saved.empty()) return;
    std::uint64_t most = 0;
    for (const auto& [tensor, count] : saved) most = std::max(most, tensor.bytes);
    TextTable table({{"saved, by tensor", Kind::kName},
                     {"", Kind::kNumber},
                     {"bytes", Kind::kNumber},
                     {"", Kind::kText},
                     {"", Kind::kBar}},
                    style_);
    for (std::size_t i = 0; i < rows_of(saved.size()); ++i) {
      const auto& [tensor, count] = saved[i];
      table.add({tensor_name(tensor.tensor),
                 times(count),
                 (tensor.moved_more ? "-" : "") + human_bytes(tensor.bytes),
                 {std::string(tensor.note()), kFaint},
                 {share_of(tensor.bytes, most), tensor.moved_more ? kBefore : kAfter}});
    }
    line("");
    table.write(output_);
    write_rest(saved.size(), "tensor");
  }

  // The most saved first, those of all layers together.
  std::vector<Folded<SavedTensor>> folded_tensors() const {
    std::vector<Folded<SavedTensor>> rows;
    std::map<std::tuple<std::string, std::uint64_t, std::string_view>, std::size_t> known;
    for (const SavedTensor& tensor : saved_tensors(*analysis_.graph, headline())) {
      const auto [place, added] = known.try_emplace(
          {without_numbers(tensor_name(tensor.tensor)), tensor.bytes, tensor.note()}, rows.size());
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

  // Of the headline's plan.
  const std::vector<Repeat>& layers() {
    if (layers_.empty()) layers_ = repeats_of(analysis_.graph->graph, headline());
    return layers_;
  }

  // Kernels of the headline's plan that a section shows, those of repeated layers once.
  std::vector<Folded<KernelId>> folded_kernels() {
    std::vector<Folded<KernelId>> rows;
    for (const Repeat& repeat : layers()) {
      for (std::uint32_t place = 0; place < repeat.period; ++place) {
        rows.push_back({.row = repeat.at(place, 0), .count = repeat.count});
        repeats_.emplace(repeat.at(place, 0), repeat);
      }
    }
    return rows;
  }

  void write_kernels() {
    const std::vector<KernelAnalysis>& reports = headline().kernels;
    std::vector<Folded<KernelId>> rows = folded_kernels();
    const auto bytes = [&](const Folded<KernelId>& row) {
      return reports[row.row].traffic.bytes.total();
    };
    std::uint64_t most = 0;
    for (const Folded<KernelId>& row : rows) most = std::max(most, bytes(row));
    // In execution order with --explain; otherwise the largest first.
    if (!style_.explain) std::ranges::stable_sort(rows, std::greater<>(), bytes);
    TextTable table({{fmt::format("kernels of {}", name_of(analysis_.plan)), Kind::kName},
                     {"ops", Kind::kNumber},
                     {"", Kind::kNumber},
                     {"time", Kind::kNumber},
                     {"bytes", Kind::kNumber},
                     {"", Kind::kBar}},
                    style_);
    for (std::size_t i = 0; i < rows_of(rows.size()); ++i) {
      const KernelAnalysis& kernel = reports[rows[i].row];
      const std::uint64_t total = kernel.traffic.bytes.total();
      table.add({kernel_name_of(kernel),
                 grouped_digits(kernel.ops.size()),
                 times(rows[i].count),
                 human_time(kernel.predicted.time_us),
                 human_bytes(total),
                 {share_of(total, most), kAfter}},
                {}, style_.explain ? explanation_of(rows[i].row) : "");
    }
    line("");
    table.write(output_);
    write_rest(rows.size(), "kernel");
    if (reports.size() > 1) {
      line("  {}", coloured("times: each kernel alone; the plan is back to back", kFaint, style_));
    }
  }

  // Whole lines.
  std::string explanation_of(KernelId k) const {
    const KernelAnalysis& kernel = headline().kernels[k];
    std::string kinds;
    for (const OpId op : kernel.ops) {
      kinds += (kinds.empty() ? "" : ", ") + std::string(analysis_.graph->graph.ops[op].row->name);
    }
    const Prediction& predicted = kernel.predicted;
    const std::string takes =
        fmt::format("{} to {}, bound by {}; DRAM {}", human_time(predicted.time_range.low),
                    human_time(predicted.time_range.high), name_of(predicted.bound),
                    human_bytes(static_cast<std::uint64_t>(predicted.dram())));
    std::string text;
    const std::pair<std::string_view, std::string> lines[] = {
        {"does    ", kinds},
        {"reads   ", entries_in_words(kernel.traffic.reads)},
        {"writes  ", entries_in_words(kernel.traffic.writes)},
        {"takes   ", takes}};
    for (const auto& [what, words] : lines) text += explained(what, words, what.size());
    std::set<std::string> told;
    const Repeat& repeat = repeats_.at(k);
    for (std::uint32_t i = 0; i < repeat.count; ++i) {
      text += boundaries_of(repeat.at(k - repeat.first, i), i > 0, told);
    }
    return text + "\n";
  }

  // Of a later layer, only what reads differently than that of an earlier one.
  std::string boundaries_of(KernelId k, bool later, std::set<std::string>& told) const {
    std::string text;
    for (const Boundary& boundary : headline().boundaries->of(k)) {
      const std::string shared = fmt::format(
          "{} (shares {})", printable(kernel_name_of(headline().kernels[boundary.with])),
          printable(tensor_name(boundary.tensor)));
      std::string reason = printable(full_reason_of(*analysis_.graph, boundary), kNoLimit);
      const bool for_time = headline().kind == PlanKind::kFastest && boundary.verdict.legal();
      if (for_time && boundary.bytes_saved > 0) reason += ", but fastest chooses by predicted time";
      if (!told.insert(without_numbers(shared) + reason).second) continue;
      constexpr std::string_view kNotFused = "not fused with";
      std::string lines = explained(
          "",
          fmt::format("{}{} {}: {}",
                      later ? printable(kernel_name_of(headline().kernels[k])) + ": " : "",
                      kNotFused, shared, reason),
          2);
      if (const std::size_t at = lines.find(kNotFused); at != std::string::npos) {
        lines.replace(at, kNotFused.size(), coloured(kNotFused, kBefore, style_));
      }
      text += lines;
    }
    return text;
  }

  // A line, or as many as the width makes of it: all but the first are `hanging` further in.
  std::string explained(std::string_view start, const std::string& words,
                        std::size_t hanging) const {
    const std::string indent(4, ' ');
    std::vector<std::string> lines = {words};
    if (style_.wraps) lines = lines_of_words(words, style_.width - indent.size() - hanging);
    std::string text = indent + std::string(start) + lines.front() + "\n";
    for (std::size_t i = 1; i < lines.size(); ++i) {
      text += indent + std::string(hanging, ' ') + lines[i] + "\n";
    }
    return text;
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
    for (const Repeat& repeat : layers()) {
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
  std::vector<Repeat> layers_;          // once they are asked for
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
