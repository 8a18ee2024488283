#include <optional>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "core/output.hpp"
#include "graph/op_table.hpp"
#include "report/listing.hpp"

namespace fusecalc {
namespace {

CountRange range(std::uint32_t least, std::uint32_t most) {
  return {.least = least,
          .most = most == kAnyNumber ? std::nullopt : std::optional<std::uint64_t>(most)};
}

Words attributes_of(const OpRow& row) {
  Words names;
  for (const Attribute attribute : members_of(row.attributes))
    names.emplace_back(name_of(attribute));
  return names;
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
                            attributes_of(row),
                            contract ? Cell(Formula{"2mnk"}) : Cell(std::uint64_t{row.flops}),
                            std::uint64_t{row.passes}, std::string(row.summary)});
  }
  Output output = Output::standard();
  write_listing(listing, options.format.value_or(default_format()), style_of_standard_output(),
                output);
  output.finish();
}

}  // namespace fusecalc
