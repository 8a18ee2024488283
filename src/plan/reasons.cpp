// Why ops cannot be one kernel, in words.

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "plan/legality.hpp"

namespace fusecalc {
namespace {

// What each obstacle is called; {0} and {1} are the kinds of its ops.
constexpr std::array<std::string_view, 27> kReasons = {
    "",
    "the code of a {0} op is not known, so it stays a kernel of its own",
    "they share no tensor",
    "a kernel holds at most 64 ops",
    "a kernel takes at most 96 tensors",
    "{0} and {1} loop over different numbers of elements",
    "{0} and {1} do not work on the same rows, so no block has all that both need",
    "{0} needs the reduction of the whole tensor, which does not fit on chip, before it can start",
    "{1} takes elements from rows that {0} has yet to finish",
    "the transposed order breaks up the rows that the reduction needs whole",
    "{1} may read rows that another block of {0} has yet to write",
    "the loss that {0} ends in is known only when all rows are done",
    "{1} lines the result of {0} up with another axis than the reduced one",
    "{1} loads its operands from memory as they are; {0} would have to run inside its main loop",
    "the second contraction needs whole rows of the first",
    "two contractions side by side; a kernel runs the main loop of one",
    "the scores between the two contractions are needed elsewhere, so they must be written",
    "{1} does not work on the result of {0}",
    "the epilogue of {0} writes its tiles in order; {1} moves elements",
    "the epilogue of {0} works on its tiles in order; {1} reads an operand in another order",
    "{1} reduces what the tiles of {0} hold only in parts",
    "{1} needs whole rows of the result of {0}, more than one tile holds",
    "{1} cannot be put together from the tiles of {0}; sum, mean, max and logsumexp can",
    "an epilogue makes one reduction of the result of {0}; {1} would be the second",
    "the epilogue of {0} folds 32-bit floats; {1} needs another type",
    "a general compiler leaves {0} to a library, as a kernel of its own",
    "fusing them would close a circle through another kernel",
};
static_assert(kReasons.size() == static_cast<std::size_t>(Obstacle::kCycle) + 1);

}  // namespace

std::string explain(const OpGraph& graph, const Verdict& verdict) {
  const auto kind = [&](OpId id) {
    return id == kNone ? std::string_view() : graph.ops[id].row->name;
  };
  return fmt::format(fmt::runtime(kReasons[static_cast<std::size_t>(verdict.obstacle)]),
                     kind(verdict.first), kind(verdict.second));
}

}  // namespace fusecalc
