#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fusecalc {

struct ZipEntry {
  std::string_view name;
  std::uint16_t method = 0;
  bool encrypted = false;
  std::uint32_t crc = 0;
  std::uint64_t stored_bytes = 0;  // in the archive
  std::uint64_t bytes = 0;         // unpacked
  std::uint64_t header = 0;        // where its own header begins
};

// A zip archive in memory. Entries are stored or deflated; archives and entries may be larger than
// 4 GiB. Nothing is unpacked before it is asked for, and nothing is written to disk, so that the
// paths in an archive do not matter. Faults are Errors that name the archive.
class ZipArchive {
 public:
  // `file` must outlive the archive; `name` is the file's in messages. Reads the list of entries.
  ZipArchive(std::string_view file, std::string name);

  const std::vector<ZipEntry>& entries() const { return entries_; }

  // The bytes of an entry, whose checksum is right. Refuses an entry of more than `limit` bytes
  // before it is unpacked. They are a part of the file, or of `unpacked` if they are deflated.
  std::string_view read(const ZipEntry& entry, std::uint64_t limit, std::string& unpacked) const;

 private:
  struct Directory {
    std::uint64_t entries = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  [[noreturn]] void fail(std::string_view what) const;
  [[noreturn]] void fail(const ZipEntry& entry, std::string_view what) const;
  // `size` bytes of the file; refuses what lies beyond its end.
  std::string_view part(std::uint64_t offset, std::uint64_t size) const;
  std::uint64_t end_record() const;
  Directory directory() const;
  void read_entries(const Directory& directory);
  void inflate(const ZipEntry& entry, std::string_view stored, std::string& unpacked) const;

  std::string_view file_;
  std::string name_;
  std::vector<ZipEntry> entries_;
};

}  // namespace fusecalc
