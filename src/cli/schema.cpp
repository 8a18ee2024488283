#include <algorithm>
#include <cassert>

#include "cli/commands.hpp"
#include "core/embedded.hpp"
#include "core/output.hpp"

namespace fusecalc {

void run(const SchemaOptions& options) {
  const auto schemas = embedded_schemas();
  const auto schema = std::ranges::find(schemas, options.document, &EmbeddedFile::name);
  assert(schema != schemas.end());
  Output output = Output::standard();
  output.write(schema->text);
  output.finish();
}

}  // namespace fusecalc
