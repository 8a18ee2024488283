#include "backend/gpu_fault.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace fusecalc {
namespace {

TEST_CASE("every GPU fault is one distinct line with a fix, and means unavailable") {
  std::set<std::string> messages;
  for (int i = 0; i <= static_cast<int>(GpuFault::kImplausible); ++i) {
    const Error error = gpu_error(static_cast<GpuFault>(i));
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.fault() == Fault::kUnavailable);
    CHECK(text.find("; ") != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
    CHECK(messages.insert(text).second);
  }
}

TEST_CASE("the most common fault names every fix") {
  const std::string text = gpu_error(GpuFault::kNotPermitted).what();
  CHECK(text.find("CAP_SYS_ADMIN") != std::string::npos);
  CHECK(text.find("NVreg_RestrictProfilingToAdminUsers=0") != std::string::npos);
  CHECK(text.find("--cap-add SYS_ADMIN") != std::string::npos);
}

TEST_CASE("a detail is printed in parentheses, escaped") {
  CHECK(std::string(gpu_error(GpuFault::kNoDevice, "cuInit").what()).find(" (cuInit); ") !=
        std::string::npos);
  CHECK(std::string(gpu_error(GpuFault::kNoDevice, "a\nb").what()).find('\n') == std::string::npos);
}

TEST_CASE("the message of dlopen distinguishes a missing compiler from a broken module") {
  CHECK(fault_of_load_failure("libnvrtc.so.13: cannot open shared object file: "
                              "No such file or directory") == GpuFault::kNoCompiler);
  CHECK(fault_of_load_failure("libfusecalc_gpu.so: undefined symbol: x") ==
        GpuFault::kBrokenModule);
}

TEST_CASE("the driver's parameters say who may read counters") {
  CHECK(counters_for_admin_only("EnableMSI: 1\nRmProfilingAdminOnly: 1\n").value() == true);
  CHECK(counters_for_admin_only("RmProfilingAdminOnly: 0\nx: 1\n").value() == false);
  CHECK_FALSE(counters_for_admin_only("EnableMSI: 1\n"));
  CHECK_FALSE(counters_for_admin_only("RmProfilingAdminOnly:"));
}

TEST_CASE("a driver runs toolkits of its own major version and older ones") {
  CHECK(cuda_version_text(12060) == "12.6");
  CHECK(driver_runs_toolkit(13000, 13010));
  CHECK(driver_runs_toolkit(13000, 12060));
  CHECK_FALSE(driver_runs_toolkit(12090, 13000));
}

}  // namespace
}  // namespace fusecalc
