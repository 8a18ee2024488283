#include "emulation/translation.hpp"

#include <fmt/format.h>

#include <regex>
#include <string_view>
#include <vector>

namespace fusecalc::testing {
namespace {

// Reads the operands of an asm statement, from behind its opening parenthesis on.
class AsmReader {
 public:
  AsmReader(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::size_t end() const { return at_; }

  // The same as a call, and moves behind the closing parenthesis. The text stays as it is: macros
  // put some together.
  std::string call() {
    const std::size_t begin = at_;
    while (text_[at_] != ':' && text_[at_] != ')') {
      if (text_[at_] == '"') {
        skip_literal();
      } else {
        ++at_;
      }
    }
    const std::string words(text_.substr(begin, at_ - begin));
    std::string operands;
    unsigned section = 0;
    while (text_[at_] != ')') {
      const char c = text_[at_];
      if (c == ':') ++section;
      if (c == '"') {
        skip_literal();
      } else if (c == '(') {
        const std::string operand = in_parentheses();
        if (section == 1 || section == 2) {
          operands += (operands.empty() ? "" : ", ") + operand;
        }
      } else {
        ++at_;
      }
    }
    ++at_;
    return fmt::format("host::Ptx<{}>::run({})", words, operands);
  }

 private:
  void skip_literal() {
    ++at_;
    while (text_[at_] != '"') ++at_;
    ++at_;
  }
  std::string in_parentheses() {
    const std::size_t begin = at_ + 1;
    for (int depth = 0; depth > 0 || at_ < begin; ++at_) {
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
    }
    return std::string(text_.substr(begin, at_ - 1 - begin));
  }

  std::string_view text_;
  std::size_t at_;
};

std::string with_calls_for_asm(const std::string& text) {
  const std::regex begin(R"(\basm(\s+volatile)?\s*\()");
  std::string result;
  std::size_t done = 0;
  std::smatch match;
  for (auto from = text.begin(); std::regex_search(from, text.end(), match, begin);) {
    const auto at = static_cast<std::size_t>(match[0].first - text.begin());
    AsmReader reader(text, at + static_cast<std::size_t>(match[0].length()));
    result += text.substr(done, at - done) + reader.call();
    done = reader.end();
    from = text.begin() + static_cast<std::ptrdiff_t>(done);
  }
  return result + text.substr(done);
}

}  // namespace

std::string on_host(const KernelSource& source, unsigned cuda_arch) {
  std::string text = with_calls_for_asm(source.text);
  // Memory of a block whose size the launch tells; and attributes, which go first.
  text = std::regex_replace(
      text, std::regex(R"(extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];)"),
      "$1* const $2 = reinterpret_cast<$1*>(host::dynamic_shared());");
  text = std::regex_replace(text, std::regex(R"(__shared__ (alignas\(\d+\)))"), "$1 __shared__");
  text = std::regex_replace(text, std::regex(R"(\(volatile u32\*\)(\w+))"), "host::watched($1)");
  std::string result = fmt::format("#define __CUDA_ARCH__ {}\n{}\n", cuda_arch, text);
  for (const std::string& entry : source.entries) {
    result += fmt::format(
        "extern \"C\" void run_{0}(const host::Launch& launch, void** arguments) {{\n"
        "  host::run_grid(launch, [](void** given) {{ host::call({0}, given); }}, "
        "arguments);\n}}\n",
        entry);
  }
  return result;
}

}  // namespace fusecalc::testing
