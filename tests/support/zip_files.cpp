#include "support/zip_files.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

namespace fusecalc::testing {
namespace {

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xffU);
  return text;
}

std::string deflate_raw(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

std::string zip_of(const std::vector<ZippedFile>& files, const std::string& comment) {
  std::string archive;
  std::string list;
  for (const ZippedFile& file : files) {
    const std::string stored = file.deflated ? deflate_raw(file.bytes) : file.bytes;
    const std::uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(file.bytes.data()),
                                    static_cast<uInt>(file.bytes.size())) +
                              file.crc_error;
    const std::uint64_t size = file.stated_bytes == 0 ? file.bytes.size() : file.stated_bytes;
    const std::uint64_t narrow_size = file.wide ? 0xffffffff : size;
    const std::uint64_t narrow_stored = file.wide ? 0xffffffff : stored.size();
    const std::string extra = file.wide
                                  ? little_endian(1, 2) + little_endian(16, 2) +
                                        little_endian(size, 8) + little_endian(stored.size(), 8)
                                  : "";
    const std::string common = little_endian(20, 2) + little_endian(file.flags, 2) +
                               little_endian(file.deflated ? 8 : 0, 2) + little_endian(0, 4) +
                               little_endian(crc, 4) + little_endian(narrow_stored, 4) +
                               little_endian(narrow_size, 4) + little_endian(file.name.size(), 2) +
                               little_endian(extra.size(), 2);
    list += "PK\x01\x02" + little_endian(20, 2) + common + little_endian(comment.size(), 2) +
            little_endian(0, 8) + little_endian(archive.size(), 4) + file.name + extra + comment;
    archive += "PK\x03\x04" + common + file.name + extra + stored;
  }
  const std::size_t offset = archive.size();
  archive += list + "PK\x05\x06" + little_endian(0, 4) + little_endian(files.size(), 2) +
             little_endian(files.size(), 2) + little_endian(list.size(), 4) +
             little_endian(offset, 4) + little_endian(comment.size(), 2) + comment;
  return archive;
}

}  // namespace fusecalc::testing
