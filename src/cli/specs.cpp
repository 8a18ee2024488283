#include <string>
#include <utility>
#include <variant>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "core/embedded.hpp"
#include "core/output.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "report/listing.hpp"

namespace fusecalc {

void run(const SpecsOptions& options) {
  Output output = Output::standard();
  if (!options.name.empty()) {
    refuse_format_of_one("specs", options.format);
    output.write(
        embedded_op_list(std::string_view(options.name).substr(options.name.starts_with('@'))));
    output.finish();
    return;
  }
  Listing listing{.schema = "fusecalc.specs/1",
                  .rows_key = "specs",
                  .columns = {"spec", "ops", "dtype", "kinds"},
                  .rows = {}};
  for (const EmbeddedFile& file : embedded_op_lists()) {
    JsonReader reader(ByteSource::from_memory(file.text, "@" + std::string(file.name)));
    const OpList list = read_op_list(reader);
    const auto& graph = std::get<WrittenGraph>(list);
    Words kinds;
    for (const WrittenOp& op : graph.ops) kinds.push_back(op.op);
    listing.rows.push_back({"@" + std::string(file.name), std::uint64_t{graph.ops.size()},
                            graph.dtype.value_or("f32"), std::move(kinds)});
  }
  write_listing(listing, options.format.value_or(default_format()), style_of_standard_output(),
                output);
  output.finish();
}

}  // namespace fusecalc
