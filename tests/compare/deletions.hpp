#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fusecalc::testing {

// A member or an element of a JSON document that can be deleted from its text.
struct Deletion {
  nlohmann::json::json_pointer place;
  std::size_t begin = 0;  // with the comma that goes with it
  std::size_t end = 0;

  std::string applied_to(std::string_view text) const {
    return std::string(text.substr(0, begin)).append(text.substr(end));
  }
};

// Every member and element of every container of a valid document, at any depth.
std::vector<Deletion> deletions_of(std::string_view text);

}  // namespace fusecalc::testing
