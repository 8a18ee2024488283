#pragma once

#include <cstdint>

#include "codegen/scope.hpp"

namespace fusecalc {

// The index that a map leads to from another one.
Index mapped(const Scope& scope, const Index& from, const IndexTransform& map);

// rows + id * stride + rest: the index into a table that an id found in memory leads to.
Index looked_up(const Scope& scope, const Index& rows, const Value& id, std::uint64_t stride,
                const Index& rest);

}  // namespace fusecalc
