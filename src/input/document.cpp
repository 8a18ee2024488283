#include "input/document.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "input/onnx/onnx.hpp"
#include "input/pt2/pt2.hpp"
#include "json/reader.hpp"

namespace fusecalc {
namespace {

struct ModelFormat {
  std::string_view first_bytes;  // no JSON begins like this
  Model (*read)(std::string_view file, const std::string& name,
                const std::vector<DimOverride>& dims);
};

constexpr std::array kModelFormats = {
    ModelFormat{"PK\x03\x04", read_pt2}, ModelFormat{"PK\x05\x06", read_pt2},  // an empty archive
    ModelFormat{"\x08", read_onnx},  // the field that holds the version of ONNX
};

// Of a model that is read from a pipe.
constexpr std::size_t kLongestPiped = std::size_t{1} << 30U;

}  // namespace

Document read_document(ByteSource source, const std::vector<DimOverride>& dims,
                       std::vector<SizedOperation>* operations) {
  const std::string name = source.name();
  const std::string_view start = source.peek();
  for (const ModelFormat& format : kModelFormats) {
    if (!start.starts_with(format.first_bytes)) continue;
    Model model = format.read(source.whole(kLongestPiped), name, dims);
    return {.name = name, .list = std::move(model.graph), .origin = std::move(model.origin)};
  }
  JsonReader reader(std::move(source));
  return {.name = name, .list = read_op_list(reader, operations), .origin = {}};
}

}  // namespace fusecalc
