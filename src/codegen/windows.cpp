// Pooling and upsampling: each lane loops over the window of its element. Neighbouring windows
// overlap, so that most of what they read comes from the caches.

#include "codegen/windows.hpp"

#include <fmt/format.h>

#include <string>

#include "codegen/elements.hpp"
#include "codegen/expressions.hpp"
#include "codegen/row_results.hpp"
#include "graph/windows.hpp"

namespace fusecalc {
namespace {

using Kind = WindowAxis::Kind;

// Of what its places are calculated from, including those outside of the axis.
std::int64_t largest_number(const WindowAxis& axis) {
  switch (axis.kind) {
    case Kind::kSteps: return axis.out * axis.stride + axis.kernel * axis.dilation;
    case Kind::kLinear: return axis.out * axis.per_result + axis.in + axis.out;
    default: return (axis.out + 1) * axis.in + axis.out;
  }
}

// Writes the loops for one element into the lanes of a block.
class WindowWriter {
 public:
  WindowWriter(const Scope& scope, const Op& op, const Index& at)
      : scope_(scope),
        op_(op),
        at_(at),
        windows_(windows_of(*op.row, *op.attributes, input().type.shape,
                            scope.tensor(op.outputs[0]).type.shape)),
        type_(accumulator_type(scope.view(), op)),
        name_(scope.fresh("w")) {
    for (const WindowAxis& axis : windows_.axes) {
      wide_ = wide_ || largest_number(axis) >= std::int64_t{1} << 31U;
    }
  }

  // The element at the nearest places.
  Value nearest() {
    write_place();
    std::string place = name_ + "p";
    for (std::size_t i = 0; i < windows_.axes.size(); ++i) {
      const WindowAxis& axis = windows_.axes[i];
      const bool divides = axis.out % axis.in == 0;
      place = fmt::format("({} * {} + {}o{}{} / {})", place, axis.in, name_, i,
                          divides ? "" : fmt::format(" * {}", axis.in),
                          divides ? axis.out / axis.in : axis.out);
    }
    return element(scope_, op_.operands[0].tensor,
                   scope_.define_index(place, LanePattern::kScattered, false));
  }

  // The accumulator of the window's elements.
  std::string accumulator(OpId id) {
    write_place();
    std::string& code = scope_.block.lanes;
    code += fmt::format("{} {}s;\n", accumulator_class(scope_.view(), scope_.op(id)), name_);
    std::string place = name_ + "p";
    std::string in_plane = "0";
    std::string weight;
    for (std::size_t i = 0; i < windows_.axes.size(); ++i) {
      write_loop(i);
      const WindowAxis& axis = windows_.axes[i];
      place = fmt::format("({} * {} + {}y{})", place, axis.in, name_, i);
      in_plane = i == 0 ? fmt::format("{}y0", name_)
                        : fmt::format("((u64){} * {} + {}y{})", in_plane, axis.in, name_, i);
      if (axis.kind == Kind::kLinear) weight += fmt::format(" * {}f{}", name_, i);
    }
    CodeBlock inner = block_of(1);
    const Scope in_loop{scope_.kernel, scope_.loop, inner};
    const Index at = in_loop.define_index(place, LanePattern::kScattered, false);
    const Value taken = converted(element(in_loop, op_.operands[0].tensor, at), type_);
    inner.lanes += fmt::format("{}s.add({}{}, {});\n", name_, taken.text, weight, in_plane);
    code += inner.text("  ");
    code += std::string(windows_.axes.size(), '}') + "\n";
    return name_ + "s";
  }

  // How many elements the mean of a window is of.
  std::string count() const {
    std::string product;
    for (std::size_t i = 0; i < windows_.axes.size(); ++i) {
      product += (i == 0 ? "" : " * ") + taps_along(i);
    }
    return fmt::format("{}({})", name_of(type_), product);
  }

  ComputeType type() const { return type_; }

 private:
  const Tensor& input() const { return scope_.tensor(op_.operands[0].tensor); }
  std::string_view number() const { return wide_ ? "i64" : "i32"; }

