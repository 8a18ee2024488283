#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/output.hpp"
#include "graph/op_table.hpp"
#include "report/listing.hpp"

namespace fusecalc {
namespace {

std::string range(std::size_t least, std::size_t most) {
  constexpr std::size_t kMany = 255;
  if (least == most) return std::to_string(least);
  return most == kMany ? fmt::format("{}+", least) : fmt::format("{}-{}", least, most);
}

std::string attributes_of(const OpRow& row) {
  std::string text;
  for (const Attribute attribute : members_of(row.attributes)) {
    text += (text.empty() ? "" : " ") + std::string(name_of(attribute));
  }
  return text;
}

}  // namespace

void run(const OpsOptions& options) {
  Listing listing{
      .schema = "fusecalc.ops-table/1",
      .rows_key = "ops",
      .columns = {"op", "class", "inputs", "outputs", "attributes", "flops", "passes", "does"},
      .rows = {}};
  for (const OpRow& row : op_table()) {
    const bool contract = row.op_class == OpClass::kContract;
    listing.rows.push_back({std::string(row.name), std::string(name_of(row.op_class)),
                            range(row.min_inputs, row.max_inputs), range(1, row.max_outputs),
                            attributes_of(row), contract ? "2mnk" : std::to_string(row.flops),
                            std::to_string(row.passes), std::string(row.summary)});
  }
  Output output = Output::standard();
  write_listing(listing, options.format, output);
  output.finish();
}

}  // namespace fusecalc
