// Any bytes, taken for a result, end in a comparison that every format can write or in one Error
// that is fit to print.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "compare/compare.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "report/formats.hpp"

using namespace fusecalc;

namespace {

std::vector<ResultDocument> read(std::string_view text) {
  JsonReader reader(ByteSource::from_memory(text, "result.json"));
  return read_results(reader, true);
}

void compare_and_write(const ResultDocument& before, const ResultDocument& after) {
  Comparison comparison{.base = "base", .fresh = "new", .strict = true};
  compare_documents(before, after, after.name, comparison);
  sort_findings(comparison.findings, SortKey::kWorst);
  Output output = Output::file("/dev/null");
  for (const Format& format : formats()) {
    if (format.write_comparison != nullptr) format.write_comparison(comparison, Style{}, output);
  }
  output.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<ResultDocument> kOther = read(
      R"({"schema": "fusecalc.analysis/1", "plans": {"auto": {"total": 9, "kernels": [
          {"name": "a+b", "ops": ["a", "b"], "read": 4, "write": 5, "reads": {"x": 4},
           "writes": {"y": 5}, "measured": {"dram_read": 3, "time_us": {"median": 1}}}]}}})");
  try {
    for (const ResultDocument& result : read({reinterpret_cast<const char*>(data), size})) {
      compare_and_write(kOther.front(), result);
      compare_and_write(result, kOther.front());
      compare_and_write(result, result);
    }
  } catch (const Error& error) {
    const std::string message = error.what();
    if (!message.starts_with("result.json: ") ||
        message != printable(message, message.size() + 1)) {
      std::fprintf(stderr, "result_fuzzer: not fit to print: %s\n", message.c_str());
      std::abort();
    }
  }
  return 0;
}
