#include "json/source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 17U;

[[noreturn]] void fail_with_errno(const std::string& name) {
  const std::string reason = errno == EISDIR ? "is a directory; give a file" : std::strerror(errno);
  throw Error(Fault::kBadInput, name + ": " + reason);
}

}  // namespace

ByteSource ByteSource::open(const std::string& path) {
  if (path == "-") return {"<stdin>", STDIN_FILENO, {}, kChunkBytes};
  std::string name = path.empty() ? "\"\"" : printable(path);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(name);
  return {std::move(name), descriptor, {}, kChunkBytes};
}

ByteSource ByteSource::from_memory(std::string_view text, std::string name,
                                   std::size_t chunk_bytes) {
  return {std::move(name), -1, text, chunk_bytes};
}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      text_(other.text_),
      chunk_bytes_(other.chunk_bytes_),
      buffer_(std::move(other.buffer_)),
      peeked_(other.peeked_),
      mapped_(std::exchange(other.mapped_, {})) {}

ByteSource::~ByteSource() {
  close();
  // munmap takes what mmap returned, which nobody writes through.
  if (!mapped_.empty()) ::munmap(const_cast<char*>(mapped_.data()), mapped_.size());
}

void ByteSource::close() {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  descriptor_ = -1;
}

std::string_view ByteSource::peek() {
  const std::string_view chunk = next();
  peeked_ = true;
  buffer_.resize(chunk.size());
  return {buffer_.data(), buffer_.size()};
}

// Whether the descriptor is a file that could be mapped.
bool ByteSource::map() {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    return false;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return false;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (memory == MAP_FAILED) return false;
  mapped_ = {static_cast<const char*>(memory), size};
  return true;
}

std::string_view ByteSource::whole(std::size_t limit) {
  if (map()) return mapped_;
  std::vector<char> bytes;
  for (std::string_view chunk = next(); !chunk.empty(); chunk = next()) {
    if (chunk.size() > limit - bytes.size()) {
      throw Error(Fault::kBadInput,
                  fmt::format("{}: is longer than {} bytes; give it as a file", name_, limit));
    }
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  buffer_ = std::move(bytes);
  return {buffer_.data(), buffer_.size()};
}

std::string_view ByteSource::next() {
  if (peeked_) {
    peeked_ = false;
    return {buffer_.data(), buffer_.size()};
  }
  if (descriptor_ < 0) {
    // Copied into new memory, so that a sanitizer detects uses of the previous chunk.
    const std::string_view chunk = text_.substr(0, chunk_bytes_);
    text_.remove_prefix(chunk.size());
    buffer_ = std::vector<char>(chunk.begin(), chunk.end());
    return {buffer_.data(), buffer_.size()};
  }
  buffer_.resize(chunk_bytes_);
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer_.data(), buffer_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail_with_errno(name_);
  if (count == 0) close();  // a terminal could deliver more after its first end of file
  return {buffer_.data(), static_cast<std::size_t>(count)};
}

}  // namespace fusecalc
