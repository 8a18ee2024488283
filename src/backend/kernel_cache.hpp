#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fusecalc {

// Compiled kernels on disk, private to the user. An entry holds its whole key and a checksum, so a
// hash collision or a damaged file reads as a miss. If the folder cannot be created, belongs to
// another user or is accessible to others, nothing is cached; caching never causes an error.
class KernelCache {
 public:
  static constexpr std::uint64_t kDefaultLimit = std::uint64_t{256} << 20U;

  // XDG_CACHE_HOME/fusecalc/kernels, or ~/.cache/fusecalc/kernels; nothing without either.
  static std::optional<std::filesystem::path> default_folder();

  explicit KernelCache(std::optional<std::filesystem::path> folder,
                       std::uint64_t limit_bytes = kDefaultLimit);

  bool usable() const { return folder_.has_value(); }

  std::optional<std::string> load(std::string_view key) const;
  // Writes the entry whole or not at all, and drops the oldest entries beyond the limit.
  void store(std::string_view key, std::string_view content) const;

  std::filesystem::path file_of(std::string_view key) const;

 private:
  void evict() const;

  std::optional<std::filesystem::path> folder_;
  std::uint64_t limit_bytes_;
};

}  // namespace fusecalc
