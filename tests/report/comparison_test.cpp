#include "compare/comparison.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "report/comparison_cells.hpp"
#include "report/formats.hpp"
#include "report/writers.hpp"
#include "support/invocation.hpp"
#include "support/words.hpp"
#include "support/written.hpp"

using namespace fusecalc;
using fusecalc::testing::contains;
using fusecalc::testing::written;

namespace {

Finding worse(const std::string& spec) {
  Finding finding{.spec = spec, .plan = "auto", .kernel = {}};
  finding.before = 1000;
  finding.after = 1500;
  finding.judgement = Judgement::kWorse;
  finding.failed = true;
  finding.note = "h is now written (500 B)";
  return finding;
}

Comparison with(const std::vector<Finding>& findings) {
  Comparison comparison{.base = "base", .fresh = "new"};
  for (const Finding& finding : findings) comparison.specs.push_back(finding.spec);
  comparison.findings = findings;
  return comparison;
}

std::string report(std::string_view format, const Comparison& comparison) {
  return written(
      [&](Output& output) { format_named(format).write_comparison(comparison, Style{}, output); });
}

}  // namespace

TEST_CASE("a finding in words: where, what, by how much, why") {
  CHECK(in_words(worse("net")) ==
        "auto of net: bytes 1.000 kB -> 1.500 kB (+50.00 %): h is now written (500 B)");
  Finding tiny = worse("net");
  tiny.before = 1'000'000;
  tiny.after = 1'000'001;
  CHECK(share_in_words(tiny) == "< +0.01 %");  // never +0.00
  tiny.note.clear();
  CHECK(in_words(tiny) == "auto of net: bytes 1.000 MB -> 1.000 MB (+1 B, < +0.01 %)");
  tiny.before = 0;
  CHECK(share_in_words(tiny) == "from 0");
  tiny.after = 0;
  CHECK(share_in_words(tiny) == "0 %");
  tiny.after.reset();
  CHECK(share_in_words(tiny) == "-");
}

TEST_CASE("GitHub annotations escape their delimiters, and there are at most ten of a kind") {
  Finding finding = worse("a,b:c%\nd");
  const std::string text = report("github", with({finding}));
  CHECK(contains(text,
                 "\n::error title=fusecalc%3A a%2Cb%3Ac%25\\u000ad worse::auto of "
                 "a,b:c%25\\u000ad: bytes 1.000 kB -> 1.500 kB (+50.00 %25): h is now written (500 "
                 "B)\n"));
  CHECK(contains(text, "\n  failed: 1 worse\n"));  // the table comes first
  finding.failed = false;
  finding.judgement = Judgement::kNoise;
  CHECK(contains(report("github", with({finding})), "\n::warning title="));
  const std::string many = report("github", with(std::vector<Finding>(25, worse("net"))));
  std::size_t annotations = 0;
  for (std::size_t at = 0; (at = many.find("\n::error ", at)) != std::string::npos; ++at) {
    ++annotations;
  }
  CHECK(annotations == 10);
}

TEST_CASE("GitHub annotations name the line of the op list where it is known") {
  Finding finding = worse("net");
  finding.file = "nets/a,b.json";
  finding.line = 7;
  CHECK(contains(report("github", with({finding})),
                 "\n::error file=nets/a%2Cb.json,line=7,title=fusecalc%3A net worse::auto of net"));
}

TEST_CASE("the summary of a CI job omits unchanged figures and is bounded") {
  const auto summary = [](const Comparison& comparison) {
    return written([&](Output& output) { write_summary(comparison, output); });
  };
  Finding same = worse("net");
  same.judgement = Judgement::kSame;
  same.failed = false;
  CHECK_FALSE(contains(summary(with({same})), "|"));
  CHECK(contains(report("markdown", with({same})), "| same |"));
  CHECK(contains(summary(with({worse("a,b:c%\nd")})), "| **worse** | a,b:c%\\\\u000ad | auto |"));
  Finding large = worse(std::string(5000, '*'));
  large.kernel = large.note = large.spec;
  const std::string text = summary(with(std::vector<Finding>(5000, large)));
  CHECK(contains(text, "and 4,800 more."));
  CHECK(text.size() < 1'000'000);
}

TEST_CASE("the summary tells failures from what only changed") {
  Finding removed = worse("net");
  removed.judgement = Judgement::kRemoved;
  Finding harmless = removed;
  harmless.failed = false;
  Finding same = harmless;
  same.judgement = Judgement::kSame;
  CHECK(summary_of(with({worse("net"), removed, harmless, harmless, same})) ==
        "failed: 1 worse, 1 removed; passed: 2 removed, 1 same");
  CHECK(summary_of(with({removed})) == "failed: 1 removed");
  CHECK(summary_of(with({harmless, same})) == "passed: 1 removed, 1 same");
}

TEST_CASE("JUnit's counts are those of its cases, and names cannot break the XML") {
  Finding unknown = worse("<net> & \"co\"\x01");
  unknown.judgement = Judgement::kUnknown;
  unknown.failed = false;
  Finding failed = worse("net");
  failed.kernel = "a+b -> a, b";
  const std::string text = report("junit", with({failed, unknown}));
  CHECK(contains(text,
                 "<testsuites name=\"fusecalc compare\" tests=\"2\" failures=\"1\" "
                 "errors=\"0\" time=\"0\">"));
  CHECK(contains(text,
                 "<testcase classname=\"net\" name=\"auto: a+b -&gt; a, b: bytes\" time=\"0\">"));
  CHECK(contains(text, "classname=\"&lt;net&gt; &amp; &quot;co&quot;\\u0001\""));
  CHECK(contains(text, "<failure type=\"worse\" message=\"auto of net, kernel a+b -&gt; a, b: "));
}

TEST_CASE("an independent XML parser reads the JUnit document") {
  const std::string text = report("junit", with({worse("a<b>&\"'\x1b"), worse("net")}));
  const auto outcome =
      testing::Invocation("python3", {"-c",
                                      "import sys, xml.etree.ElementTree as t\n"
                                      "r = t.fromstring(sys.stdin.buffer.read())\n"
                                      "print(len(r.findall('.//testcase/failure')))"})
          .input(text)
          .outcome();
  CHECK(outcome.out == "2\n");
}

TEST_CASE("the CSV of a comparison has every column in every row") {
  Finding finding = worse("a,\"b\"");
  const std::string text = report("csv", with({finding}));
  CHECK(text ==
        "spec,plan,kernel,change,figure,unit,before,after,delta,share_pct,verdict,failed,note\n"
        "\"a,\"\"b\"\"\",auto,,same,bytes,bytes,1000,1500,500,50.000000,worse,true,h is now "
        "written (500 B)\n");
}

TEST_CASE("the table of a comparison aligns its columns and escapes hostile names") {
  const std::string text = report("table", with({worse("net\x1b[2J"), worse("other")}));
  CHECK_FALSE(contains(text, "\x1b"));
  CHECK(contains(text, "  failed: 2 worse\n"));
  CHECK(contains(text, "      h is now written (500 B)\n"));
}
