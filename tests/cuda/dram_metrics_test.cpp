#include "cuda/dram_metrics.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/error.hpp"

namespace fusecalc::cuda {
namespace {

TEST_CASE("CUPTI counts DRAM bytes in one pass from Turing to Blackwell") {
  for (const char* chip : {"TU102", "GA100", "AD102", "GH100", "GB100"}) {
    CAPTURE(chip);
    const DramMetrics metrics(chip, {});
    CHECK(metrics.passes() == 1);
    CHECK(std::string(metrics.names()[0]) == "dram__bytes_read.sum");
    CHECK(std::string(metrics.names()[1]) == "dram__bytes_write.sum");
    CHECK_FALSE(metrics.config().empty());
  }
}

TEST_CASE("counter names that differ between chips are queried, not guessed") {
  const DramMetrics metrics("GB202", {});
  CHECK(metrics.passes() == 1);
  CHECK(std::string(metrics.names()[0]) == "dram__bytes_op_read.sum");
}

TEST_CASE("a chip without such counters, or unknown to CUPTI, is refused by name") {
  for (const char* chip : {"GA10B", "XX999"}) {
    CAPTURE(chip);
    try {
      const DramMetrics metrics(chip, {});
      FAIL("found metrics");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::kUnavailable);
    }
  }
}

}  // namespace
}  // namespace fusecalc::cuda
