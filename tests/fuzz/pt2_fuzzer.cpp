// Any bytes, taken for a model archive or for the JSON in one, end in a graph that can be built or
// in one Error that is fit to print.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"
#include "graph/op_graph.hpp"
#include "input/pt2/exported_program.hpp"
#include "input/pt2/importer.hpp"
#include "input/pt2/pt2.hpp"

using namespace fusecalc;

namespace {

Model read(std::string_view bytes) {
  if (bytes.starts_with("PK")) return read_pt2(bytes, "model.pt2", {});
  const ExportedProgram program = read_exported_program(bytes, "model.pt2");
  return Pt2Importer(program, "model.pt2", {}).run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Model model = read({reinterpret_cast<const char*>(data), size});
    build_graph(model.graph, {});
  } catch (const Error& error) {
    const std::string message = error.what();
    if (!message.starts_with("model.pt2: ") || message != printable(message, message.size() + 1)) {
      std::fprintf(stderr, "pt2_fuzzer: not fit to print: %s\n", message.c_str());
      std::abort();
    }
  }
  return 0;
}
