#include "input/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "input/onnx/onnx.hpp"
#include "input/pt2/pt2.hpp"
#include "json/reader.hpp"

namespace fusecalc {
namespace {

using ReadModel = Model (*)(std::string_view file, const std::string& name,
                            const std::vector<DimOverride>& dims);

// What reads a file that begins so, or null for JSON, which begins like no model.
ReadModel reader_of(std::string_view name, std::string_view start) {
  constexpr std::string_view kEmptyArchive = "PK\x05\x06";
  if (start.starts_with("PK\x03\x04") || start.starts_with(kEmptyArchive)) return read_pt2;
  return begins_onnx(start, name.ends_with(".onnx")) ? read_onnx : nullptr;
}

// Of a model that is read from a pipe.
constexpr std::size_t kLongestPiped = std::size_t{1} << 30U;

// Where JSON goes wrong in a file that was never meant to be JSON helps nobody.
constexpr std::array<std::string_view, 9> kNoJson = {
    ".pt2", ".onnx", ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".gguf", ".py"};

void refuse_other_files(std::string_view name, std::string_view start) {
  const bool other = std::ranges::any_of(
      kNoJson, [&](std::string_view extension) { return name.ends_with(extension); });
  if (!other || start.starts_with('{') || start.starts_with('[')) return;
  throw Error(Fault::kBadInput,
              fmt::format("{}: {}", name,
                          start.empty() ? "the file is empty"
                                        : "neither an op list (JSON) nor a model; models are files "
                                          "of torch.export.save (.pt2) or ONNX (.onnx)"));
}

// Results and devices begin with their schema.
void refuse_written(std::string_view name, std::string_view start) {
  constexpr std::string_view kKey = "\"schema\":\"";
  const std::size_t key = start.find("\"schema\"");
  std::string text;
  for (const char c : start.substr(0, key == std::string_view::npos ? 0 : key + 64)) {
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') text += c;
  }
  std::string_view rest = text;
  if (rest.starts_with('[')) rest.remove_prefix(1);
  if (!rest.starts_with('{') || !rest.substr(1).starts_with(kKey)) return;
  rest.remove_prefix(1 + kKey.size());
  const std::string_view schema = rest.substr(0, rest.find('"'));
  if (!schema.starts_with("fusecalc.")) return;
  throw Error(
      Fault::kBadInput,
      fmt::format("{}: /schema: {} is no op list; {}", name, in_quotes(schema),
                  schema.starts_with("fusecalc.device/") ? "--device takes it"
                                                         : "fusecalc compare takes results"));
}

}  // namespace

Document read_document(ByteSource source, const std::vector<DimOverride>& dims,
                       std::vector<SizedOperation>* operations) {
  const std::string name = source.name();
  const std::string_view start = source.peek();
  if (const ReadModel read = reader_of(name, start)) {
    Model model = read(source.whole(kLongestPiped), name, dims);
    return {.name = name, .list = std::move(model.graph), .origin = std::move(model.origin)};
  }
  refuse_other_files(name, start);
  refuse_written(name, start);
  JsonReader reader(std::move(source));
  return {.name = name, .list = read_op_list(reader, operations), .origin = {}};
}

}  // namespace fusecalc
