#pragma once

#include <cstdint>

#include "codegen/scope.hpp"

namespace fusecalc {

// The index that a map leads to from another one.
Index mapped(const Scope& scope, const Index& from, const IndexTransform& map);

// The index from which a permutation leads to `to`. Code that follows finds its way back to `to`.
Index mapped_back(const Scope& scope, const Index& to, const IndexTransform& permutation);

// rows + id * stride + rest: the index into a table that an id found in memory leads to.
Index looked_up(const Scope& scope, const Index& rows, const Value& id, std::uint64_t stride,
                const Index& rest);

}  // namespace fusecalc
