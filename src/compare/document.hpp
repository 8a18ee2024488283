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

// Measured figures. One that is missing or null in the document is empty.
struct MeasuredFigures {
  std::optional<std::uint64_t> read;
  std::optional<std::uint64_t> write;
  std::optional<MeasuredTime> time;
  std::string reason;           // why figures are null
  std::uint64_t uncounted = 0;  // launches of a profile whose bytes are not among these
};

using TensorBytes = std::map<std::string, std::uint64_t>;

// Why a kernel is not fused with a later one that shares a tensor with it.
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
  std::optional<std::string> cannot_launch;  // why our runner has no kernel for it
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

// A graph's input as it was declared.
struct InputType {
  std::string dtype;
  std::string shape;  // "[2, 3]"

  auto operator<=>(const InputType&) const = default;
};

// The content of a document of `analyze` or `measure` that `compare` uses.
struct ResultDocument {
  std::string path;  // for messages
  std::string schema;
  std::string name;
  std::string plan;    // the headline's
  std::string source;  // the path of the op list or model; empty where it is not known
  std::optional<std::uint64_t> unfused;
  std::optional<std::uint64_t> fused;
  std::vector<PlanFigures> plans;
  bool says_inputs = false;  // the document records dims, inputs or dtype_bytes
  std::map<std::string, InputType> inputs;
  // What must be equal for a meaningful comparison, by name: "dim T" is "4096".
  std::map<std::string, std::string> conditions;
  // What may differ and is then noted: "driver" is "580.159".
  std::map<std::string, std::string> circumstances;
};

// Reads a whole document: a result, a list of results, as `measure` writes for several op lists, or
// a sweep, of which every point with a result is one, named after its op list, dims and device.
// Unknown keys are skipped, so that keys can be added to the formats. Throws Error if a result is
// of neither kind, broken, or of another version of its schema; `any_version` permits the last.
std::vector<ResultDocument> read_results(JsonReader& reader, bool any_version);

}  // namespace fusecalc
