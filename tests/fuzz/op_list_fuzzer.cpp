// Any bytes, taken for an op list, end in a result that every format can write or in one Error that
// is fit to print, and in the same one however the document is cut into chunks.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "graph/op_graph.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "report/formats.hpp"

using namespace fusecalc;

namespace {

constexpr std::string_view kDocument = "ops.json";

using Outcome = std::variant<Analysis, std::string>;  // or the Error's message

Outcome analyze(std::string_view text, std::size_t chunk_bytes) {
  try {
    JsonReader reader(ByteSource::from_memory(text, std::string(kDocument), chunk_bytes));
    const OpList list = read_op_list(reader);
    if (const auto* chain = std::get_if<SizeChain>(&list)) {
      return analyze_chain(*chain, chain->name.value_or("ops"), reader.name());
    }
    OpGraph graph = build_graph(std::get<WrittenGraph>(list), {});
    const std::string name = graph.name.value_or("ops");
    return analyze_graph(std::move(graph), name, known_devices().front(), std::nullopt);
  } catch (const Error& error) {
    return error.what();
  }
}

std::string described(const Outcome& outcome) {
  if (const auto* message = std::get_if<std::string>(&outcome)) return "error: " + *message;
  const Analysis& analysis = std::get<Analysis>(outcome);
  std::string text = analysis.name;
  for (const std::uint64_t figure :
       {analysis.operations, analysis.dtype_bytes, analysis.unfused.read, analysis.unfused.write,
        analysis.fused.read, analysis.fused.write}) {
    text += " " + std::to_string(figure);
  }
  if (!analysis.graph) return text;
  for (const PlanAnalysis& plan : analysis.graph->plans) {
    text += " " + std::to_string(plan.kernels.size()) + ":" + std::to_string(plan.bytes.total());
  }
  return text;
}

void write_everywhere(const Analysis& analysis) {
  Output output = Output::file("/dev/null");
  for (const Format& format : formats()) {
    if (format.write == nullptr) continue;
    for (const bool fancy : {false, true}) {
      try {
        format.write(analysis, Style{.colour = fancy, .explain = fancy}, output);
      } catch (const Error&) {
        if (analysis.graph) throw;  // only sizes cannot be drawn
      }
    }
  }
  output.finish();
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "op_list_fuzzer: %s\n", what.c_str());
  std::abort();
}

void check_message(const std::string& message) {
  if (!message.starts_with(kDocument)) fail("does not name the document: " + message);
  if (message != printable(message, message.size() + 1)) fail("not fit to print: " + message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Outcome whole = analyze(text, std::string_view::npos);
  if (const auto* message = std::get_if<std::string>(&whole)) {
    check_message(*message);
  } else {
    find_boundaries(std::get<Analysis>(whole), BoundaryScope::kEveryPlan);
    write_everywhere(std::get<Analysis>(whole));
  }
  const std::string expected = described(whole);
  // One byte a chunk cuts every token; the other size, which follows from the document's so that a
  // document stays plain JSON, leaves some tokens whole next to an edge.
  for (const std::size_t chunk_bytes : {std::size_t{1}, 2 + size % 29}) {
    const std::string found = described(analyze(text, chunk_bytes));
    if (found != expected) {
      fail("chunks of " + std::to_string(chunk_bytes) + ": " + found + "; in one: " + expected);
    }
  }
  return 0;
}
