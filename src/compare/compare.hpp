#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/comparison.hpp"
#include "compare/document.hpp"

namespace fusecalc {

// The verdict on one figure. Analytic bytes are exact, so every difference counts; a measured
// figure within its tolerance is the same.
Judgement judge_bytes(std::uint64_t before, std::uint64_t after, const Tolerance& tolerance);
// `total` is the sum of bytes read and written: a change that is small compared with it is counter
// noise.
Judgement judge_dram(std::uint64_t before, std::uint64_t after, std::uint64_t total,
                     const Tolerance& tolerance);
Judgement judge_time(const MeasuredTime& before, const MeasuredTime& after,
                     const Tolerance& tolerance);

// Why the two documents cannot be compared: "dim T is 8192, but 4096 in base.json". Empty if they
// can be.
std::vector<std::string> mismatches(const ResultDocument& before, const ResultDocument& after);

// Adds the findings and notes of two documents for the same spec.
void compare_documents(const ResultDocument& before, const ResultDocument& after,
                       const std::string& spec, Comparison& comparison);

// Adds the finding for a spec whose documents cannot be compared, which fails: `why` tells what
// differs.
void note_incomparable_documents(const std::string& spec, const std::string& why,
                                 Comparison& comparison);

// Adds the finding for a spec that has a document on one side only.
void note_unpaired_document(const std::string& spec, Change change, Comparison& comparison);

// "h is now written and read (1.074 GB)": the tensors that account for the difference, largest
// first.
std::string tensors_in_words(const KernelFigures& before, const KernelFigures& after);

}  // namespace fusecalc
