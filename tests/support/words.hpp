#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace fusecalc::testing {

using Words = std::vector<std::string>;

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fusecalc::testing

// So that a failed comparison shows both lists.
template <>
struct doctest::StringMaker<fusecalc::testing::Words> {
  static String convert(const fusecalc::testing::Words& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "[" : ", ") + word;
    return (text.empty() ? "[]" : text + "]").c_str();
  }
};
