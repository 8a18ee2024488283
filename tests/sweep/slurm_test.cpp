#include "sweep/slurm.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/files.hpp"

namespace fusecalc {
namespace {

using Points = std::vector<std::size_t>;

TEST_CASE("a job: a script with the user's options, and the points of each task") {
  const testing::TempDir folder;
  const Points points = {0, 1, 2, 5, 7, 8};
  const SlurmJob job = write_job(folder.path(), points,
                                 {.sbatch = "--time=9 -p long", .chunk = 4, .measured = true});
  CHECK(job.folder == folder / "slurm/1");
  CHECK(job.chunks == std::vector<Points>{{0, 1, 2, 5}, {7, 8}});
  CHECK(testing::read_file(job.folder / "chunks") == "0-2,5\n7-8\n");
  CHECK(is_job(job.folder));
  CHECK(!is_job(folder.path()));
  CHECK(points_of_task(job.folder, "0") == Points{0, 1, 2, 5});
  CHECK(points_of_task(job.folder, "1") == Points{7, 8});
  for (const std::string task : {"2", "", "x", "-1"}) {
    CHECK_THROWS_WITH_AS(points_of_task(job.folder, task), doctest::Contains("has no task"), Error);
  }
  const std::string script = testing::read_file(job.folder / "script.sh");
  const std::string path = job.folder.string();
  CHECK(script.starts_with(
      "#!/bin/sh\n#SBATCH --job-name=fusecalc-sweep\n#SBATCH --gpus=1\n"
      "#SBATCH --output=\"" +
      path + "/%a.log\"\n#SBATCH --time=9 -p long\n#SBATCH --array=0-1\nexec '"));
  CHECK(script.ends_with("' sweep --dir '" + path + "'\n"));
}

TEST_CASE("a job never overwrites another") {
  const testing::TempDir folder;
  const Points points = {3};
  CHECK(write_job(folder.path(), points, {}).folder == folder / "slurm/1");
  CHECK(write_job(folder.path(), points, {}).folder == folder / "slurm/2");
}

TEST_CASE(
    "an array has at most 1000 tasks unless a chunk is given; analyses come a hundred a task") {
  const testing::TempDir folder;
  const auto tasks = [&](std::size_t points, const SlurmOptions& options) {
    return write_job(folder.path(), Points(points, 0), options).chunks.size();
  };
  CHECK(tasks(250, {}) == 3);
  CHECK(tasks(250, {.measured = true}) == 250);
  CHECK(tasks(2001, {.measured = true}) == 667);  // three points each
  CHECK(tasks(100'000, {}) == 1000);
  CHECK(tasks(10, {.chunk = 1}) == 10);
}

TEST_CASE("an analysis asks for no GPU, and paths survive the shell and sbatch") {
  const testing::TempDir folder;
  const auto hostile = folder / "it's 100% \"odd\" \\ here";
  std::filesystem::create_directory(hostile);
  const SlurmJob job = write_job(hostile, Points{0}, {});
  const std::string script = testing::read_file(job.folder / "script.sh");
  CHECK(script.find("--gpus") == std::string::npos);
  CHECK(script.find("it'\\''s 100% \"odd\" \\ here/slurm/1'\n") != std::string::npos);
  CHECK(script.find("it's 100%% \\\"odd\\\" \\\\ here/slurm/1/%a.log\"\n") != std::string::npos);
}

}  // namespace
}  // namespace fusecalc
