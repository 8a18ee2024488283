#include "backend/kernel_cache.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "fusecalc-cache.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path cache() const { return path_ / "deep" / "kernels"; }

 private:
  fs::path path_;
};

TEST_CASE("a stored kernel is found under its own key only") {
  const Folder folder;
  const KernelCache cache(folder.cache());
  CHECK_FALSE(cache.load("a"));
  cache.store("a", std::string("\0code", 5));
  CHECK(cache.load("a").value() == std::string("\0code", 5));
  CHECK_FALSE(cache.load("b"));
  // The same file name for another key, as after a hash collision.
  fs::copy_file(cache.file_of("a"), cache.file_of("b"));
  CHECK_FALSE(cache.load("b"));
}

TEST_CASE("the cache is private") {
  const Folder folder;
  const KernelCache cache(folder.cache());
  cache.store("a", "code");
  struct stat status {};
  REQUIRE(::stat(folder.cache().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0700U);
  REQUIRE(::stat(cache.file_of("a").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);
}

TEST_CASE("an entry that is damaged at any byte reads as a miss") {
  const Folder folder;
  const KernelCache cache(folder.cache());
  cache.store("key", "content");
  std::ifstream file(cache.file_of("key"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    std::ofstream(cache.file_of("key"), std::ios::binary) << damaged;
    CHECK_FALSE(cache.load("key"));
    std::ofstream(cache.file_of("key"), std::ios::binary) << whole.substr(0, i);
    CHECK_FALSE(cache.load("key"));
  }
  cache.store("key", "content");
  CHECK(cache.load("key").value() == "content");
}

TEST_CASE("the oldest entries go when the limit is passed") {
  const Folder folder;
  const KernelCache cache(folder.cache(), 2500);
  const std::string content(1000, 'x');
  cache.store("old", content);
  fs::last_write_time(cache.file_of("old"),
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.store("middle", content);
  fs::last_write_time(cache.file_of("middle"),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  cache.store("new", content);
  CHECK_FALSE(cache.load("old"));
  CHECK(cache.load("middle"));
  CHECK(cache.load("new"));
}

TEST_CASE("a folder that is a link or cannot be created is not used, without an error") {
  const Folder folder;
  fs::create_directories(folder.cache().parent_path() / "elsewhere");
  fs::create_directory_symlink("elsewhere", folder.cache());
  const KernelCache linked(folder.cache());
  CHECK_FALSE(linked.usable());
  linked.store("a", "code");
  CHECK_FALSE(linked.load("a"));
  CHECK_FALSE(KernelCache("/proc/none/kernels").usable());
  CHECK_FALSE(KernelCache(std::nullopt).usable());
}

}  // namespace
}  // namespace fusecalc
