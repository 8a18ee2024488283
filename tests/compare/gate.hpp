#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "support/files.hpp"
#include "support/invocation.hpp"
#include "support/words.hpp"

namespace fusecalc::testing {

using nlohmann::json;

// add, then relu, each over 1000 elements of 4 bytes: fused 12,000 bytes, unfused 20,000.
inline constexpr const char* kOps = R"({"dtype": "f32", "dims": {"N": 1000},
  "tensors": {"x": {"shape": ["N"]}, "r": {"shape": ["N"]}},
  "ops": [{"name": "sum", "op": "add", "inputs": ["x", "r"], "output": "h"},
          {"name": "act", "op": "relu", "inputs": ["h"], "output": "y"}],
  "outputs": ["y"]})";

// What `fusecalc analyze` says of an op list.
json analysis_of(const json& ops, const Words& options = {});

// What a device said of one kernel of 8 MB: 10 us, of which the middle 80 % took 9.9 to 10.1.
json measurement();
// The same edit on every object of figures of the auto plan.
json measured(const std::function<void(json&)>& edit);
json timed(double median, double p10, double p90);

// Two results in a folder, for `fusecalc compare` to judge.
class Gate {
 public:
  Gate(const json& base, const json& fresh);

  // Exit code and, where it is not refused, the verdict's document.
  int run(Words options = {});
  // The finding of a plan (or of a kernel of it), which must be there.
  json finding(const std::string& plan, const std::string& figure, const std::string& kernel = "");
  std::string verdict(const std::string& plan, const std::string& figure,
                      const std::string& kernel = "");

  std::string out;
  std::string err;
  json document;

 private:
  TempDir folder_;
};

}  // namespace fusecalc::testing
