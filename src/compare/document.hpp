#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.hpp"
#include "json/reader.hpp"

namespace fusecalc {

// In picoseconds: the documents give microseconds with six decimals.
struct MeasuredTime {
  std::uint64_t median = 0;
  std::uint64_t p10 = 0;
  std::uint64_t p90 = 0;
};

// What a device said. A figure that was not read, or is null, is empty.
struct MeasuredFigures {
  std::optional<std::uint64_t> read;
  std::optional<std::uint64_t> write;
  std::optional<MeasuredTime> time;
  std::string reason;  // why figures are null
};

using TensorBytes = std::map<std::string, std::uint64_t>;

// Why a kernel and a later one that shares a tensor with it are two.
struct BoundaryReason {
  std::string with;  // the other's name
  std::string tensor;
  std::string reason;
};

struct KernelFigures {
  std::string name;
  std::vector<std::string> ops;  // never empty: a kernel that lists none is its own op
  std::optional<std::uint64_t> bytes;
  bool lists_tensors = false;
  TensorBytes reads;
  TensorBytes writes;
  std::vector<BoundaryReason> boundaries;
  MeasuredFigures measured;
};

struct PlanFigures {
  std::string name;
  std::optional<std::uint64_t> bytes;
  std::vector<KernelFigures> kernels;
  MeasuredFigures isolated;
  MeasuredFigures pipeline;
  std::optional<bool> verified;
};

// What `compare` needs of a document that `analyze` or `measure` wrote.
struct ResultDocument {
  std::string path;  // for messages
  std::string schema;
  std::string name;
  std::string plan;  // the headline's
  std::optional<std::uint64_t> unfused;
  std::optional<std::uint64_t> fused;
  std::vector<PlanFigures> plans;
  bool says_inputs = false;  // its dims and dtypes are among the conditions
  // What must agree for a comparison to mean anything, by its name: "dim T" is "4096".
  std::map<std::string, std::string> conditions;
  // What may differ, and is said: "driver" is "580.159".
  std::map<std::string, std::string> circumstances;
};

// Reads a document to its end: a result, or a list of them, as `measure` writes for several op
// lists. What it does not know it passes over, so that keys can be added to the formats. Throws
// Error where a result is of neither kind, broken, or of another version of its schema; the last is
// let pass with `any_version`.
std::vector<ResultDocument> read_results(JsonReader& reader, bool any_version);

}  // namespace fusecalc
