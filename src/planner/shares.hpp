#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <vector>

#include "planner/region.hpp"

namespace fusecalc {

// A bound for the search over the partitions of a region. Every op pays a share of its kernel's
// cost, such that the shares of no kernel's ops exceed its cost. Whatever the kernels are, ops then
// cost at least their shares.
//
// `left` names the part of a choice's cost that its ops do not pay yet, `bound` is the sum of all
// shares. Choices with which no partition `may_win` are left out. Returns false if none may win.
template <typename Choice, typename Cost, typename Left, typename MayWin>
bool share_out(std::vector<Choice>& choices, std::size_t ops, Cost& bound, Left left,
               MayWin may_win) {
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t op = 0; op < ops; ++op) {
      const OpSet bit = set_of(op);
      std::optional<Cost> share;
      for (Choice& choice : choices) {
        if ((choice.ops & bit) == 0) continue;
        // At first a part of what is left, so that the ops of a kernel pay alike.
        const int payers = round + 1 < kRounds ? std::popcount(choice.ops) : 1;
        const Cost most = left(choice) / static_cast<Cost>(payers);
        share = share ? std::min(*share, most) : most;
      }
      if (!share) return false;
      bound += *share;
      for (Choice& choice : choices) {
        if ((choice.ops & bit) != 0) left(choice) -= *share;
      }
    }
    std::erase_if(choices, [&](const Choice& choice) { return !may_win(choice); });
  }
  return !choices.empty();
}

}  // namespace fusecalc
