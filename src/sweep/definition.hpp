#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "sweep/axis.hpp"

namespace fusecalc {

// An op list or a model file.
struct SweepDocument {
  std::string path;        // as it was given
  std::string name;        // of its results
  std::uint64_t hash = 0;  // of its content
};

// One of the runs of a sweep.
struct SweepPoint {
  std::size_t document = 0;
  std::size_t device = 0;
  std::vector<DimOverride> dims;
};

// What a sweep runs: the cross product of documents, devices and the values of the axes. Points are
// numbered in this order, the last axis fastest.
struct SweepDefinition {
  // Throws Error if there are more points than a sweep can have.
  void check_size() const;

  std::size_t size() const;
  SweepPoint point(std::size_t index) const;
  std::vector<std::size_t> all_points() const;
  // "softmax T=1024 D=2048 h200", for messages.
  std::string label(std::size_t index) const;
  // The name of its result's file, without extension. It ends in a hash of all that the result
  // depends on: content and name of the document, dims, device, settings, version of fusecalc.
  std::string stem(std::size_t index) const;

  std::vector<SweepDocument> documents;
  std::vector<std::string> devices;  // never empty; "gpu" if it is measured: the one at hand
  std::vector<SweepAxis> axes;
  bool measured = false;
  std::string settings;  // the other options that results depend on
};

inline constexpr char kDeviceAtHand[] = "gpu";

}  // namespace fusecalc
