#include "input/pt2/pt2.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "input/pt2/exported_program.hpp"
#include "input/pt2/importer.hpp"
#include "input/zip/zip_archive.hpp"

namespace fusecalc {
namespace {

// Below the archive's own folder: today's place, and that of PyTorch up to 2.6.
bool is_program(std::string_view path) {
  const std::string_view inside = path.substr(path.find('/') + 1);
  return (inside.starts_with("models/") && inside.ends_with(".json")) ||
         path.ends_with("serialized_exported_program.json");
}

const ZipEntry& program_in(const ZipArchive& archive, const std::string& name) {
  const auto& entries = archive.entries();
  const auto found = std::ranges::find_if(entries, is_program, &ZipEntry::name);
  if (found == entries.end()) {
    throw Error(Fault::kBadInput,
                name + ": the archive holds no exported program; torch.export.save writes one");
  }
  const auto second = std::find_if(found + 1, entries.end(),
                                   [](const ZipEntry& entry) { return is_program(entry.name); });
  if (second != entries.end()) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: the archive holds several programs, {} and {}; save one of them",
                            name, printable(found->name), printable(second->name)));
  }
  return *found;
}

}  // namespace

Model read_pt2(std::string_view file, const std::string& name,
               const std::vector<DimOverride>& dims) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 28U;
  const ZipArchive archive(file, name);
  const ZipEntry& entry = program_in(archive, name);
  std::string unpacked;
  const std::string_view json = archive.read(entry, kLongest, unpacked);
  const ExportedProgram program =
      read_exported_program(json, fmt::format("{}: {}", name, printable(entry.name)));
  return Pt2Importer(program, name, dims).run();
}

}  // namespace fusecalc
