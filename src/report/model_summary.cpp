#include "report/model_summary.hpp"

#include <fmt/format.h>

#include "core/ratio.hpp"
#include "core/text.hpp"
#include "json/writer.hpp"

namespace fusecalc {

void write_model_summary(const ModelSummary& summary, Output& output) {
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", "fusecalc.import/1");
  json.member("model", summary.model);
  json.member("nodes", summary.nodes);
  json.member("exact", summary.exact);
  json.member("views", summary.views);
  json.member("folded", summary.folded);
  json.member("opaque", summary.opaque);
  json.member("bytes", summary.bytes);
  json.member("opaque_bytes", summary.opaque_bytes);
  json.key("missing").begin_array();
  for (const ModelSummary::Missing& missing : summary.missing) {
    json.begin_object(JsonWriter::Layout::kInline);
    json.member("op", missing.op).member("nodes", missing.nodes).member("bytes", missing.bytes);
    json.end();
  }
  json.end().end();
}

namespace {

// Of operations without a row.
std::string missing_in_words(const ModelSummary& summary) {
  const double share = summary.bytes == 0 ? 0.0
                                          : static_cast<double>(summary.opaque_bytes) /
                                                static_cast<double>(summary.bytes);
  std::string words = fmt::format(" ({:.2f} % of the bytes):", 100 * share);
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < summary.missing.size() && i < kShown; ++i) {
    words += fmt::format("{} {} {}", i == 0 ? "" : ",", summary.missing[i].nodes,
                         printable(summary.missing[i].op));
  }
  if (summary.missing.size() > kShown) {
    words += fmt::format(" and {} more", summary.missing.size() - kShown);
  }
  return words;
}

}  // namespace

std::string summary_line(const ModelSummary& summary) {
  std::string line =
      fmt::format("{}: {} nodes: {} exact, {} views, {} folded, {} opaque", summary.model,
                  summary.nodes, summary.exact, summary.views, summary.folded, summary.opaque);
  if (!summary.missing.empty()) line += missing_in_words(summary);
  for (const std::string& dim : summary.unstated) {
    line += fmt::format("; {0} depends on data: give it by --dim {0}=N", printable(dim));
  }
  return line;
}

}  // namespace fusecalc
