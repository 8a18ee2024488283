#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/module.hpp"
#include "cli/commands.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "device/device_file.hpp"
#include "measure/calibration.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

std::vector<Check> diagnose(const DoctorCommand& command) {
  std::vector<Check> checks;
  try {
    const GpuModule& module = load_gpu_module();
    checks = module.diagnose({.device_index = command.device_index, .counters = true});
    checks.insert(checks.begin(), {Check::State::kOk, "GPU module", "loaded"});
    checks.push_back(check_injection());
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

void run_calibration(const DoctorCommand& command) {
  const GpuModule& module = load_gpu_module();
  note_interrupts();
  ProgressLine line;
  line.show("opening the GPU");
  const std::unique_ptr<GpuBackend> gpu =
      module.open({.device_index = command.device_index, .counters = false});
  const Calibration calibration =
      calibrate(*gpu, [&](const std::string& text) { line.show(text); });
  for (const std::string& note : calibration.notes) line.say("fusecalc: " + note);
  Output output = command.output.empty() ? Output::standard() : Output::file(command.output);
  write_device(calibration.device, output);
  output.finish();
}

}  // namespace

void run(const DoctorCommand& command) {
  if (command.calibrate) return run_calibration(command);
  if (!command.output.empty()) {
    throw Error(Fault::kBadInput, "doctor: --output is the file of --calibrate; give both");
  }
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
