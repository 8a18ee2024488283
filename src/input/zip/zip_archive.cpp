#include "input/zip/zip_archive.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

// Records begin with a signature; their sizes are without what varies in length.
constexpr std::uint32_t kEntryHeader = 0x04034b50;
constexpr std::uint64_t kEntryHeaderBytes = 30;
constexpr std::uint32_t kListedEntry = 0x02014b50;
constexpr std::uint64_t kListedEntryBytes = 46;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint32_t kEnd64Locator = 0x07064b50;
constexpr std::uint64_t kEnd64LocatorBytes = 20;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint64_t kEnd64Bytes = 56;

constexpr std::uint64_t kLongestComment = 0xffff;
// In a 32-bit field: the value is in the entry's 64-bit fields.
constexpr std::uint32_t kSeeWide = 0xffffffff;
constexpr std::uint16_t kWideFields = 1;

constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = (value << 8U) | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

// The numbers of a record, one after the other. The caller has checked its size.
class Fields {
 public:
  explicit Fields(std::string_view record) : rest_(record) {}

  std::uint16_t u16() { return static_cast<std::uint16_t>(take(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(take(4)); }
  std::uint64_t u64() { return take(8); }
  void skip(std::size_t bytes) { rest_.remove_prefix(bytes); }
  std::size_t left() const { return rest_.size(); }
  std::string_view bytes(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::uint64_t take(std::size_t size) { return little_endian(bytes(size)); }

  std::string_view rest_;
};

// Fills in the numbers that did not fit into 32 bits. False if they are not there.
bool read_wide_fields(std::string_view extra, ZipEntry& entry) {
  const bool wide_bytes = entry.bytes == kSeeWide;
  const bool wide_stored = entry.stored_bytes == kSeeWide;
  const bool wide_header = entry.header == kSeeWide;
  if (!wide_bytes && !wide_stored && !wide_header) return true;
  Fields fields(extra);
  while (fields.left() >= 4) {
    const std::uint16_t id = fields.u16();
    const std::uint16_t size = fields.u16();
    Fields values(fields.bytes(size));
    if (id != kWideFields) continue;
    for (const auto& [wide, value] :
         {std::pair(wide_bytes, &entry.bytes), std::pair(wide_stored, &entry.stored_bytes),
          std::pair(wide_header, &entry.header)}) {
      if (!wide) continue;
      if (values.left() < 8) return false;
      *value = values.u64();
    }
    return true;
  }
  return false;
}

}  // namespace

ZipArchive::ZipArchive(std::string_view file, std::string name)
    : file_(file), name_(std::move(name)) {
  read_entries(directory());
}

void ZipArchive::fail(std::string_view what) const {
  throw Error(Fault::kBadInput, fmt::format("{}: {}", name_, what));
}

void ZipArchive::fail(const ZipEntry& entry, std::string_view what) const {
  fail(fmt::format("{}: {}", printable(entry.name), what));
}

std::string_view ZipArchive::part(std::uint64_t offset, std::uint64_t size) const {
  if (offset > file_.size() || size > file_.size() - offset) {
    fail("the archive is truncated or damaged");
  }
  return file_.substr(offset, size);
}

// The archive ends with this record and a comment.
std::uint64_t ZipArchive::end_record() const {
  if (file_.size() >= kEndBytes) {
    const std::uint64_t last = file_.size() - kEndBytes;
    const std::uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
    for (std::uint64_t offset = last + 1; offset > first;) {
      --offset;
      if (little_endian(file_.substr(offset, 4)) != kEnd) continue;
      if (little_endian(file_.substr(offset + 20, 2)) == last - offset) return offset;
    }
  }
  fail("the archive is truncated: its list of entries is missing");
}

ZipArchive::Directory ZipArchive::directory() const {
  const std::uint64_t end = end_record();
  Fields fields(part(end, kEndBytes));
  fields.skip(10);
  Directory narrow;
  narrow.entries = fields.u16();
  narrow.bytes = fields.u32();
  narrow.offset = fields.u32();
  if (end < kEnd64LocatorBytes) return narrow;
  Fields locator(part(end - kEnd64LocatorBytes, kEnd64LocatorBytes));
  if (locator.u32() != kEnd64Locator) return narrow;
  locator.skip(4);
  Fields wide(part(locator.u64(), kEnd64Bytes));
  if (wide.u32() != kEnd64) fail("the archive is damaged: its 64-bit end record is missing");
  wide.skip(28);
  Directory directory;
  directory.entries = wide.u64();
  directory.bytes = wide.u64();
  directory.offset = wide.u64();
  return directory;
}

void ZipArchive::read_entries(const Directory& directory) {
  Fields list(part(directory.offset, directory.bytes));
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (list.left() < kListedEntryBytes)
      fail("the archive is damaged: its list of entries ends early");
    ZipEntry entry;
    if (list.u32() != kListedEntry) fail("the archive is damaged: its list of entries is not one");
    list.skip(4);
    entry.encrypted = (list.u16() & 1U) != 0;
    entry.method = list.u16();
    list.skip(4);
    entry.crc = list.u32();
    entry.stored_bytes = list.u32();
    entry.bytes = list.u32();
    const std::uint16_t name_bytes = list.u16();
    const std::uint16_t extra_bytes = list.u16();
    const std::uint16_t comment_bytes = list.u16();
    list.skip(8);
    entry.header = list.u32();
    if (list.left() < std::size_t{name_bytes} + extra_bytes + comment_bytes) {
      fail("the archive is damaged: its list of entries ends early");
    }
    entry.name = list.bytes(name_bytes);
    if (!read_wide_fields(list.bytes(extra_bytes), entry)) {
      fail(entry, "the archive is damaged: a 64-bit size is missing");
    }
    list.skip(comment_bytes);
    entries_.push_back(entry);
  }
}

std::string_view ZipArchive::read(const ZipEntry& entry, std::uint64_t limit,
                                  std::string& unpacked) const {
  if (entry.encrypted) fail(entry, "is encrypted");
  if (entry.bytes > limit) {
    fail(entry, fmt::format("has {} bytes, more than the {} that are read", entry.bytes, limit));
  }
  Fields header(part(entry.header, kEntryHeaderBytes));
  if (header.u32() != kEntryHeader) fail(entry, "the archive is damaged: the entry has no header");
  header.skip(22);
  const std::uint64_t names = std::uint64_t{header.u16()} + header.u16();
  const std::string_view stored =
      part(entry.header + kEntryHeaderBytes + names, entry.stored_bytes);
  std::string_view bytes = stored;
  if (entry.method == kDeflated) {
    inflate(entry, stored, unpacked);
    bytes = unpacked;
  } else if (entry.method != kStored) {
    fail(entry, fmt::format("is compressed by method {}; only deflate is read", entry.method));
  }
  if (bytes.size() != entry.bytes) fail(entry, "the archive is damaged: the entry's size is wrong");
  const auto crc = ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  if (crc != entry.crc) fail(entry, "the archive is damaged: the entry's checksum is wrong");
  return bytes;
}

void ZipArchive::inflate(const ZipEntry& entry, std::string_view stored,
                         std::string& unpacked) const {
  // Deflate packs 1032 bytes into one at most: a size beyond that is wrong, and not allocated.
  constexpr std::uint64_t kBestRatio = 1032;
  if (entry.bytes / kBestRatio > stored.size()) {
    fail(entry, "the archive is damaged: the entry's size is wrong");
  }
  unpacked.resize(entry.bytes);
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  constexpr std::size_t kMost = std::size_t{1} << 30U;  // zlib counts in 32 bits
  std::size_t used = 0;
  std::size_t made = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t in = std::min(stored.size() - used, kMost);
    const std::size_t out = std::min(unpacked.size() - made, kMost);
    // zlib does not write to its input; the cast is its interface's.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data())) + used;
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data()) + made;
    stream.avail_out = static_cast<uInt>(out);
    status = ::inflate(&stream, Z_NO_FLUSH);
    used += in - stream.avail_in;
    made += out - stream.avail_out;
  }
  ::inflateEnd(&stream);
  if (status != Z_STREAM_END || made != unpacked.size()) {
    fail(entry, "the archive is damaged: the entry cannot be unpacked");
  }
}

}  // namespace fusecalc
