#include "codegen/loop.hpp"

#include <algorithm>

namespace fusecalc {

const HeldValue* Loop::held_at(TensorId tensor, const Index& at) const {
  if (at.name != element.name) return nullptr;
  const auto found = std::ranges::find(held, tensor, &HeldValue::tensor);
  return found == held.end() ? nullptr : &*found;
}

}  // namespace fusecalc
