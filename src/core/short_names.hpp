#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace fusecalc {

// The names of one table, printable and at most so many columns wide: a longer name is cut in the
// middle, where names of a model differ least, and no two names get the same text.
class ShortNames {
 public:
  explicit ShortNames(std::size_t columns) : columns_(columns) {}

  const std::string& of(std::string_view name);

 private:
  std::string shortened(const std::string& name);

  std::size_t columns_;
  std::size_t numbered_ = 0;  // names that no cut tells apart
  std::unordered_map<std::string, std::string> known_;
  std::unordered_set<std::string> taken_;
};

}  // namespace fusecalc
