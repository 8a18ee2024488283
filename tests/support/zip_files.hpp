#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusecalc::testing {

struct ZippedFile {
  std::string name;
  std::string bytes;
  bool deflated = false;
  // For damaged and hostile archives: what the archive states instead of the truth.
  std::uint32_t crc_error = 0;  // added to the checksum
  std::uint16_t flags = 0;
  std::uint64_t stated_bytes = 0;  // 0: the true size
  bool wide = false;               // sizes are in the 64-bit fields
};

// A zip archive of these files.
std::string zip_of(const std::vector<ZippedFile>& files, const std::string& comment = "");

}  // namespace fusecalc::testing
