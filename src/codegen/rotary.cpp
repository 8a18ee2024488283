#include "codegen/rotary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/elements.hpp"
#include "codegen/indices.hpp"
#include "graph/rotary.hpp"

namespace fusecalc {
namespace {

// Writes the code of one element, or of a group of neighbours that have their partners, in order,
// in another group.
class RotaryWriter {
 public:
  RotaryWriter(const Scope& scope, const Op& op, const Index& at)
      : scope_(scope),
        op_(op),
        at_(at),
        rotary_(rotary_of(scope.view().graph(), op)),
        place_(mapped(scope, at, along_last())) {
    const std::uint64_t width = scope.block.width;
    const bool unit = at.pattern == LanePattern::kUnit && at.aligned &&
                      place_.pattern == LanePattern::kUnit && place_.aligned;
    const bool stays = !rotary_.interleaved && rotary_.half() % width == 0;
    whole_ = at.pattern == LanePattern::kUniform || (unit && stays && rotary_.length % width == 0);
    p_ = whole_ ? place_.name : place_.lane();
  }

  Value element() const {
    const Value x = fusecalc::element(scope_, op_.operands[0].tensor, at_);
    const Value other = fusecalc::element(scope_, op_.operands[0].tensor, partner());
    const Index angle = this->angle();
    const Value cosine = fusecalc::element(scope_, op_.operands[1].tensor, angle);
    const Value sine = fusecalc::element(scope_, op_.operands[2].tensor, angle);
    ComputeType type = ComputeType::kF32;
    for (const Value* value : {&x, &cosine, &sine}) type = std::max(type, value->type);
    const auto text = [&](const Value& value) { return converted(value, type).text; };
    std::string turned = fmt::format("{} * {} + ({} ? -{} : {}) * {}", text(x), text(cosine),
                                     is_first(), text(other), text(other), text(sine));
    if (some_stay()) turned = fmt::format("{} ? {} : {}", turns(), turned, text(x));
    const bool uniform = at_.pattern == LanePattern::kUniform && x.uniform && other.uniform &&
                         cosine.uniform && sine.uniform;
    return scope_.define(type, turned, uniform);
  }

 private:
  // From an element of x to its place along the last axis.
  IndexTransform along_last() const {
    IndexTransform map;
    map.append(scope_.tensor(op_.outputs[0]).elements / rotary_.length, 0);
    map.append(rotary_.length, 1);
    return map;
  }

  bool some_stay() const { return rotary_.rotated != rotary_.length; }
  std::string turns() const { return fmt::format("{} < {}", p_, rotary_.rotated); }
  std::string is_first() const {
    return rotary_.interleaved ? fmt::format("{} % 2 == 0", p_)
                               : fmt::format("{} < {}", p_, rotary_.half());
  }

  Index defined(const std::string& text) const {
    return scope_.define_index(text, whole_ ? at_.pattern : LanePattern::kScattered, true);
  }

  Index partner() const {
    const std::string e = whole_ ? at_.name : at_.lane();
    const std::uint64_t apart = rotary_.interleaved ? 1 : rotary_.half();
    std::string text = fmt::format("{} ? {} + {} : {} - {}", is_first(), e, apart, e, apart);
    if (some_stay()) text = fmt::format("{} ? ({}) : {}", turns(), text, e);
    return defined(text);
  }

  // Of what stays, the first angle of its row.
  Index angle() const {
    const Shape& shape = scope_.tensor(op_.outputs[0]).type.shape;
    const Shape& angles = scope_.tensor(op_.operands[1].tensor).type.shape;
    // An angle for each element: the indices that others read at, too.
    if (rotary_.angles == rotary_.length) {
      return mapped(scope_, at_, broadcast_map(angles, shape));
    }
    Shape rows = angles;
    rows.back() = 1;
    IndexTransform map = broadcast_map(rows, shape);
    for (StridedMap::Axis& axis : map.axes) axis.stride *= rotary_.angles;
    const Index row = mapped(scope_, at_, map);
    const std::string first = whole_ ? row.name : row.lane();
    std::string place = p_;
    if (rotary_.angles != rotary_.rotated) {
      place = rotary_.interleaved ? fmt::format("{} / 2", p_)
                                  : fmt::format("{} % {}", p_, rotary_.half());
    }
    if (some_stay()) place = fmt::format("({} ? {} : 0)", turns(), place);
    return defined(fmt::format("{} + {}", first, place));
  }

  const Scope& scope_;
  const Op& op_;
  const Index& at_;
  Rotary rotary_;
  Index place_;  // along the last axis
  bool whole_ = false;
  std::string p_;  // the place, in code
};

}  // namespace

Value rotated_element(const Scope& scope, const Op& op, const Index& at) {
  return RotaryWriter(scope, op, at).element();
}

}  // namespace fusecalc
