#include "input/pointers.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace fusecalc {
namespace {

// Below the op, "/inputs/1"; empty for the op itself.
std::string pointer_in_op(const WrittenOp& op, const WrittenPlace& place) {
  const auto keyed = [&](const char* list, const auto& entries) {
    return fmt::format("/{}/{}", list, pointer_token(entries[place.item].first));
  };
  switch (place.part) {
    case WrittenPlace::Part::kOpKind: return "/op";
    case WrittenPlace::Part::kOpName: return "/name";
    case WrittenPlace::Part::kInputs: return "/inputs";
    case WrittenPlace::Part::kInput: return fmt::format("/inputs/{}", place.item);
    case WrittenPlace::Part::kOutputs: return "/outputs";
    case WrittenPlace::Part::kOutput:
      return op.source == kAsOutput ? "/output" : fmt::format("/outputs/{}", place.item);
    case WrittenPlace::Part::kAttribute: {
      const WrittenAttribute& attribute = op.attributes[place.item];
      return (attribute.source == kInAttrs ? "/attrs/" : "/") + pointer_token(attribute.name);
    }
    case WrittenPlace::Part::kInplace: return keyed("inplace", op.inplace);
    case WrittenPlace::Part::kReads: return keyed("reads", op.reads);
    case WrittenPlace::Part::kWrites: return keyed("writes", op.writes);
    case WrittenPlace::Part::kFlops: return "/flops";
    case WrittenPlace::Part::kClass: return "/class";
    default: return "";
  }
}

}  // namespace

std::string pointer_to(const WrittenGraph& graph, const WrittenPlace& place) {
  const auto tensor = [&] { return "/tensors/" + pointer_token(graph.tensors[place.index].name); };
  switch (place.part) {
    case WrittenPlace::Part::kGraph: return "";
    case WrittenPlace::Part::kDtype: return "/dtype";
    case WrittenPlace::Part::kDim: return "/dims/" + pointer_token(graph.dims[place.index].first);
    case WrittenPlace::Part::kTensor: return tensor();
    case WrittenPlace::Part::kShape: return tensor() + "/shape";
    case WrittenPlace::Part::kExtent: return fmt::format("{}/shape/{}", tensor(), place.item);
    case WrittenPlace::Part::kTensorDtype: return tensor() + "/dtype";
    case WrittenPlace::Part::kGraphOutputs: return "/outputs";
    case WrittenPlace::Part::kGraphOutput: return fmt::format("/outputs/{}", place.index);
    case WrittenPlace::Part::kFuseGroup: return fmt::format("/fuse/{}", place.index);
    case WrittenPlace::Part::kFuseMember:
      return fmt::format("/fuse/{}/{}", place.index, place.item);
    default:
      return fmt::format("/ops/{}{}", place.index, pointer_in_op(graph.ops[place.index], place));
  }
}

}  // namespace fusecalc