  // The coordinates of the element: its plane, and the place along each axis.
  void write_place() {
    std::string& code = scope_.block.lanes;
    code += fmt::format("const idx {}e = {};\n", name_, at_.lane());
    std::uint64_t inner = 1;
    for (std::size_t i = windows_.axes.size(); i-- > 0;) {
      const auto extent = static_cast<std::uint64_t>(windows_.axes[i].out);
      code += fmt::format("const {0} {1}o{2} = ({0})({1}e / {3} % {4});\n", number(), name_, i,
                          inner, extent);
      inner *= extent;
    }
    code += fmt::format("const idx {0}p = {0}e / {1};\n", name_, inner);
  }

  // Opens the loop along one axis, in which y is the place.
  void write_loop(std::size_t i) {
    const WindowAxis& axis = windows_.axes[i];
    const std::string o = fmt::format("{}o{}", name_, i);
    const std::string y = fmt::format("{}y{}", name_, i);
    const std::string k = fmt::format("{}k{}", name_, i);
    std::string& code = scope_.block.lanes;
    switch (axis.kind) {
      case Kind::kShare:
        code += fmt::format(
            "for ({0} {1} = {2} * {3} / {4}; {1} < (({2} + 1) * {3} + {5}) / {4}; ++{1}) {{\n",
            number(), y, o, axis.in, axis.out, axis.out - 1);
        return;
      case Kind::kLinear:
        code += fmt::format(
            "const {0} {1}n = {2} * {3} + ({4}) < 0 ? 0 : {2} * {3} + ({4});\n"
            "for ({0} {5} = 0; {5} < 2; ++{5}) {{\n"
            "const {0} {6} = {1}n / {7} + {5} < {8} ? {1}n / {7} + {5} : {8} - 1;\n"
            "const {9} {10}f{11} = {9}({5} == 0 ? {7} - {1}n % {7} : {1}n % {7}) / {9}({7});\n",
            number(), o, o, axis.per_result, axis.start, k, y, axis.parts, axis.in, name_of(type_),
            name_, i);
        return;
      default:
        code += fmt::format(
            "for ({0} {1} = 0; {1} < {2}; ++{1}) {{\n"
            "const {0} {3} = {4} * {5} + {1} * {6} - {7};\n",
            number(), k, axis.kernel, y, o, axis.stride, axis.dilation, axis.padding);
        const std::int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
        const bool inside = axis.padding == 0 && (axis.out - 1) * axis.stride + reach <= axis.in;
        if (!inside) code += fmt::format("if ({0} < 0 || {0} >= {1}) continue;\n", y, axis.in);
    }
  }

  std::string taps_along(std::size_t i) const {
    const WindowAxis& axis = windows_.axes[i];
    const std::string o = fmt::format("{}o{}", name_, i);
    if (axis.kind == Kind::kShare) {
      return fmt::format("((({0} + 1) * {1} + {2}) / {3} - {0} * {1} / {3})", o, axis.in,
                         axis.out - 1, axis.out);
    }
    const bool padded = op_.attributes->count_include_pad;
    if (axis.whole() && (padded || axis.padding == 0)) return fmt::format("{}", axis.kernel);
    const std::string first = fmt::format("({} * {} - {})", o, axis.stride, axis.padding);
    return fmt::format("(smaller<{0}>({1} + {2}, {3}) - {4})", number(), first, axis.kernel,
                       padded ? axis.in + axis.padding : axis.in,
                       padded ? first : fmt::format("larger<{}>({}, 0)", number(), first));
  }

  const Scope& scope_;
  const Op& op_;
  const Index& at_;
  Windows windows_;
  ComputeType type_;
  std::string name_;
  bool wide_ = false;  // places do not fit into 32 bits
};

}  // namespace

Value windowed_element(const Scope& scope, OpId id, std::size_t k, const Index& at) {
  const Op& op = scope.op(id);
  WindowWriter writer(scope, op, at);
  if (op.row->accumulator == Accumulator::kNone) return writer.nearest();
  Expression expression{.op = id, .device = {}, .at = at, .computed = writer.type()};
  expression.accumulator = writer.accumulator(id);
  expression.count = writer.count();
  // One loop finds all results.
  Value result;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    expression.device = device_expression(op, i);
    expression.result = compute_type(scope.tensor(op.outputs[i]).type.dtype);
    expression.made = op.outputs[i];
    const Value value = evaluate(scope, expression);
    if (i == k) {
      result = value;
    } else {
      scope.block.values.try_emplace({op.outputs[i], at.name}, value);
    }
  }
  return result;
}

}  // namespace fusecalc
