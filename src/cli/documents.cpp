#include "cli/documents.hpp"

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"
#include "report/model_summary.hpp"

namespace fusecalc {

void show_summary(const ModelSummary& summary) {
  std::fprintf(stderr, "fusecalc: %s\n", summary_line(summary).c_str());
}

void refuse_standard_input_twice(std::span<const std::string> documents) {
  if (std::ranges::count(documents, "-") < 2) return;
  throw Error(Fault::kBadInput, "standard input (-) is given twice; use a file for one");
}

}  // namespace fusecalc
