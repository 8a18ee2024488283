// Texts of which many differ in their numbers only, as the names of layers and of tensors do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/writer.hpp"

namespace fusecalc {

// What such texts have in common is written once: "layers.3.mlp" is [0, 3] where pattern 0 is
// "layers.\n.mlp", with a line break for every number. A text that would not get shorter is written
// as it is, and so is one whose pattern no other has. Texts are printable, so they hold no breaks.
class TextPatterns {
 public:
  // Of all texts, before the first one is written.
  void count(std::string_view text);

  // A string, or an array of the place of its pattern and of its numbers.
  void write(JsonWriter& json, std::string_view text);
  // The patterns of what was written.
  void write_patterns(JsonWriter& json) const;

 private:
  static constexpr std::uint64_t kNotWritten = UINT64_MAX;
  struct Pattern {
    std::uint64_t texts = 0;
    std::uint64_t place = kNotWritten;
  };

  std::unordered_map<std::string, Pattern> patterns_;
  std::vector<std::string> written_;
};

}  // namespace fusecalc
