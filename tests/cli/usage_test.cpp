// What a wrong command line is answered with: one line on stderr, nothing else, exit code 2.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

struct Mistake {
  std::vector<std::string> arguments;
  std::string answer;
};

void check_answers(const std::vector<Mistake>& mistakes) {
  const TempDir folder;
  write_file(folder / "ops.json", R"([{"input_size": 8, "output_size": 8}])");
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.answer);
    const Outcome outcome = invoke(mistake.arguments).in(folder.path()).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err == "fusecalc: " + mistake.answer + "\n");
  }
  CHECK(names_in(folder.path()).size() == 1);
}

}  // namespace

TEST_CASE("a missing or unknown command is refused with the nearest one") {
  check_answers({
      {{}, "no command given; see fusecalc --help"},
      {{"analyse"}, "unknown command \"analyse\" (did you mean \"analyze\"?); see fusecalc --help"},
      {{"fuse", "ops.json"}, "unknown command \"fuse\"; see fusecalc --help"},
      {{"ops.json"}, "unknown command \"ops.json\"; see fusecalc --help"},
      {{"fuse", "--help"}, "unknown command \"fuse\"; see fusecalc --help"},
      {{""}, "unknown command \"\"; see fusecalc --help"},
      {{"--vresion"},
       "unknown option \"--vresion\" (did you mean \"--version\"?); see fusecalc --help"},
      {{"-x"}, "unknown option \"-x\"; see fusecalc --help"},
  });
}

TEST_CASE("an argument that is missing or too many is named") {
  check_answers({
      {{"analyze"}, "analyze: FILE is required; see fusecalc analyze --help"},
      {{"schema"}, "schema: DOCUMENT is required; see fusecalc schema --help"},
      {{"completion"}, "completion: SHELL is required; see fusecalc completion --help"},
      {{"import", "ops.json", "more.json"},
       "unexpected argument \"more.json\"; see fusecalc import --help"},
      {{"help", "analyze", "more"}, "unexpected argument \"more\"; see fusecalc help --help"},
      {{"schema", "sizes", "analysis"},
       "unexpected argument \"analysis\"; see fusecalc schema --help"},
      {{"compare", "ops.json", "ops.json", "-o", "a.csv", "b.csv"},
       "unexpected argument \"b.csv\"; see fusecalc compare --help"},
  });
}

TEST_CASE("a name of the library without its @ is answered with it") {
  check_answers({
      {{"analyze", "softmax"},
       "softmax: No such file (did you mean @softmax, an op list of fusecalc specs?)"},
      {{"analyze", "layernorm.json"},
       "layernorm.json: No such file (did you mean @layer_norm, an op list of fusecalc specs?)"},
      {{"analyze", "./softmax"}, "./softmax: No such file or directory"},
      {{"analyze", "unheard_of"}, "unheard_of: No such file or directory"},
      {{"specs", "@sofmax"},
       "unknown spec \"sofmax\" (did you mean \"softmax\"?); run fusecalc specs for a list"},
  });
}

TEST_CASE("an unknown GPU is answered with the nearest, at its place") {
  const std::string more =
      " (did you mean \"a100\"?); run fusecalc devices for a list, or name a file that ends in "
      ".json";
  check_answers({
      {{"devices", "a1000"}, "devices: unknown GPU \"a1000\"" + more},
      {{"analyze", "@fma", "--device", "a1000"}, "--device: unknown GPU \"a1000\"" + more},
  });
}

TEST_CASE("an unknown option is answered with the nearest") {
  check_answers({
      {{"analyze", "ops.json", "--fromat", "csv"},
       "unknown option \"--fromat\" (did you mean \"--format\"?); see fusecalc analyze --help"},
      {{"analyze", "ops.json", "--dtype_bytes=4"},
       "unknown option \"--dtype_bytes=4\" (did you mean \"--dtype-bytes\"?); see fusecalc analyze "
       "--help"},
      {{"analyze", "ops.json", "-q"}, "unknown option \"-q\"; see fusecalc analyze --help"},
      {{"schema", "sizes", "--format", "json"},
       "unknown option \"--format\"; see fusecalc schema --help"},
      {{"analyze", "ops.json", "--\x1b[31m"},
       "unknown option \"--\\u001b[31m\"; see fusecalc analyze --help"},
  });
}

TEST_CASE("an option without its value, or with one too many, is named") {
  check_answers({
      {{"analyze", "ops.json", "--format"},
       "analyze: --format needs a value, FORMAT; see fusecalc analyze --help"},
      {{"analyze", "ops.json", "-o"},
       "analyze: --output needs a value, FILE; see fusecalc analyze --help"},
      {{"analyze", "ops.json", "--dtype-bytes"},
       "analyze: --dtype-bytes needs a value, N; see fusecalc analyze --help"},
      {{"analyze", "ops.json", "-f", "csv", "-f", "json"},
       "analyze: --format is given more than once; keep one; see fusecalc analyze --help"},
      {{"analyze", "ops.json", "--dtype-bytes", "2", "--dtype-bytes", "4"},
       "analyze: --dtype-bytes is given more than once; keep one; see fusecalc analyze --help"},
  });
}

TEST_CASE("a value that is not one of the choices is refused with the choices") {
  check_answers({
      {{"analyze", "ops.json", "--format", "xml"},
       "analyze: --format: \"xml\" is not one of table, json, csv, markdown, html, dot, "
       "mermaid or benchmark; see fusecalc analyze --help"},
      {{"analyze", "ops.json", "-f", "jsn"},
       "analyze: --format: \"jsn\" is not one of table, json, csv, markdown, html, dot, "
       "mermaid or benchmark (did you mean \"json\"?); see fusecalc analyze --help"},
      {{"schema", "size"},
       "schema: DOCUMENT: \"size\" is not one of analysis, comparison, device, devices, import, "
       "measurement, "
       "ops-table, "
       "ops, profile, "
       "sizes, specs, sweep or tolerances (did you mean \"sizes\"?); see fusecalc schema --help"},
      {{"completion", "powershell"},
       "completion: SHELL: \"powershell\" is not one of bash, zsh or fish; see fusecalc completion "
       "--help"},
      {{"analyze", "ops.json", "--format", "a\nb"},
       "analyze: --format: \"a\\u000ab\" is not one of table, json, csv, markdown, html, dot, "
       "mermaid or benchmark; see fusecalc analyze --help"},
  });
}

TEST_CASE("an element size is a whole number from 1 to 2^63 - 1") {
  for (const std::string value : {"0", "-1", "1.5", "2e0", "bf16", "0x2", " 2", "2 ", "",
                                  "9223372036854775808", "18446744073709551618"}) {
    check_answers({{{"analyze", "ops.json", "--dtype-bytes", value},
                    "analyze: --dtype-bytes: must be a whole number from 1 to 9223372036854775807, "
                    "not \"" +
                        value + "\"; see fusecalc analyze --help"}});
  }
}

TEST_CASE("an output file with an unknown extension is refused before anything is read") {
  const std::string hint =
      ": the format follows from the extension; end the name in .txt, .json, .csv, .md, .html, "
      ".dot, .mmd or .benchmark.json";
  check_answers({
      {{"analyze", "missing.json", "-o", "out.xml"}, "-o out.xml" + hint},
      {{"analyze", "missing.json", "-o", "out"}, "-o out" + hint},
      {{"analyze", "ops.json", "-o", "first.json", "-o", "-.x"}, "-o -.x" + hint},
  });
}
