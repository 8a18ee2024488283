// The op graph as a drawing: ops as nodes, the kernels of the headline's plan as boxes, tensors
// that go through memory as edges with their bytes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/format.hpp"
#include "core/ratio.hpp"
#include "core/text.hpp"
#include "plan/kernel.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

// What goes from one node to another.
struct Edge {
  std::string from;
  std::string to;
  TensorId tensor = kNone;
  bool through_memory = false;
  bool labelled = false;  // a tensor is told once: at its own node, or else at one of its edges
};

// What both languages draw.
struct Drawing {
  explicit Drawing(const Analysis& analysis);

  void add_tensor(TensorId id, const std::vector<KernelId>& owner);
  bool is_small(TensorId id) const;
  double width_of(const Edge& edge) const;

  const PlanAnalysis& plan;
  const OpGraph& graph;
  std::vector<Kernel> kernels;  // the plan's, in terms of the graph
  std::string title;
  std::uint64_t most = 0;  // bytes of a tensor
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<Edge> edges;
  std::vector<std::vector<TensorId>> small;  // inputs of each op, named in its node
};

const GraphAnalysis& graph_of(const Analysis& analysis) {
  if (!analysis.graph) {
    throw Error(Fault::kBadInput, "dot and mermaid draw graphs, and \"" + printable(analysis.name) +
                                      "\" is a list of sizes");
  }
  return *analysis.graph;
}

const PlanAnalysis& drawn_plan(const Analysis& analysis) {
  // The limit is no partition; the best plan is drawn in its place.
  const bool limit = analysis.plan == PlanKind::kLimit;
  return graph_of(analysis).plan(limit ? PlanKind::kAuto : analysis.plan);
}

std::string op_node(OpId op) { return fmt::format("op{}", op); }
std::string tensor_node(TensorId tensor) { return fmt::format("t{}", tensor); }

// Names alone are shortened: the bytes behind them have to stay.
std::string short_name(std::string_view name) { return printable(name, 60); }

std::string title_of(const Analysis& analysis, const PlanAnalysis& plan) {
  return fmt::format("{}: {}, {} kernel{}, {}, {} on {}", short_name(analysis.name),
                     name_of(plan.kind), grouped_digits(plan.kernels.size()),
                     plan.kernels.size() == 1 ? "" : "s", human_bytes(plan.bytes.total()),
                     human_time(plan.predicted.time_us), analysis.graph->device.name);
}

Drawing::Drawing(const Analysis& analysis)
    : plan(drawn_plan(analysis)),
      graph(plan.graph_or(graph_of(analysis).graph)),
      kernels(plan.planned_kernels()),
      title(title_of(analysis, plan)),
      small(graph.ops.size()) {
  const std::vector<KernelId> owner = owners_of(graph, kernels);
  for (const Tensor& tensor : graph.tensors) most = std::max(most, tensor.bytes);
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    if (graph.tensors[id].value == id) add_tensor(id, owner);
  }
}

void Drawing::add_tensor(TensorId id, const std::vector<KernelId>& owner) {
  const Tensor& tensor = graph.tensors[id];
  const bool input = tensor.producer == kNone;
  if (input && is_small(id)) {
    for (const OpId reader : graph.readers[id]) small[reader].push_back(id);
    return;
  }
  if (input && !graph.readers[id].empty()) inputs.push_back(id);
  const std::string from = input ? tensor_node(id) : op_node(tensor.producer);
  const std::span<const OpId> readers = graph.readers[id];
  const auto apart = [&](OpId reader) { return input || owner[tensor.producer] != owner[reader]; };
  auto labelled = std::ranges::find_if(readers, apart);
  if (labelled == readers.end()) labelled = readers.begin();
  for (auto reader = readers.begin(); reader != readers.end(); ++reader) {
    edges.push_back({.from = from,
                     .to = op_node(*reader),
                     .tensor = id,
                     .through_memory = apart(*reader),
                     .labelled = reader == labelled && !input && !tensor.output});
  }
  if (tensor.output && !input) {
    outputs.push_back(id);
    edges.push_back({.from = from, .to = tensor_node(id), .tensor = id, .through_memory = true});
  }
}

// So much smaller than the largest tensor that it would only crowd the drawing.
bool Drawing::is_small(TensorId id) const {
  constexpr std::uint64_t kTelling = 1000;
  return graph.tensors[id].bytes < most / kTelling;
}

// From 1 to 8, as the square root of the bytes: most tensors are small beside the largest.
double Drawing::width_of(const Edge& edge) const {
  const double share = most == 0 ? 0 : exact_ratio(graph.tensors[edge.tensor].bytes, most);
  return 1 + 7 * std::sqrt(share);
}

constexpr std::size_t kLongest = 400;

