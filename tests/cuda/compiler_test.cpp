#include "cuda/compiler.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "cuda/harness_source.hpp"
#include "measure/chain_runner.hpp"

namespace fusecalc::cuda {
namespace {

const KernelCache kNoCache{std::nullopt};

// The other files are building blocks: codegen_test and contraction_code_test compile those.
const std::vector<KernelSource> kWholeSources = {stream_source(), harness_source()};

TEST_CASE("every built-in kernel compiles for each architecture, in few registers without spills") {
  for (const KernelSource& source : kWholeSources) {
    for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
      CAPTURE(architecture);
      const CompiledImage compiled = compile_image(source, architecture, kNoCache);
      CHECK(
          compiled.image.starts_with("\x7f"
                                     "ELF"));
      for (const std::string& entry : source.entries) {
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

TEST_CASE("a cached kernel reports how long compiling it took") {
  std::string folder = (std::filesystem::temp_directory_path() / "fusecalc-test.XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const KernelCache cache(folder + "/kernels");
  const KernelSource source = stream_source();
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

TEST_CASE("several sources compile in parallel, keep their order and report progress") {
  std::vector<KernelSource> sources;
  for (int i = 0; i < 5; ++i) {
    const std::string name = fmt::format("k{}", i);
    sources.push_back(
        {.text = fmt::format("extern \"C\" __global__ void {}() {{}}", name), .entries = {name}});
  }
  std::size_t told = 0;
  const std::vector<CompiledImage> images =
      compile_images(sources, "sm_90", kNoCache, [&](std::size_t done) {
        CHECK(done >= told);
        told = done;
      });
  REQUIRE(images.size() == 5);
  for (std::size_t i = 0; i < images.size(); ++i) {
    CHECK(images[i].log.find(fmt::format("'k{}'", i)) != std::string::npos);
    CHECK(images[i].seconds > 0);
  }
  sources[3].text = "nonsense";
  CHECK_THROWS_WITH_AS(compile_images(sources, "sm_90", kNoCache, [](std::size_t) {}),
                       doctest::Contains("nonsense"), Error);
}

TEST_CASE("a progress callback may cancel the compiler") {
  std::vector<KernelSource> sources(64);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources[i].text =
        fmt::format("extern \"C\" __global__ void k(float* p) {{ p[0] = sinf(p[{}]); }}", i);
    sources[i].entries = {"k"};
  }
  std::size_t told = 0;
  const auto stop = [&](std::size_t done) {
    told = done;
    throw Error(Fault::kInterrupted, "interrupted");
  };
  CHECK_THROWS_WITH_AS(compile_images(sources, "sm_90", kNoCache, stop), "interrupted", Error);
  CHECK(told < 64);
}

TEST_CASE("a device gets code for its own architecture, or the newest older PTX") {
  CHECK(architecture_for({9, 0}) == "sm_90");
  CHECK(architecture_for({999, 9}).starts_with("compute_"));
  CHECK_THROWS_AS(architecture_for({3, 0}), Error);
}

}  // namespace
}  // namespace fusecalc::cuda
