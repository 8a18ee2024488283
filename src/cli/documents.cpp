#include "cli/documents.hpp"

#include <cstdio>

#include "report/model_summary.hpp"

namespace fusecalc {

void show_summary(const ModelSummary& summary) {
  std::fprintf(stderr, "fusecalc: %s\n", summary_line(summary).c_str());
}

}  // namespace fusecalc
