// Products of rows in groups, each of which has a matrix of its own.

#include <fmt/format.h>

#include <string>

#include "codegen/contraction_writer.hpp"

namespace fusecalc {

void ContractionWriter::request_ends() {
  if (product_.groups == 0) return;
  ends_ = element_function(code_, "operator()(int group)", op_.operands[2].tensor, "group",
                           ComputeType::kI64);
}

std::string ContractionWriter::groups_type(std::string_view before) const {
  if (product_.groups == 0) return "";
  return fmt::format("{}, RowGroups<Ends, {}>", before, product_.groups);
}

std::string ContractionWriter::groups_text() const {
  if (product_.groups == 0) return "";
  return blocks({"row_groups"}) + "struct Ends {\n" + code_.parameters().members() + ends_ + "};\n";
}

std::string ContractionWriter::made_groups() const {
  if (product_.groups == 0) return "";
  return fmt::format(", {{Ends{{{}}}}}", code_.parameters().arguments());
}

std::uint64_t ContractionWriter::groups_bytes() const {
  return product_.groups == 0 ? 0 : 2 * sizeof(std::int32_t) * (product_.groups + 2);
}

}  // namespace fusecalc
