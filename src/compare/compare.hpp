#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/comparison.hpp"
#include "compare/document.hpp"

namespace fusecalc {

// What became of one figure. Analytic bytes are exact, so every difference counts; a measured
// figure within its tolerance is the same.
Ruling judge_bytes(std::uint64_t before, std::uint64_t after, const Tolerance& tolerance);
// `total` are the bytes of reads and writes together: a change that does not show in them is the
// counters' noise.
Ruling judge_dram(std::uint64_t before, std::uint64_t after, std::uint64_t total,
                  const Tolerance& tolerance);
Ruling judge_time(const MeasuredTime& before, const MeasuredTime& after,
                  const Tolerance& tolerance);

// Why figures of the two documents are not to be set against each other: "dim T is 8192, but 4096
// in base.json". Empty where nothing is in the way.
std::vector<std::string> obstacles(const ResultDocument& before, const ResultDocument& after);

// Adds the findings and notes of two documents that are one spec.
void compare_documents(const ResultDocument& before, const ResultDocument& after,
                       const std::string& spec, Comparison& comparison);

// A spec of which one side has no document.
void note_lone_document(const std::string& spec, Change change, Comparison& comparison);

// "h is now written and read (1.074 GB)": the tensors that make the difference, largest first.
std::string tensors_in_words(const KernelFigures& before, const KernelFigures& after);

}  // namespace fusecalc
