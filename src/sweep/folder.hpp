#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sweep/definition.hpp"

namespace fusecalc {

enum class PointState { kDone, kFailed, kMissing };

// The folder that a sweep's results are written to, each whole or not at all, by any number of
// processes:
//   definition         the command that defined the sweep, for --collect
//   points/STEM.json   the result of a point
//   failed/STEM.txt    or the line of its error; a result counts more
//   slurm/N            what was submitted
class SweepFolder {
 public:
  SweepFolder(std::filesystem::path path, const SweepDefinition& definition);

  // Creates the folder. Throws Error if that fails.
  void create() const;

  const SweepDefinition& definition() const { return definition_; }
  const std::filesystem::path& path() const { return path_; }
  std::string result_file(std::size_t point) const;
  PointState state(std::size_t point) const;
  // In rising order; the folder is read once.
  std::vector<std::size_t> points_without_result() const;
  // The line of its error; to be called for a point that failed.
  std::string failure(std::size_t point) const;
  void record_failure(std::size_t point, const std::string& line) const;
  // What an earlier run recorded.
  void forget_failure(std::size_t point) const;

 private:
  std::filesystem::path failure_file(std::size_t point) const;

  std::filesystem::path path_;
  const SweepDefinition& definition_;
  bool has_failures_;
};

// The command that defined a sweep, so that another process can run its points or collect them.
struct SweepOrder {
  std::string folder;                  // where relative paths begin
  std::vector<std::string> arguments;  // of fusecalc
  std::vector<SweepDocument> documents;
};

void write_order(const SweepOrder& order, const std::filesystem::path& file);
// Throws Error if there is none, or if another version of fusecalc wrote it.
SweepOrder read_order(const std::filesystem::path& file);

inline constexpr char kDefinitionFile[] = "definition";

}  // namespace fusecalc
