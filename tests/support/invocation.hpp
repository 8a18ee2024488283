#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fusecalc::testing {

// How a program ended.
struct Outcome {
  int exit_code = -1;  // 128 and the signal's number where a signal ended it
  std::string out;
  std::string err;
};

// One run of a real program, said step by step:
//   invoke({"analyze", "-"}).input("[]").with("NO_COLOR", "1").outcome()
class Invocation {
 public:
  Invocation(std::string program, std::vector<std::string> arguments);

  Invocation& input(std::string text);  // what a pipe on its standard input holds
  Invocation& in(const std::filesystem::path& folder);
  Invocation& with(const std::string& variable, const std::string& value);

  // Where its standard output goes, instead of into Outcome::out.
  Invocation& output_to(const std::string& path);
  Invocation& output_closed();
  Invocation& reader_gone();  // a pipe whose read end is closed
  // A terminal, which may not know how wide it is; what appears on it is in Outcome::out.
  Invocation& on_terminal(unsigned short columns = 0);

  Outcome outcome();

 private:
  enum class Destination { kCaptured, kPath, kClosed, kNobody, kTerminal };

  // Never returns; descriptors are -1 where the destination needs none.
  [[noreturn]] void become_program(int input, int output, int error, char** environment);

  std::string program_;
  std::vector<std::string> arguments_;
  std::string input_;
  std::filesystem::path folder_ = ".";
  std::map<std::string, std::string> environment_;
  Destination destination_ = Destination::kCaptured;
  std::string output_path_;
  unsigned short columns_ = 0;
};

// The path of the fusecalc that was built with these tests.
std::string built_program();

// That program, in a plain environment: TERM=xterm, no NO_COLOR, COLUMNS or
// locale, not in GitHub Actions.
Invocation invoke(std::vector<std::string> arguments);

}  // namespace fusecalc::testing
