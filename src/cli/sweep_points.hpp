#pragma once

#include <vector>

#include "cli/command_line.hpp"
#include "input/document.hpp"
#include "sweep/folder.hpp"
#include "sweep/workers.hpp"

namespace fusecalc {

// The documents of a sweep as they are now.
struct SweepInputs {
  std::vector<SweepDocument> documents;
  std::vector<Document> read;  // a model depends on dims and is read again for each point
};

// Throws Error if one cannot be read.
SweepInputs read_inputs(const SweepCommand& command);

// What a command asks for. Throws Error if it does not fit together.
SweepDefinition define_sweep(const SweepCommand& command, std::vector<SweepDocument> documents);

// Runs points in `jobs` processes, with progress on standard error. Throws Error after a Ctrl-C.
SweepProgress run_sweep_points(const SweepCommand& command, const SweepFolder& folder,
                               const SweepInputs& inputs, const std::vector<std::size_t>& points,
                               unsigned jobs);

}  // namespace fusecalc
