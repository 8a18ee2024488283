#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "core/error.hpp"
#include "gpu/context.hpp"

// 77 tells ctest that nothing was tested.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  constexpr int kSkipped = 77;
  try {
    if (!context.shouldExit()) fusecalc::gpu::device_at(0);
  } catch (const fusecalc::Error& error) {
    bool listing = false;
    for (int i = 1; i < argc; ++i)
      listing |= std::string_view(argv[i]).starts_with("--list") ||
                 std::string_view(argv[i]).starts_with("-ltc");
    if (!listing) {
      std::printf("skipped: %s\n", error.what());
      return kSkipped;
    }
  }
  return context.run();
}
