#include "sweep/folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "json/value.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "fusecalc.sweep-definition/1";

std::string text_at(const JsonValue& value, std::string_view key, const JsonReader& reader) {
  const JsonValue* member = value.find(key);
  if (member == nullptr || member->text() == nullptr) {
    reader.fail(fmt::format("has no text {}; run the sweep again", in_quotes(key)));
  }
  return *member->text();
}

// One that is no hash is that of no document.
std::uint64_t hash_in(const std::string& text) {
  std::uint64_t hash = 0;
  std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  return hash;
}

const JsonValue::Array& array_at(const JsonValue& value, std::string_view key,
                                 const JsonReader& reader) {
  const JsonValue* member = value.find(key);
  const auto* array = member == nullptr ? nullptr : std::get_if<JsonValue::Array>(&member->content);
  if (array == nullptr) {
    reader.fail(fmt::format("has no list {}; run the sweep again", in_quotes(key)));
  }
  return *array;
}

}  // namespace

SweepFolder::SweepFolder(fs::path path, const SweepDefinition& definition)
    : path_(std::move(path)), definition_(definition) {
  std::error_code error;
  has_failures_ = fs::exists(path_ / "failed", error);
}

void SweepFolder::create() const {
  std::error_code error;
  fs::create_directories(path_ / "points", error);
  if (!error) return;
  throw Error(
      Fault::kBadInput,
      fmt::format("cannot create {}: {}", printable((path_ / "points").string()), error.message()));
}

std::string SweepFolder::result_file(std::size_t point) const {
  return path_ / "points" / (definition_.stem(point) + ".json");
}

fs::path SweepFolder::failure_file(std::size_t point) const {
  return path_ / "failed" / (definition_.stem(point) + ".txt");
}

PointState SweepFolder::state(std::size_t point) const {
  if (::access(result_file(point).c_str(), F_OK) == 0) return PointState::kDone;
  if (::access(failure_file(point).c_str(), F_OK) == 0) return PointState::kFailed;
  return PointState::kMissing;
}

std::vector<std::size_t> SweepFolder::points_without_result() const {
  std::error_code error;
  std::unordered_set<std::string> names;
  for (fs::directory_iterator entry(path_ / "points", error), end; !error && entry != end;
       entry.increment(error)) {
    names.insert(entry->path().filename());
  }
  std::vector<std::size_t> points;
  for (std::size_t point = 0; point < definition_.size(); ++point) {
    if (!names.contains(definition_.stem(point) + ".json")) points.push_back(point);
  }
  return points;
}

std::string SweepFolder::failure(std::size_t point) const {
  std::ifstream file(failure_file(point));
  std::string line;
  std::getline(file, line);
  return line;
}

void SweepFolder::record_failure(std::size_t point, const std::string& line) const {
  std::error_code error;
  fs::create_directories(path_ / "failed", error);  // the file cannot be written if this failed
  Output file = Output::file(failure_file(point));
  file.write(printable(line, kNoLimit) + "\n");
  file.finish();
}

void SweepFolder::forget_failure(std::size_t point) const {
  if (has_failures_) ::unlink(failure_file(point).c_str());
}

void write_order(const SweepOrder& order, const fs::path& file) {
  Output output = Output::file(file);
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", kSchema).member("version", kVersion).member("folder", order.folder);
  json.key("arguments").begin_array();
  for (const std::string& argument : order.arguments) json.value(argument);
  json.end().key("documents").begin_array();
  for (const SweepDocument& document : order.documents) {
    json.begin_object(JsonWriter::Layout::kInline);
    json.member("path", document.path).member("name", document.name);
    json.member("hash", fmt::format("{:016x}", document.hash)).end();
  }
  json.end().end();
  output.finish();
}

SweepOrder read_order(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    throw Error(Fault::kBadInput, fmt::format("{}: no such file, so this is not the folder of a "
                                              "sweep; give the --dir of one",
                                              printable(file.string())));
  }
  JsonReader reader(ByteSource::open(file));
  const JsonValue value = read_value(reader, [](std::string_view) { return true; });
  reader.expect_end();
  if (text_at(value, "schema", reader) != kSchema) reader.fail("is not the definition of a sweep");
  if (const std::string version = text_at(value, "version", reader); version != kVersion) {
    reader.fail(
        fmt::format("is of fusecalc {}, but this is {}; run the sweep again, or use that "
                    "version",
                    printable(version), kVersion));
  }
  SweepOrder order{.folder = text_at(value, "folder", reader), .arguments = {}, .documents = {}};
  for (const JsonValue& argument : array_at(value, "arguments", reader)) {
    if (const std::string* text = argument.text()) order.arguments.push_back(*text);
  }
  for (const JsonValue& document : array_at(value, "documents", reader)) {
    order.documents.push_back({.path = text_at(document, "path", reader),
                               .name = text_at(document, "name", reader),
                               .hash = hash_in(text_at(document, "hash", reader))});
  }
  return order;
}

}  // namespace fusecalc
