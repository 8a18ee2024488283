#include "gpu/compiler.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
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
        REQUIRE(register_count(compiled.log, entry));
        CHECK(*register_count(compiled.log, entry) <= 64);
        CHECK(spill_bytes(compiled.log, entry) == 0);
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
  CHECK(register_count(compiled.log, "fat").value() <= 32);
  CHECK(spill_bytes(compiled.log, "fat") > 0);
}

TEST_CASE("a source that does not compile is refused with the compiler's reason") {
  try {
    compile_image({"extern \"C\" __global__ void k() { nonsense; }", {"k"}}, "sm_90", kNoCache);
    FAIL("compiled");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("nonsense") != std::string::npos);
  }
}

TEST_CASE("what comes from the cache says how long compiling it took then") {
  std::string folder = (std::filesystem::temp_directory_path() / "fusecalc-test.XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const KernelCache cache(folder + "/kernels");
  const KernelSource source{std::string(embedded_kernel("stream")), {"stream"}};
  const CompiledImage first = compile_image(source, "sm_90", cache);
  CHECK(!first.cached);
  CHECK(first.seconds > 1e-3);
  const CompiledImage second = compile_image(source, "sm_90", cache);
  CHECK(second.cached);
  CHECK(second.seconds == doctest::Approx(first.seconds));
  CHECK(second.image == first.image);
  CHECK(second.log == first.log);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a device is compiled for as itself, or through the newest PTX below it") {
  CHECK(architecture_for(90) == "sm_90");
  CHECK(architecture_for(9999).starts_with("compute_"));
  CHECK_THROWS_AS(architecture_for(30), Error);
}

}  // namespace
}  // namespace fusecalc::gpu
