#include "cli/github.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "input/op_lines.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A relative path may be meant from here or from the top of the repository.
fs::path found(const std::string& source) {
  std::error_code error;
  const std::string workspace = variable("GITHUB_WORKSPACE");
  if (workspace.empty() || fs::exists(source, error)) return source;
  return workspace / fs::path(source);
}

// The path in the repository, or as it was written if it is not in there.
std::string path_in_repository(const std::string& source) {
  const std::string workspace = variable("GITHUB_WORKSPACE");
  std::error_code error;
  const fs::path root = fs::weakly_canonical(workspace.empty() ? "." : workspace, error);
  const fs::path path = fs::weakly_canonical(found(source), error).lexically_relative(root);
  return path.empty() || *path.begin() == ".." ? source : path.string();
}

// None where the op list is not there any more, or is a model.
std::unordered_map<std::string, std::uint64_t> lines_or_none(const std::string& source) {
  try {
    return op_lines(ByteSource::open(found(source).string()));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void locate_findings(Comparison& comparison) {
  for (const auto& [spec, source] : comparison.sources) {
    const auto lines = lines_or_none(source);
    const std::string file = path_in_repository(source);
    // The line of a plan is that of its first kernel, in the order of the findings.
    std::unordered_map<std::string, std::uint64_t> line_of_plan;
    const auto locate = [&](Finding& finding) {
      finding.file = file;
      if (const auto line = lines.find(finding.op); line != lines.end()) {
        finding.line = line->second;
        line_of_plan.emplace(finding.plan, finding.line);
      } else {
        const auto of_plan = line_of_plan.find(finding.plan);
        finding.line = of_plan == line_of_plan.end() ? 1 : of_plan->second;
      }
    };
    for (const bool of_kernels : {true, false}) {
      for (Finding& finding : comparison.findings) {
        if (finding.spec == spec && finding.kernel.empty() != of_kernels) locate(finding);
      }
    }
  }
}

void append_step_summary(const Comparison& comparison) {
  const std::string path = variable("GITHUB_STEP_SUMMARY");
  if (path.empty()) return;
  Output text = Output::memory();
  write_summary(comparison, text);
  std::ofstream file(path, std::ios::app);
  file << text.take() << std::flush;
  // The verdict counts all the same.
  if (!file) {
    std::fprintf(stderr, "fusecalc: %s: cannot append the summary of the step\n",
                 printable(path).c_str());
  }
}

}  // namespace fusecalc
