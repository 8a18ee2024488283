// Any bytes, taken for an ONNX model, end in a graph that can be built or in one Error that is fit
// to print.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/error.hpp"
#include "core/text.hpp"
#include "graph/op_graph.hpp"
#include "input/onnx/onnx.hpp"

using namespace fusecalc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    const Model model = read_onnx(bytes, "model.onnx", {{"batch", 2}, {"length", 8}});
    build_graph(model.graph, {});
  } catch (const Error& error) {
    const std::string message = error.what();
    if (!message.starts_with("model.onnx: ") || message != printable(message, message.size() + 1)) {
      std::fprintf(stderr, "onnx_fuzzer: not fit to print: %s\n", message.c_str());
      std::abort();
    }
  }
  return 0;
}
