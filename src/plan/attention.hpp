#pragma once

#include "plan/legality.hpp"

namespace fusecalc {

// Whether a kernel around two contractions is the attention pattern: scores = q k^T, elementwise
// work, a softmax over the keys (as one op or as max, sub, exp, sum, div), elementwise work, then
// the product with v. Such a kernel runs with an online softmax; the scores never leave the chip.
Verdict check_attention(const ResolvedKernel& resolved, const Kernel& kernel, OpId scores,
                        OpId weighted);

// Whether the kernel makes what the op does nothing but store in another order, and no op of the
// kernel reads that: the loop that makes the value stores it where the op would.
bool stores_reordered(const ResolvedKernel& resolved, OpId id);

}  // namespace fusecalc
