// Any bytes, taken for a file of tolerances or for the value of --tolerance, end in rules that can
// be applied and shown or in one error that is fit to print, and in the same one however the file
// is cut into chunks.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compare/tolerance.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"

using namespace fusecalc;

namespace {

constexpr std::string_view kDocument = "tolerances.json";

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "tolerance_fuzzer: %s\n", what.c_str());
  std::abort();
}

void check_message(const std::string& message) {
  if (message != printable(message, message.size() + 1)) fail("not fit to print: " + message);
}

// A tolerance is shown in a form that reads back as the same text, and always allows no growth.
std::string shown(Quantity quantity, const Tolerance& tolerance) {
  std::string text = to_string(quantity, tolerance);
  const std::optional<Tolerance> again = parse_tolerance(quantity, text);
  if (!again || to_string(quantity, *again) != text) fail("does not read back: " + text);
  if (!tolerance.allows(0, 1)) fail("forbids an unchanged figure: " + text);
  return text;
}

std::string applied(const std::vector<ToleranceRule>& rules) {
  Tolerances tolerances;
  for (const ToleranceRule& rule : rules) {
    check_message(scope_of(rule));
    tolerances.add(rule);
  }
  const std::array<std::string, 2> kernels = {"norm+scale", "sum"};
  std::string text;
  for (std::size_t i = 0; i < kQuantities; ++i) {
    const auto quantity = static_cast<Quantity>(i);
    for (const Place& place : {Place{.spec = "std_norm", .plan = "auto", .kernels = kernels},
                               Place{.spec = "adam", .plan = "limit", .kernels = {}}}) {
      text += shown(quantity, tolerances.of(quantity, place)) + " ";
    }
  }
  return text + std::to_string(tolerances.unused().size());
}

std::string outcome_of_file(std::string_view bytes, std::size_t chunk_bytes) {
  try {
    JsonReader reader(ByteSource::from_memory(bytes, std::string(kDocument), chunk_bytes));
    return applied(read_tolerances(reader));
  } catch (const Error& error) {
    std::string message = error.what();
    if (!message.starts_with(kDocument)) fail("does not name the document: " + message);
    check_message(message);
    return message;
  }
}

void read_option(std::string_view bytes) {
  try {
    applied(parse_tolerance_rules(bytes));
  } catch (const std::invalid_argument& error) {
    check_message(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_option(bytes);
  const std::string expected = outcome_of_file(bytes, std::string_view::npos);
  for (const std::size_t chunk_bytes : {std::size_t{1}, 2 + size % 29}) {
    const std::string found = outcome_of_file(bytes, chunk_bytes);
    if (found != expected) {
      fail("chunks of " + std::to_string(chunk_bytes) + ": " + found + "; in one: " + expected);
    }
  }
  return 0;
}
