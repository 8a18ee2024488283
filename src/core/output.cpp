#include "core/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

// The target of a symbolic link, even if it does not exist: a rename would replace the link.
std::string resolve_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the limit of the Linux kernel
  std::filesystem::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(target, error); ++i) {
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  }
  return target.string();
}

mode_t creation_mask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

}  // namespace

Output Output::standard() { return {STDOUT_FILENO, "standard output"}; }

Output Output::file(const std::string& path) {
  Output output(-1, printable(path));
  output.target_ = path;
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) output.fail();
  if (exists && !S_ISREG(status.st_mode)) {
    // A device or a pipe is written directly: it must not be replaced by a file.
    output.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    output.target_ = resolve_links(path);
    output.temporary_ = output.target_ + ".XXXXXX";
    output.descriptor_ = ::mkostemp(output.temporary_.data(), O_CLOEXEC);
    if (output.descriptor_ < 0) output.temporary_.clear();
  }
  if (output.descriptor_ < 0) output.fail();
  if (!output.temporary_.empty()) {
    const mode_t mode = exists ? status.st_mode & 07777U : 0666U & ~creation_mask();
    if (::fchmod(output.descriptor_, mode) != 0) output.fail();
  }
  return output;
}

Output::Output(Output&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      buffer_(std::move(other.buffer_)),
      reader_gone_(other.reader_gone_) {}

Output::~Output() {
  if (descriptor_ > STDOUT_FILENO) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && !reader_gone_) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EPIPE && target_.empty()) {
      reader_gone_ = true;
    } else if (errno != EINTR) {
      fail();
    }
  }
  buffer_.clear();
}

void Output::finish() {
  flush();
  if (target_.empty()) return;
  // Some file systems report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
}

void Output::fail() const {
  throw Error(Fault::kBadInput, "cannot write " + name_ + ": " + std::strerror(errno));
}

}  // namespace fusecalc
