#include "core/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

std::string own_descriptors() { return fmt::format("/proc/{}/fd/", ::getpid()); }

// The target of a symbolic link, even if it does not exist: a rename would replace the link. A
// descriptor of this process, to which /dev/stdout is a link, stays one: "/proc/12/fd/1".
std::string resolve_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the limit of the Linux kernel
  std::filesystem::path target = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(target, error); ++i) {
    const std::filesystem::path folder =
        std::filesystem::canonical(target.parent_path(), error) / "";
    if (!error && folder == own_descriptors()) return folder / target.filename();
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  }
  return target.string();
}

// The number of an open descriptor of this process that the resolved path names.
std::optional<int> descriptor_at(const std::string& resolved) {
  const std::string folder = own_descriptors();
  if (!resolved.starts_with(folder)) return std::nullopt;
  int number = 0;
  const char* const end = resolved.data() + resolved.size();
  const auto parsed = std::from_chars(resolved.data() + folder.size(), end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(number) : std::nullopt;
}

mode_t creation_mask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

// A file that nobody may write is refused to root, too: its owner has said so.
bool is_writable(const std::string& path, const struct stat& status) {
  constexpr mode_t kAnyWriter = S_IWUSR | S_IWGRP | S_IWOTH;
  if ((status.st_mode & kAnyWriter) == 0) {
    errno = EACCES;
    return false;
  }
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

// The owner and the permissions of the file that is replaced; false where this user may not give a
// file to that owner.
bool take_identity(int descriptor, const struct stat& replaced) {
  struct stat own {};
  if (::fstat(descriptor, &own) != 0) return false;
  const bool same = own.st_uid == replaced.st_uid && own.st_gid == replaced.st_gid;
  if (!same && ::fchown(descriptor, replaced.st_uid, replaced.st_gid) != 0) return false;
  return ::fchmod(descriptor, replaced.st_mode & 07777U) == 0;
}

// On Linux a descriptor is closed even if a signal interrupts the call.
bool close_whole(int descriptor) { return ::close(descriptor) == 0 || errno == EINTR; }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

}  // namespace

Output Output::standard() { return {STDOUT_FILENO, "standard output"}; }

Output Output::memory() { return {-1, "memory"}; }

Output Output::file(const std::string& path) {
  Output output(-1, printable(path));
  output.target_ = resolve_links(path);
  if (const std::optional<int> stream = descriptor_at(output.target_)) {
    // Its text goes on where the stream is, also in a file that it was redirected to.
    output.descriptor_ = ::fcntl(*stream, F_DUPFD_CLOEXEC, 0);
    if (output.descriptor_ < 0) output.fail();
    return output;
  }
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) output.fail();
  if (exists && !S_ISREG(status.st_mode)) {
    // A device or a pipe is written directly: it must not be replaced by a file.
    output.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (output.descriptor_ < 0) output.fail();
    return output;
  }
  if (exists && !is_writable(path, status)) output.fail();
  if (exists && status.st_nlink > 1) {
    output.open_in_memory();
    return output;
  }
  output.open_beside();
  const bool closed_folder = errno == EACCES || errno == EPERM || errno == EROFS;
  if (output.descriptor_ < 0 && exists && closed_folder) {
    output.open_in_memory();
    return output;
  }
  if (output.descriptor_ < 0) output.fail();
  if (!exists) {
    if (::fchmod(output.descriptor_, 0666U & ~creation_mask()) != 0) output.fail();
  } else if (!take_identity(output.descriptor_, status)) {
    output.discard_temporary();
    output.open_in_memory();
  }
  return output;
}

// The name is known before the file exists, so that no signal finds a file without its name. It
// does not contain the target's, which may be as long as a name can be.
void Output::open_beside() {
  constexpr int kAttempts = 100;
  std::random_device random;
  const std::filesystem::path folder = std::filesystem::path(target_).parent_path();
  for (int i = 0; i < kAttempts; ++i) {
    const std::string name = folder / fmt::format(".fusecalc-{:08x}{:08x}", random(), random());
    auto removal = std::make_unique<RemoveOnSignal>(name);
    descriptor_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor_ >= 0) {
      temporary_ = name;
      removal_ = std::move(removal);
      finish_ = Finish::kRename;
      return;
    }
    if (errno != EEXIST) return;
  }
}

void Output::discard_temporary() {
  ::close(std::exchange(descriptor_, -1));
  ::unlink(std::exchange(temporary_, {}).c_str());
  removal_.reset();
}

void Output::open_in_memory() {
  descriptor_ = ::memfd_create("fusecalc", MFD_CLOEXEC);
  if (descriptor_ < 0) fail();
  finish_ = Finish::kCopy;
}

Output::Output(Output&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      target_(std::move(other.target_)),
      finish_(other.finish_),
      temporary_(std::exchange(other.temporary_, {})),
      removal_(std::move(other.removal_)),
      buffer_(std::move(other.buffer_)),
      reader_gone_(other.reader_gone_) {}

Output::~Output() {
  if (descriptor_ > STDOUT_FILENO) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void Output::flush() {
  if (descriptor_ < 0) return;  // memory
  if (!reader_gone_) write_all(descriptor_, buffer_);
  buffer_.clear();
}

void Output::write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EPIPE && target_.empty()) {
      reader_gone_ = true;
      return;
    } else if (errno != EINTR) {
      fail();
    }
  }
}

void Output::finish() {
  flush();
  if (finish_ == Finish::kRename) {
    // Some file systems report a full disk only when a descriptor is closed.
    if (const int copy = ::dup(descriptor_); copy < 0 || !close_whole(copy)) fail();
    if (::rename(temporary_.c_str(), target_.c_str()) == 0) {
      temporary_.clear();
    } else if (errno == EBUSY || errno == EXDEV) {
      finish_ = Finish::kCopy;  // the target is a mount point
    } else {
      fail();
    }
  }
  if (finish_ == Finish::kCopy) copy_over_target();
  if (target_.empty()) return;
  if (!close_whole(std::exchange(descriptor_, -1))) fail();
}

// Signals wait, and the space is reserved before the first byte is replaced, so that the target is
// the old text or the new one.
void Output::copy_over_target() {
  const DelaySignals delay;
  const Descriptor target(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat status {};
  if (target.get() < 0 || ::fstat(descriptor_, &status) != 0) fail();
  const bool reserved =
      status.st_size == 0 || ::fallocate(target.get(), FALLOC_FL_KEEP_SIZE, 0, status.st_size) == 0;
  if (!reserved && errno != EOPNOTSUPP) fail();
  if (::lseek(descriptor_, 0, SEEK_SET) != 0) fail();
  std::string block(kBufferBytes, '\0');
  for (;;) {
    const ssize_t count = ::read(descriptor_, block.data(), block.size());
    if (count < 0 && errno != EINTR) fail();
    if (count == 0) break;
    if (count > 0) write_all(target.get(), {block.data(), static_cast<std::size_t>(count)});
  }
  if (::ftruncate(target.get(), status.st_size) != 0) fail();
}

void Output::fail() const {
  throw Error(Fault::kBadInput, "cannot write " + name_ + ": " + std::strerror(errno));
}

}  // namespace fusecalc
