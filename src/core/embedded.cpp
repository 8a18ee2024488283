#include "core/embedded.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"

namespace fusecalc {

namespace {

std::string_view text_of(std::span<const EmbeddedFile> files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  assert(found != files.end());
  return found->text;
}

}  // namespace

std::string_view embedded_kernel(std::string_view name) {
  return text_of(embedded_kernels(), name);
}

std::string_view embedded_page(std::string_view name) { return text_of(embedded_pages(), name); }

std::string_view embedded_op_list(std::string_view name) {
  const std::span<const EmbeddedFile> files = embedded_op_lists();
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  if (found != files.end()) return found->text;
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : files) names.push_back(file.name);
  throw Error(Fault::kBadInput, "unknown spec " + in_quotes(name) + did_you_mean(name, names) +
                                    "; run fusecalc specs for a list");
}

}  // namespace fusecalc
