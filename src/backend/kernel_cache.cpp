#include "backend/kernel_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "core/hash.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "fusecalc kernel 2\n";

// An entry: magic, checksum of the rest, length of the key, key, content.
std::string entry_of(std::string_view key, std::string_view content) {
  std::string body = fmt::format("{:016x}", key.size());
  body.append(key).append(content);
  return fmt::format("{}{:016x}", kMagic, hash_of(body)) + body;
}

// Creates the folder and its parents; empty if it is not private to this user.
std::optional<fs::path> private_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::nullopt;
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  if (status.st_uid != ::geteuid()) return std::nullopt;
  if ((status.st_mode & 0077U) != 0 && ::chmod(folder.c_str(), 0700) != 0) return std::nullopt;
  return folder;
}

}  // namespace

std::optional<fs::path> KernelCache::default_folder() {
  const auto absolute = [](const char* variable) -> std::optional<fs::path> {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value != '/') return std::nullopt;
    return value;
  };
  if (const auto cache = absolute("XDG_CACHE_HOME")) return *cache / "fusecalc" / "kernels";
  if (const auto home = absolute("HOME")) return *home / ".cache" / "fusecalc" / "kernels";
  return std::nullopt;
}

KernelCache::KernelCache(std::optional<fs::path> folder, std::uint64_t limit_bytes)
    : folder_(folder ? private_folder(*folder) : std::nullopt), limit_bytes_(limit_bytes) {}

fs::path KernelCache::file_of(std::string_view key) const {
  return folder_.value_or(fs::path()) / fmt::format("{:016x}.kernel", hash_of(key));
}

std::optional<std::string> KernelCache::load(std::string_view key) const {
  if (!usable()) return std::nullopt;
  std::ifstream file(file_of(key), std::ios::binary);
  const std::string entry{std::istreambuf_iterator<char>(file), {}};
  const std::size_t start = entry_of(key, {}).size();
  if (entry.size() < start) return std::nullopt;
  std::string content = entry.substr(start);
  if (entry != entry_of(key, content)) return std::nullopt;
  return content;
}

void KernelCache::store(std::string_view key, std::string_view content) const {
  if (!usable()) return;
  std::string temporary = (*folder_ / "new.XXXXXX").string();
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return;
  const std::string entry = entry_of(key, content);
  std::string_view rest = entry;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool whole = ::close(descriptor) == 0 && rest.empty();
  if (!whole || ::rename(temporary.c_str(), file_of(key).c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
  evict();
}

void KernelCache::evict() const {
  struct Entry {
    fs::path path;
    fs::file_time_type written;
    std::uint64_t bytes = 0;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(*folder_, error)) {
    Entry entry{file.path(), file.last_write_time(error), file.file_size(error)};
    if (error) continue;  // removed meanwhile: another process evicts too
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &Entry::written);
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) break;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

}  // namespace fusecalc
