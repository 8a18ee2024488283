// What a sweep is compared with: one process that analyses an op list for T = FIRST, FIRST + STEP,
// ... up to LAST, and writes each result to a file.
//   analysis_loop NAME FIRST LAST STEP FOLDER

#include <cstdlib>
#include <string>
#include <variant>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "core/embedded.hpp"
#include "core/output.hpp"
#include "device/device.hpp"
#include "graph/written_graph.hpp"
#include "input/document.hpp"
#include "report/formats.hpp"

int main(int argc, char** argv) {
  using namespace fusecalc;
  if (argc != 6) return 2;
  const std::string name = argv[1];
  const unsigned long last = std::strtoul(argv[3], nullptr, 10);
  const unsigned long step = std::strtoul(argv[4], nullptr, 10);
  const Document read =
      read_document(ByteSource::from_memory(embedded_op_list(name), "@" + name), {});
  const auto& written = std::get<WrittenGraph>(read.list);
  const Format& json = format_named("json");
  for (unsigned long t = std::strtoul(argv[2], nullptr, 10); t <= last; t += step) {
    Analysis analysis = analyze_graph(build_graph(written, {{.name = "T", .extent = t}}), name,
                                      known_devices().front(), {});
    find_boundaries(analysis, json.boundaries(Style{}));
    Output output = Output::file(argv[5] + ("/" + std::to_string(t)) + ".json");
    json.write(analysis, Style{}, output);
    output.finish();
  }
  return 0;
}
