// The op graph as a drawing: ops as nodes, the kernels of the headline's plan as boxes, tensors
// that go through memory as edges with their bytes.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/format.hpp"
#include "core/text.hpp"
#include "plan/kernel.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

struct Edge {
  std::string from;
  std::string to;
  TensorId tensor = kNone;
  bool through_memory = false;
};

// What both languages draw.
struct Drawing {
  explicit Drawing(const Analysis& analysis);

  const OpGraph& graph;
  const PlanAnalysis& plan;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<Edge> edges;
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

Drawing::Drawing(const Analysis& analysis)
    : graph(graph_of(analysis).graph), plan(drawn_plan(analysis)) {
  std::vector<Kernel> kernels;
  for (const KernelAnalysis& kernel : plan.kernels) kernels.push_back(kernel.ops);
  const std::vector<KernelId> owner = owners_of(graph, kernels);
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    const Tensor& tensor = graph.tensors[id];
    if (tensor.value != id) continue;
    const bool input = tensor.producer == kNone;
    if (input && !graph.readers[id].empty()) inputs.push_back(id);
    const std::string from = input ? tensor_node(id) : op_node(tensor.producer);
    for (const OpId reader : graph.readers[id]) {
      const bool apart = input || owner[tensor.producer] != owner[reader];
      edges.push_back({.from = from, .to = op_node(reader), .tensor = id, .through_memory = apart});
    }
    if (tensor.output && !input) {
      outputs.push_back(id);
      edges.push_back({.from = from, .to = tensor_node(id), .tensor = id, .through_memory = true});
    }
  }
}

// Names inside double quotes.
std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text, 60)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string mermaid_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text, 60)) {
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
  return fmt::format("{} ({})", graph.tensors[id].name, human_bytes(graph.tensors[id].bytes));
}

std::string kernel_label(const KernelAnalysis& kernel) {
  return human_bytes(kernel.traffic.bytes.total());
}

}  // namespace

void write_dot(const Analysis& analysis, const Style& /*style*/, Output& output) {
  const Drawing drawing(analysis);
  const auto& [graph, plan, inputs, outputs, edges] = drawing;
  output.write(fmt::format("digraph \"{}\" {{\n", dot_text(analysis.name)));
  output.write("  node [shape=box, style=rounded, fontname=\"Helvetica\"];\n");
  output.write("  edge [fontname=\"Helvetica\", fontsize=10];\n");
  for (const std::vector<TensorId>* ends : {&inputs, &outputs}) {
    for (const TensorId id : *ends) {
      output.write(fmt::format("  {} [shape=ellipse, label=\"{}\"];\n", tensor_node(id),
                               dot_text(tensor_label(graph, id))));
    }
  }
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    output.write(
        fmt::format("  subgraph cluster_{} {{\n    label=\"{}\"; style=\"rounded,filled\"; "
                    "fillcolor=\"#eef5ee\";\n",
                    k, kernel_label(plan.kernels[k])));
    for (const OpId op : plan.kernels[k].ops) {
      output.write(fmt::format("    {} [label=\"{}\\n{}\"];\n", op_node(op),
                               dot_text(graph.ops[op].name), graph.ops[op].row->name));
    }
    output.write("  }\n");
  }
  for (const Edge& edge : edges) {
    const std::string label = dot_text(edge.through_memory ? tensor_label(graph, edge.tensor)
                                                           : graph.tensors[edge.tensor].name);
    output.write(fmt::format("  {} -> {} [{}, label=\"{}\"];\n", edge.from, edge.to,
                             edge.through_memory ? "penwidth=2" : "style=dashed, color=gray50",
                             label));
  }
  output.write("}\n");
}

void write_mermaid(const Analysis& analysis, const Style& /*style*/, Output& output) {
  const Drawing drawing(analysis);
  const auto& [graph, plan, inputs, outputs, edges] = drawing;
  output.write("flowchart TD\n");
  for (const std::vector<TensorId>* ends : {&inputs, &outputs}) {
    for (const TensorId id : *ends) {
      output.write(
          fmt::format("  {}([\"{}\"])\n", tensor_node(id), mermaid_text(tensor_label(graph, id))));
    }
  }
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    output.write(fmt::format("  subgraph k{}[\"{}\"]\n", k, kernel_label(plan.kernels[k])));
    for (const OpId op : plan.kernels[k].ops) {
      output.write(fmt::format("    {}[\"{}: {}\"]\n", op_node(op),
                               mermaid_text(graph.ops[op].name), graph.ops[op].row->name));
    }
    output.write("  end\n");
  }
  for (const Edge& edge : edges) {
    const std::string label = mermaid_text(edge.through_memory ? tensor_label(graph, edge.tensor)
                                                               : graph.tensors[edge.tensor].name);
    output.write(fmt::format("  {} {}|\"{}\"| {}\n", edge.from,
                             edge.through_memory ? "==>" : "-.->", label, edge.to));
  }
}

}  // namespace fusecalc
