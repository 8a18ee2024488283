#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/model.hpp"

namespace fusecalc::testing {

// Element types, as PyTorch numbers them.
inline constexpr int kLong = 5;
inline constexpr int kFloat = 7;
inline constexpr int kComplex = 10;
inline constexpr int kBool = 12;
inline constexpr int kBf16 = 13;

// Writes the JSON of an exported program, as torch.export.save does.
class ProgramText {
 public:
  using Json = nlohmann::json;
  // A size: a number, or an expression with its value.
  struct Size {
    Size(int value) : json({{"as_int", value}}) {}  // NOLINT: sizes are written as numbers
    Size(const std::string& expression, int hint)
        : json({{"as_expr", {{"expr_str", expression}, {"hint", {{"as_int", hint}}}}}}) {}
    Json json;
  };

  // The type of a tensor; strides are those of a contiguous one if not given.
  ProgramText& tensor(const std::string& name, const std::vector<Size>& sizes,
                      const std::vector<int>& strides = {}, int dtype = kFloat);
  ProgramText& parameter(const std::string& name, const std::string& path,
                         const std::vector<Size>& sizes);
  ProgramText& input(const std::string& name, const std::vector<Size>& sizes);
  // `arguments`: {"self": "x"} names a tensor, {"dim": 1} is a number, and so on.
  ProgramText& node(const std::string& op,
                    const std::vector<std::pair<std::string, Json>>& arguments,
                    const std::vector<std::string>& results, const std::string& modules = "");
  ProgramText& output(const std::string& name);
  // The last value of an input that the program overwrites; before its other outputs.
  ProgramText& mutation(const std::string& name, const std::string& input);
  ProgramText& range(const std::string& symbol, int min, int max);

  Json json() const;
  // The archive.
  std::string file() const;

  Json graph = {{"inputs", Json::array()},
                {"outputs", Json::array()},
                {"nodes", Json::array()},
                {"tensor_values", Json::object()},
                {"sym_int_values", Json::object()}};
  int major = 8;
  int minor = 20;

 private:
  Json inputs_ = Json::array();
  Json outputs_ = Json::array();
  Json ranges_ = Json::object();
};

// A tensor argument: {"as_tensor": {"name": name}}.
nlohmann::json tensor_argument(const std::string& name);

// The archive of a program.
std::string pt2_of(const nlohmann::json& program);

Model read(const ProgramText& program, const std::vector<DimOverride>& dims = {});

}  // namespace fusecalc::testing
