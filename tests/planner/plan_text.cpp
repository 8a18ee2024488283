#include "planner/plan_text.hpp"

#include "graph/graph_text.hpp"
#include "planner/plans.hpp"
#include "support/plans.hpp"

namespace fusecalc::testing {

std::string shown(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::string text;
  for (const Kernel& kernel : kernels) {
    text += text.empty() ? "[" : " [";
    for (const OpId op : kernel) text += (op == kernel.front() ? "" : " ") + graph.ops[op].name;
    text += "]";
  }
  return text;
}

std::string compiler_of(const OpGraph& graph) {
  TrafficCounter counter(graph, known_devices().front());
  return shown(graph, compiler_plan(counter).kernels);
}

std::string auto_of(const OpGraph& graph) {
  TrafficCounter counter(graph, known_devices().front());
  return shown(graph, make_plan(counter, PlanKind::kAuto).kernels);
}

std::string obstacle(const OpGraph& graph, const std::vector<std::string>& ops) {
  Kernel kernel;
  for (const std::string& name : ops) kernel.push_back(op_called(graph, name));
  PhaseFinder phases(graph);
  const Rules rules = runner_rules(known_devices().front());
  return explain(graph, check_kernel(phases, kernel, rules));
}

}  // namespace fusecalc::testing
