#include "input/zip/zip_archive.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "support/zip_files.hpp"

using namespace fusecalc;
using fusecalc::testing::zip_of;
using fusecalc::testing::ZippedFile;

namespace {

// The first entry of an archive, unpacked, or the error.
std::string first_of(const std::string& file, std::uint64_t limit = 1000) {
  try {
    const ZipArchive archive(file, "a.zip");
    REQUIRE_FALSE(archive.entries().empty());
    std::string unpacked;
    return std::string(archive.read(archive.entries()[0], limit, unpacked));
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    return error.what();
  }
}

}  // namespace

TEST_CASE("zip: stored and deflated entries, 64-bit sizes and comments") {
  const std::string text = "what is in the file, what is in the file";
  for (const bool deflated : {false, true}) {
    for (const bool wide : {false, true}) {
      CAPTURE(deflated);
      CAPTURE(wide);
      const ZippedFile file{.name = "a/b", .bytes = text, .deflated = deflated, .wide = wide};
      CHECK(first_of(zip_of({file})) == text);
      CHECK(first_of(zip_of({file, {.name = "c", .bytes = ""}}, "a comment")) == text);
    }
  }
  const std::string file = zip_of({{.name = "a", .bytes = ""}, {.name = "b/c", .bytes = "x"}});
  const ZipArchive archive(file, "a.zip");
  REQUIRE(archive.entries().size() == 2);
  CHECK(archive.entries()[1].name == "b/c");
  CHECK(archive.entries()[1].bytes == 1);
}

TEST_CASE("zip: what is wrong with an entry is told with its name") {
  CHECK(first_of(zip_of({{.name = "a", .bytes = "text", .crc_error = 1}})) ==
        "a.zip: a: the archive is damaged: the entry's checksum is wrong");
  CHECK(first_of(zip_of({{.name = "a", .bytes = "text", .flags = 1}})) == "a.zip: a: is encrypted");
  CHECK(first_of(zip_of({{.name = "a", .bytes = "text", .stated_bytes = 5}})) ==
        "a.zip: a: the archive is damaged: the entry's size is wrong");
  CHECK(first_of(zip_of({{.name = "a", .bytes = "text", .deflated = true, .stated_bytes = 5}})) ==
        "a.zip: a: the archive is damaged: the entry cannot be unpacked");
  CHECK(first_of(zip_of({{.name = "a", .bytes = "text", .deflated = true, .stated_bytes = 3}})) ==
        "a.zip: a: the archive is damaged: the entry cannot be unpacked");
}

TEST_CASE("zip: an entry that unpacks to more than the limit is refused before it is unpacked") {
  const std::string zeros(1'000'000, '\0');
  CHECK(first_of(zip_of({{.name = "a", .bytes = zeros, .deflated = true}})) ==
        "a.zip: a: has 1000000 bytes, more than the 1000 that are read");
  // A size that no deflated entry of this length can have is not even allocated.
  CHECK(first_of(zip_of({{.name = "a",
                          .bytes = zeros,
                          .deflated = true,
                          .stated_bytes = std::uint64_t{1} << 40U,
                          .wide = true}}),
                 std::uint64_t{1} << 50U) ==
        "a.zip: a: the archive is damaged: the entry's size is wrong");
}

TEST_CASE("zip: an archive that ends early is refused, wherever it ends") {
  const std::string file = zip_of({{.name = "a", .bytes = "some text", .deflated = true},
                                   {.name = "b", .bytes = "more", .wide = true}});
  for (std::size_t length = 0; length < file.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(ZipArchive(std::string_view(file).substr(0, length), "a.zip"), Error);
  }
}

TEST_CASE("zip: no byte of an archive can be changed to crash the reader") {
  const std::string file = zip_of({{.name = "a", .bytes = "some text", .deflated = true},
                                   {.name = "b", .bytes = "more", .wide = true}});
  for (std::size_t place = 0; place < file.size(); ++place) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string changed = file;
      changed[place] = static_cast<char>(changed[place] ^ change);
      try {
        const ZipArchive archive(changed, "a.zip");
        for (const ZipEntry& entry : archive.entries()) {
          std::string unpacked;
          archive.read(entry, 1000, unpacked);
        }
      } catch (const Error& error) {
        CHECK(error.fault() == Fault::kBadInput);
      }
    }
  }
}
