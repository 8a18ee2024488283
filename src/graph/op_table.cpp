#include "graph/op_table.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

constexpr std::array<std::string_view, 7> kClassNames = {
    "pointwise", "reduce", "normalise", "movement", "view", "contract", "opaque"};

}  // namespace

std::span<const OpRow> op_table() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (const auto& part : {pointwise_ops(), row_ops(), whole_row_ops(), movement_ops(),
                             index_ops(), contract_ops(), window_ops(), backward_ops()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

const OpRow* op_named(std::string_view name) {
  static const std::unordered_map<std::string_view, const OpRow*> rows = [] {
    std::unordered_map<std::string_view, const OpRow*> by_name;
    for (const OpRow& row : op_table()) by_name.emplace(row.name, &row);
    return by_name;
  }();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : found->second;
}

std::span<const std::string_view> op_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const OpRow& row : op_table()) all.push_back(row.name);
    return all;
  }();
  return names;
}

std::size_t table_input(OpFamily family, DType first, DType second) {
  return family == OpFamily::kEmbedding && !is_float(first) && is_float(second) ? 1 : 0;
}

std::string_view name_of(OpClass op_class) {
  return kClassNames[static_cast<std::size_t>(op_class)];
}

std::span<const std::string_view> op_class_names() { return kClassNames; }

}  // namespace fusecalc
