// The rows of movements and views.

#include <array>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;

constexpr OpRow movement(std::string_view name, std::uint8_t inputs, Access access,
                         AttributeSet attributes, OpFamily family, std::string_view summary) {
  return {.name = name,
          .op_class = kMovement,
          .family = family,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .access = access,
          .attributes = attributes,
          .summary = summary};
}

constexpr OpRow view(std::string_view name, Access access, AttributeSet attributes, OpFamily family,
                     std::string_view summary) {
  OpRow row = movement(name, 1, access, attributes, family, summary);
  row.op_class = kView;
  return row;
}

constexpr OpRow split_view() {
  OpRow row = view("split_view", Access::kSelect, kAxes | kSizes, OpFamily::kSplit,
                   "one part for each output along an axis (default: the first), read in place");
  row.max_outputs = kAnyNumber;
  return row;
}

constexpr std::array kMovementOps = {
    movement("transpose", 1, Access::kPermute, only(kPerm), OpFamily::kTranspose,
             "a copy with the axes in another order (default: reversed)"),
    OpRow{.name = "concat",
          .op_class = kMovement,
          .family = OpFamily::kConcat,
          .min_inputs = 2,
          .max_inputs = kAnyNumber,
          .access = Access::kSelect,
          .attributes = only(kAxes),
          .summary = "one after the other along an axis (default: the first)"},
    movement("slice", 1, Access::kSelect, kAxes | kStarts | kEnds | kSteps, OpFamily::kSlice,
             "a copy of a range of each of some axes"),
    movement("gather", 2, Access::kGather, only(kAxes), OpFamily::kGather,
             "the rows of x that the indices name (x, indices)"),
    movement("embedding", 2, Access::kGather, 0, OpFamily::kEmbedding,
             "the rows of a table that the indices name (table, indices)"),
    movement("scatter_update", 3, Access::kScatter, kAxes | kCombine, OpFamily::kScatter,
             "replaces rows of x in place, or combines them (x, indices, rows)"),
    movement("broadcast_to", 1, Access::kSame, only(kShape), OpFamily::kBroadcastTo,
             "a copy, repeated to a shape"),
    movement("copy", 1, Access::kSame, 0, OpFamily::kPointwise, "a copy"),
    view("reshape", Access::kSame, only(kShape), OpFamily::kReshape,
         "the same elements, another shape"),
    view("view", Access::kSame, only(kShape), OpFamily::kReshape, "the same as reshape"),
    view("permute_view", Access::kPermute, only(kPerm), OpFamily::kTranspose,
         "the same elements, read with the axes in another order"),
    view("slice_view", Access::kSelect, kAxes | kStarts | kEnds | kSteps, OpFamily::kSlice,
         "a range of each of some axes, read in place"),
    split_view(),
    view("expand_view", Access::kSame, only(kShape), OpFamily::kBroadcastTo,
         "the same elements, repeated to a shape"),
};

}  // namespace

std::span<const OpRow> movement_ops() { return kMovementOps; }

}  // namespace fusecalc
