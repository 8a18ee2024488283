#pragma once

#include <cstdint>
#include <string_view>

namespace fusecalc {

inline constexpr std::uint64_t kEmptyHash = 0xcbf29ce484222325U;

// FNV-1a, 64 bits; `hash` is that of the text before.
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t hash = kEmptyHash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace fusecalc