// Labels inside double quotes.
std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text, kLongest)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string mermaid_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text, kLongest)) {
    if (c == '"') {
      out += "#quot;";
    } else if (std::string_view("#<>&`\\").find(c) != std::string_view::npos) {
      out += fmt::format("#{};", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string tensor_label(const OpGraph& graph, TensorId id) {
  return fmt::format("{} ({})", short_name(graph.tensors[id].name),
                     human_bytes(graph.tensors[id].bytes));
}

std::string edge_label(const Drawing& drawing, const Edge& edge) {
  if (!edge.labelled) return {};
  return edge.through_memory ? tensor_label(drawing.graph, edge.tensor)
                             : short_name(drawing.graph.tensors[edge.tensor].name);
}

// "+ weight, bias (16.4 kB)": what has no node of its own. Empty for nothing.
std::string small_label(const Drawing& drawing, OpId op) {
  constexpr std::size_t kMostNames = 3;
  const std::vector<TensorId>& small = drawing.small[op];
  if (small.empty()) return {};
  std::string names;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < small.size(); ++i) {
    const Tensor& tensor = drawing.graph.tensors[small[i]];
    bytes += tensor.bytes;
    if (i < kMostNames) names += (i == 0 ? "" : ", ") + short_name(tensor.name);
  }
  if (small.size() > kMostNames) names += fmt::format(" and {} more", small.size() - kMostNames);
  return fmt::format("+ {} ({})", names, human_bytes(bytes));
}

std::string kernel_label(const KernelAnalysis& kernel) {
  return human_bytes(kernel.traffic.bytes.total());
}

std::string mermaid_of(const Drawing& drawing) {
  const OpGraph& graph = drawing.graph;
  std::string text =
      fmt::format("---\ntitle: \"{}\"\n---\nflowchart TD\n", mermaid_text(drawing.title));
  for (const std::vector<TensorId>* ends : {&drawing.inputs, &drawing.outputs}) {
    for (const TensorId id : *ends) {
      text +=
          fmt::format("  {}([\"{}\"])\n", tensor_node(id), mermaid_text(tensor_label(graph, id)));
    }
  }
  for (std::size_t k = 0; k < drawing.plan.kernels.size(); ++k) {
    const KernelAnalysis& kernel = drawing.plan.kernels[k];
    text += fmt::format("  subgraph k{}[\"{}\"]\n", k, kernel_label(kernel));
    for (const OpId op : drawing.kernels[k]) {
      const std::string small = small_label(drawing, op);
      text += fmt::format("    {}[\"{}: {}{}\"]\n", op_node(op),
                          mermaid_text(short_name(graph.ops[op].name)), graph.ops[op].row->name,
                          small.empty() ? "" : "<br>" + mermaid_text(small));
    }
    text += "  end\n";
  }
  std::string widths;
  for (std::size_t i = 0; i < drawing.edges.size(); ++i) {
    const Edge& edge = drawing.edges[i];
    const std::string label = mermaid_text(edge_label(drawing, edge));
    text += fmt::format("  {} {}{} {}\n", edge.from, edge.through_memory ? "-->" : "-.->",
                        label.empty() ? "" : fmt::format("|\"{}\"|", label), edge.to);
    if (edge.through_memory) {
      widths += fmt::format("  linkStyle {} stroke-width:{:.1f}px\n", i, drawing.width_of(edge));
    }
  }
  return text + widths;
}

}  // namespace

void write_dot(const Analysis& analysis, const Style& /*style*/, Output& output) {
  const Drawing drawing(analysis);
  const OpGraph& graph = drawing.graph;
  output.write(fmt::format("digraph \"{}\" {{\n", dot_text(short_name(analysis.name))));
  output.write(fmt::format("  label=\"{}\"; labelloc=t; fontname=\"Helvetica\";\n",
                           dot_text(drawing.title)));
  output.write("  node [shape=box, style=rounded, fontname=\"Helvetica\"];\n");
  output.write("  edge [fontname=\"Helvetica\", fontsize=10];\n");
  for (const std::vector<TensorId>* ends : {&drawing.inputs, &drawing.outputs}) {
    for (const TensorId id : *ends) {
      output.write(fmt::format("  {} [shape=ellipse, label=\"{}\"];\n", tensor_node(id),
                               dot_text(tensor_label(graph, id))));
    }
  }
  for (std::size_t k = 0; k < drawing.plan.kernels.size(); ++k) {
    const KernelAnalysis& kernel = drawing.plan.kernels[k];
    output.write(
        fmt::format("  subgraph cluster_{} {{\n    label=\"{}\"; style=\"rounded,filled\"; "
                    "fillcolor=\"#eef5ee\";\n",
                    k, kernel_label(kernel)));
    for (const OpId op : drawing.kernels[k]) {
      const std::string small = small_label(drawing, op);
      output.write(fmt::format("    {} [label=\"{}\\n{}{}\"];\n", op_node(op),
                               dot_text(short_name(graph.ops[op].name)), graph.ops[op].row->name,
                               small.empty() ? "" : "\\n" + dot_text(small)));
    }
    output.write("  }\n");
  }
  for (const Edge& edge : drawing.edges) {
    const std::string label = dot_text(edge_label(drawing, edge));
    output.write(fmt::format("  {} -> {} [{}{}];\n", edge.from, edge.to,
                             edge.through_memory
                                 ? fmt::format("penwidth={:.1f}", drawing.width_of(edge))
                                 : "style=dashed, color=gray50",
                             label.empty() ? "" : fmt::format(", label=\"{}\"", label)));
  }
  output.write("}\n");
}

void write_mermaid(const Analysis& analysis, const Style& /*style*/, Output& output) {
  // What Mermaid draws unless it is configured otherwise.
  constexpr std::size_t kMostEdges = 500;
  constexpr std::size_t kMostText = 50'000;
  const Drawing drawing(analysis);
  const std::string text = mermaid_of(drawing);
  if (drawing.edges.size() > kMostEdges || text.size() > kMostText) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: too large for Mermaid, which draws {} edges and {} characters at "
                            "most (here: {} and {}); use dot or html",
                            printable(analysis.name), kMostEdges, grouped_digits(kMostText),
                            grouped_digits(drawing.edges.size()), grouped_digits(text.size())));
  }
  output.write(text);
}

}  // namespace fusecalc
