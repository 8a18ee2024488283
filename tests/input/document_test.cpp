#include "input/document.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/error.hpp"
#include "input/onnx/proto.hpp"

namespace fusecalc {
namespace {

using namespace proto;

// What is said of a document that is refused, without its name.
std::string said(const std::string& bytes, const std::string& name) {
  try {
    const Document document = read_document(ByteSource::from_memory(bytes, name), {});
    return document.origin ? "a model" : "an op list";
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    return std::string(error.what()).substr(name.size() + 2);
  }
}

const Message kGraph = Graph{
    .nodes = {node("Relu", {"x"}, {"y"})},
    .inputs = {value("x", {4})},
    .outputs = {
        value("y", {4})}}.encoded();
const Message kOpset = Message().text(1, "").number(2, 20);

TEST_CASE("documents: an ONNX model is recognised whichever field is first") {
  const std::string files[] = {
      Message().number(1, 10).message(7, kGraph).message(8, kOpset).bytes(),
      Message().text(2, "a tool").message(7, kGraph).message(8, kOpset).bytes(),
      Message().text(3, "1.0").message(7, kGraph).message(8, kOpset).bytes(),
      Message().message(7, kGraph).message(8, kOpset).bytes(),
      Message().message(8, kOpset).message(7, kGraph).bytes(),
      Message().text(6, "").message(7, kGraph).message(8, kOpset).bytes(),  // no description
      Message().number(5, 1).message(7, kGraph).message(8, kOpset).bytes(),
  };
  for (const std::string& file : files) {
    CHECK(said(file, "m.onnx") == "a model");
    CHECK(said(file, "<stdin>") == "a model");
  }
  const Message body = Message().message(8, kOpset).message(7, kGraph);
  const std::string named[] = {
      Message().text(4, "org.example").bytes() + body.bytes(),
      Message().text(6, "a description of what the model is for").bytes() + body.bytes(),
      Message().message(14, Message().text(1, "key").text(2, "value")).bytes() + body.bytes(),
      Message().message(25, Message().text(1, "f")).bytes() + body.bytes(),
  };
  for (const std::string& file : named) CHECK(said(file, "m.onnx") == "a model");
}

TEST_CASE("documents: an ONNX model that is cut off is told as such, whichever field is first") {
  for (const std::string& whole : {Message().message(7, kGraph).message(8, kOpset).bytes(),
                                   Message().message(8, kOpset).message(7, kGraph).bytes()}) {
    for (std::size_t length = 1; length < whole.size(); ++length) {
      CAPTURE(length);
      const std::string why = said(whole.substr(0, length), "m.onnx");
      const bool told = why.starts_with("not a valid ONNX file: ") ||
                        why == "not an ONNX model: it has no graph" ||
                        why == "states no opset of ONNX; is the file cut off?";
      CHECK_MESSAGE(told, why);
    }
  }
}

TEST_CASE("documents: text is no ONNX model, whatever its name") {
  const std::string list = R"([{"input_size": 1, "output_size": 1}])";
  const std::string sizes = " \n" + list;
  CHECK(said(list, "m.onnx") == "an op list");
  CHECK(said(sizes, "<stdin>") == "an op list");
  const std::string no_model =
      "neither an op list (JSON) nor a model; models are files of torch.export.save (.pt2) or ONNX "
      "(.onnx)";
  CHECK(said("version https://git-lfs.github.com/spec/v1\n", "m.onnx") == no_model);
  CHECK(said("<html>", "m.onnx") == no_model);
  for (const char* text : {"Batches", ": a", "B", ":", "2\n", "2"}) {
    CHECK(said(text, "<stdin>").find("ONNX") == std::string::npos);
  }
}

}  // namespace
}  // namespace fusecalc
