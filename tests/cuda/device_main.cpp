#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "cuda/context.hpp"
#include "skip.hpp"

namespace fusecalc::cuda {
namespace {

struct Counts {
  std::string name;  // of the test case at hand
  int run = 0;
  int skipped = 0;
};

Counts& counts() {
  static Counts instance;
  return instance;
}

// doctest knows no test case that finds out only when it runs that it cannot.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions& /*options*/) {}
  void test_case_start(const doctest::TestCaseData& test) override {
    counts().name = test.m_name;
    ++counts().run;
  }
  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& /*stats*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*assertion*/) override {}
  void log_message(const doctest::MessageData& /*message*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}
};
REGISTER_LISTENER("counter", 1, Counter);

}  // namespace

void skip(std::string_view why) {
  ++counts().skipped;
  std::printf("skipped: %s: %.*s\n", counts().name.c_str(), static_cast<int>(why.size()),
              why.data());
}

}  // namespace fusecalc::cuda

// 77 tells ctest that nothing was tested.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  constexpr int kSkipped = 77;
  bool listing = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    listing |= argument.starts_with("--list") || argument.starts_with("-ltc");
  }
  try {
    if (!context.shouldExit() && !listing) fusecalc::cuda::device_at(0);
  } catch (const fusecalc::Error& error) {
    std::printf("skipped: every test: %s\n", error.what());
    return kSkipped;
  }
  const int status = context.run();
  const fusecalc::cuda::Counts& counts = fusecalc::cuda::counts();
  return status == 0 && counts.run > 0 && counts.skipped == counts.run ? kSkipped : status;
}
