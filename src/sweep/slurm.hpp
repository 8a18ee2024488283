#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fusecalc {

// A job array: one task runs one chunk of points.
struct SlurmJob {
  std::filesystem::path folder;  // absolute; holds script, chunks and logs
  std::vector<std::vector<std::size_t>> chunks;
};

struct SlurmOptions {
  std::string sbatch{};   // options as the user wrote them
  std::size_t chunk = 0;  // points per task; 0: as suits
  bool measured = false;
};

// Writes slurm/N in the folder of the sweep, with N the first number that is free: the script and
// the points of each task.
SlurmJob write_job(const std::filesystem::path& sweep, std::span<const std::size_t> points,
                   const SlurmOptions& options);

// Whether a folder is that of a job.
bool is_job(const std::filesystem::path& folder);

// The points of one task, from the folder of its job. Throws Error if there is no such task.
std::vector<std::size_t> points_of_task(const std::filesystem::path& job, const std::string& task);

// Gives the script to sbatch; returns the number of the job. Throws Error (unavailable) where there
// is no sbatch, and with its words where it refuses.
std::string submit(const SlurmJob& job);

}  // namespace fusecalc
