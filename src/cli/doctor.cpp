#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "backend/module.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

std::vector<Check> diagnose(const DoctorCommand& command) {
  std::vector<Check> checks;
  try {
    const GpuModule& module = load_gpu_module();
    checks = module.diagnose({.device_index = command.device_index, .counters = true});
    checks.insert(checks.begin(), {Check::State::kOk, "GPU module", "loaded"});
  } catch (const Error& error) {
    checks.push_back({Check::State::kFail, "GPU module", error.what()});
  }
  return checks;
}

std::string state_text(Check::State state, const Style& style) {
  switch (state) {
    case Check::State::kOk: return coloured("ok  ", "32", style);
    case Check::State::kFail: return coloured("FAIL", "31", style);
    case Check::State::kSkip: return coloured("skip", "33", style);
  }
  return {};
}

}  // namespace

void run(const DoctorCommand& command) {
  const std::vector<Check> checks = diagnose(command);
  const Style style = style_of_standard_output();
  Output output = Output::standard();
  for (const Check& check : checks) {
    output.write(fmt::format("{}  {:<13} {}\n", state_text(check.state, style), check.name,
                             printable(check.finding, 600)));
  }
  output.finish();
  const auto failed = std::ranges::count(checks, Check::State::kFail, &Check::state);
  if (failed > 0) {
    throw Error(Fault::kUnavailable,
                fmt::format("cannot measure on this machine: {} check{} failed", failed,
                            failed == 1 ? "" : "s"));
  }
}

}  // namespace fusecalc
