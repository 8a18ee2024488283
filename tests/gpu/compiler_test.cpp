#include "gpu/compiler.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/embedded.hpp"
#include "core/error.hpp"

namespace fusecalc::gpu {
namespace {

const KernelCache kNoCache{std::nullopt};

struct WholeSource {
  std::string name;
  std::vector<std::string> entries;
};

// The other files are building blocks: codegen_test and contraction_code_test compile those.
const std::vector<WholeSource> kWholeSources = {
    {"stream", {"stream"}}, {"instruments", {"sweep", "hold", "fill", "compare"}}};

TEST_CASE("every built-in kernel compiles for each architecture, lean and without spills") {
  for (const auto& [name, entries] : kWholeSources) {
    for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
      CAPTURE(name);
      CAPTURE(architecture);
      const CompiledImage compiled =
          compile_image({std::string(embedded_kernel(name)), entries}, architecture, kNoCache);
      CHECK(
          compiled.image.starts_with("\x7f"
                                     "ELF"));
      for (const std::string& entry : entries) {
        CAPTURE(compiled.log);
        const std::optional<EntryReport> report = report_of(compiled.log, entry);
        REQUIRE(report);
        CHECK(report->registers <= 64);
        CHECK(report->spill_bytes == 0);
      }
    }
  }
}

TEST_CASE("a kernel that keeps too much spills, and the report says how much") {
  // 200 live floats in 32 registers.
  const std::string text =
      "extern \"C\" __global__ void __maxnreg__(32) fat(float* p) {\n"
      "  float v[200];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 200; ++i) v[i] = p[i * 64 + threadIdx.x];\n"
      "  __syncthreads();\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 200; ++i) p[(199 - i) * 64 + threadIdx.x] = v[i];\n"
      "}\n";
  const CompiledImage compiled = compile_image({text, {"fat"}}, "sm_90", kNoCache);
  CAPTURE(compiled.log);
  const EntryReport report = report_of(compiled.log, "fat").value();
  CHECK(report.registers <= 32);
  CHECK(report.spill_bytes > 0);
  CHECK(report.stack_bytes > 0);
  CHECK_FALSE(report_of(compiled.log, "lean"));
}

TEST_CASE("a source that does not compile is refused with the compiler's reason") {
  try {
    compile_image({"extern \"C\" __global__ void k() { nonsense; }", {"k"}}, "sm_90", kNoCache);
    FAIL("compiled");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("nonsense") != std::string::npos);
  }
}

TEST_CASE("a device is compiled for as itself, or through the newest PTX below it") {
  CHECK(architecture_for(90) == "sm_90");
  CHECK(architecture_for(9999).starts_with("compute_"));
  CHECK_THROWS_AS(architecture_for(30), Error);
}

}  // namespace
}  // namespace fusecalc::gpu
