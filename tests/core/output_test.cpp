#include "core/output.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "support/files.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;
namespace fs = std::filesystem;

namespace {

void write_through(const fs::path& path, std::string_view text) {
  Output output = Output::file(path.string());
  output.write(text);
  output.finish();
}

unsigned mode_of(const fs::path& path) {
  return static_cast<unsigned>(fs::status(path).permissions());
}

}  // namespace

TEST_CASE("a file appears when it is finished, without leftovers") {
  const TempDir folder;
  Output output = Output::file((folder / "out.csv").string());
  output.write("first,");
  output.write("second\n");
  CHECK_FALSE(fs::exists(folder / "out.csv"));
  output.finish();
  CHECK(read_file(folder / "out.csv") == "first,second\n");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("text longer than any buffer is written whole") {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + "\n";
  {
    Output output = Output::file((folder / "long.txt").string());
    for (int i = 0; i < 50000; ++i) output.write(std::to_string(i) + "\n");
    output.finish();
  }
  CHECK(read_file(folder / "long.txt") == text);
}

TEST_CASE("text in memory is given back whole, whatever its length") {
  const std::string longest(200'000, 'x');
  Output output = Output::memory();
  output.write(longest);
  output.write("end");
  CHECK(output.take() == longest + "end");
  CHECK(output.take() == "");
}

TEST_CASE("an unfinished file leaves the old one as it was and no temporary behind") {
  const TempDir folder;
  write_file(folder / "out.json", "old");
  {
    Output output = Output::file((folder / "out.json").string());
    output.write(std::string(1000000, 'x'));
  }
  CHECK(read_file(folder / "out.json") == "old");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("a file that is replaced keeps its permissions") {
  const TempDir folder;
  write_file(folder / "out.json", "old");
  REQUIRE(::chmod((folder / "out.json").c_str(), 0604) == 0);
  write_through(folder / "out.json", "new");
  CHECK(read_file(folder / "out.json") == "new");
  CHECK(mode_of(folder / "out.json") == 0604);
}

TEST_CASE("a file that is not writable is refused, though a rename would replace it") {
  const TempDir folder;
  write_file(folder / "out.json", "old");
  REQUIRE(::chmod((folder / "out.json").c_str(), 0444) == 0);
  const std::string path = (folder / "out.json").string();
  CHECK_THROWS_WITH_AS(Output::file(path), ("cannot write " + path + ": Permission denied").c_str(),
                       Error);
  CHECK(read_file(folder / "out.json") == "old");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("hard links of a file that is written stay links") {
  const TempDir folder;
  write_file(folder / "out.json", "a longer old text");
  fs::create_hard_link(folder / "out.json", folder / "other.json");
  {
    Output unfinished = Output::file((folder / "out.json").string());
    unfinished.write("lost");
  }
  CHECK(read_file(folder / "other.json") == "a longer old text");
  write_through(folder / "out.json", "new");
  CHECK(read_file(folder / "other.json") == "new");
  CHECK(fs::hard_link_count(folder / "out.json") == 2);
  CHECK(names_in(folder.path()).size() == 2);
}

TEST_CASE("a name may be as long as the file system takes") {
  const TempDir folder;
  for (const std::size_t length : {std::size_t{247}, std::size_t{250}, std::size_t{255}}) {
    const std::string name = std::string(length - 5, 'n') + ".json";
    write_through(folder / name, "new");
    write_through(folder / name, "newer");
    CHECK(read_file(folder / name) == "newer");
  }
  const std::string path = (folder / (std::string(251, 'n') + ".json")).string();
  CHECK_THROWS_AS(Output::file(path), Error);
  CHECK(names_in(folder.path()).size() == 3);
}

TEST_CASE("a file that root writes keeps its owner") {
  const TempDir folder;
  write_file(folder / "out.json", "old");
  if (::chown((folder / "out.json").c_str(), 1234, 4321) != 0) {
    MESSAGE("skipped: only root may give files away");
    return;
  }
  REQUIRE(::chmod((folder / "out.json").c_str(), 0640) == 0);
  write_through(folder / "out.json", "new");
  struct stat status {};
  REQUIRE(::stat((folder / "out.json").c_str(), &status) == 0);
  CHECK(status.st_uid == 1234);
  CHECK(status.st_gid == 4321);
  CHECK(mode_of(folder / "out.json") == 0640);
  CHECK(read_file(folder / "out.json") == "new");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("a file of another owner that may be written keeps its owner") {
  const TempDir folder;
  write_file(folder / "out.json", "a longer old text");
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  if (::chown((folder / "out.json").c_str(), 1234, 1234) != 0) {
    MESSAGE("skipped: only root may give files away");
    return;
  }
  REQUIRE(::chmod((folder / "out.json").c_str(), 0666) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(4321) != 0 || ::setuid(4321) != 0) ::_exit(2);
    write_through(folder / "out.json", "new");
    ::_exit(0);
  }
  int code = -1;
  REQUIRE(::waitpid(child, &code, 0) == child);
  CHECK(code == 0);
  struct stat status {};
  REQUIRE(::stat((folder / "out.json").c_str(), &status) == 0);
  CHECK(status.st_uid == 1234);
  CHECK(read_file(folder / "out.json") == "new");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("a new file has the permissions that any new file has") {
  const TempDir folder;
  const mode_t before = ::umask(027);
  write_through(folder / "out.json", "new");
  ::umask(before);
  CHECK(mode_of(folder / "out.json") == 0640);
}

TEST_CASE("a symbolic link stays, and what it points to is written") {
  const TempDir folder;
  fs::create_directory(folder / "kept");
  write_file(folder / "kept/real.json", "old");
  fs::create_symlink("kept/real.json", folder / "link.json");
  write_through(folder / "link.json", "new");
  CHECK(fs::is_symlink(folder / "link.json"));
  CHECK(read_file(folder / "kept/real.json") == "new");
  CHECK(names_in(folder / "kept").size() == 1);
}

TEST_CASE("a link to a missing file creates the file") {
  const TempDir folder;
  fs::create_symlink("link2.json", folder / "link.json");
  fs::create_symlink("real.json", folder / "link2.json");
  write_through(folder / "link.json", "new");
  CHECK(fs::is_symlink(folder / "link.json"));
  CHECK(fs::is_symlink(folder / "link2.json"));
  CHECK(read_file(folder / "real.json") == "new");
}

TEST_CASE("a link to itself is refused and kept") {
  const TempDir folder;
  const std::string loop = (folder / "loop.json").string();
  fs::create_symlink("loop.json", loop);
  const std::string message = "cannot write " + loop + ": Too many levels of symbolic links";
  CHECK_THROWS_WITH_AS(Output::file(loop), message.c_str(), Error);
  CHECK(fs::is_symlink(loop));
}

TEST_CASE("a device file is written to, not replaced") {
  const TempDir folder;
  write_through("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
  fs::create_symlink("/dev/null", folder / "null.json");
  write_through(folder / "null.json", "gone");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(fs::is_symlink(folder / "null.json"));
}

TEST_CASE("a full device is an error") {
  CHECK_THROWS_WITH_AS(write_through("/dev/full", "text"),
                       "cannot write /dev/full: No space left on device", Error);
}

TEST_CASE("a place that cannot be written is an error that names it") {
  const TempDir folder;
  const std::string missing = (folder / "missing/out.json").string();
  const std::string inside_file = (folder / "plain/out.json").string();
  write_file(folder / "plain", "");
  fs::create_directory(folder / "folder.json");
  const std::string directory = (folder / "folder.json").string();
  CHECK_THROWS_WITH_AS(Output::file(missing),
                       ("cannot write " + missing + ": No such file or directory").c_str(), Error);
  CHECK_THROWS_WITH_AS(Output::file(inside_file),
                       ("cannot write " + inside_file + ": Not a directory").c_str(), Error);
  CHECK_THROWS_WITH_AS(Output::file(directory),
                       ("cannot write " + directory + ": Is a directory").c_str(), Error);
}
