#include "compare/deletions.hpp"

namespace fusecalc::testing {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<Deletion> scan() {
    value(nlohmann::json::json_pointer());
    return std::move(found_);
  }

 private:
  char next() {
    at_ = text_.find_first_not_of(" \t\r\n", at_);
    return text_[at_];
  }

  std::string_view string() {
    const std::size_t begin = at_++;
    for (; text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    return text_.substr(begin, ++at_ - begin);
  }

  void value(const nlohmann::json::json_pointer& place) {
    const char first = next();
    if (first == '{' || first == '[') {
      container(place, first == '{' ? '}' : ']');
    } else if (first == '"') {
      string();
    } else {
      at_ = text_.find_first_of(",]} \t\r\n", at_);
    }
  }

  void container(const nlohmann::json::json_pointer& place, char close) {
    std::size_t comma = at_++;  // before the member; at first the bracket
    for (std::size_t i = 0; next() != close; ++i) {
      const std::size_t begin = at_;
      nlohmann::json::json_pointer inner = place / i;
      if (close == '}') {
        inner = place / nlohmann::json::parse(string()).get<std::string>();
        next();
        ++at_;  // the colon
      }
      value(inner);
      const std::size_t end = at_;
      const bool last = next() == close;
      found_.push_back({inner, last && i > 0 ? comma : begin, last ? end : at_ + 1});
      comma = at_;
      if (!last) ++at_;
    }
    ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Deletion> found_;
};

}  // namespace

std::vector<Deletion> deletions_of(std::string_view text) { return Scanner(text).scan(); }

}  // namespace fusecalc::testing
