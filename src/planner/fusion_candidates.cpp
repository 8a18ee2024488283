#include "planner/fusion_candidates.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "plan/epilogue.hpp"

namespace fusecalc {
namespace {

// How many neighbouring readers of the same tensor are considered, in each direction.
constexpr std::size_t kSiblingReach = 2;
// How many readers of a tensor are considered with the op that produces it.
constexpr std::size_t kMostReaders = 16;

std::uint64_t twice(std::uint64_t bytes) { return std::min(2 * bytes, kMaxCount); }

}  // namespace

std::vector<FusionCandidate> CandidateFinder::of(KernelId k) {
  shared_.clear();
  for (const OpId id : kernels_[k]) {
    for (const Outline::Input& input : outline_.inputs_of(id)) {
      add_maker(k, input, id);
      add_siblings(k, input, id);
    }
    for (const Outline::Result& result : outline_.results_of(id)) add_readers(k, result);
  }
  std::ranges::sort(shared_);
  std::vector<FusionCandidate> found;
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const Shared& shared = shared_[i];
    const bool next = found.empty() || found.back().kernel != shared.kernel;
    if (next) found.push_back({.kernel = shared.kernel});
    found.back().feeds |= shared.feeds;
    found.back().contracts |= shared.contracts;
    found.back().prologue |= shared.prologue;
    if (!next && shared_[i - 1].value == shared.value) continue;
    std::uint64_t& saving = found.back().saving;
    if (!checked_add(saving, shared.bytes)) saving = kMaxCount;
  }
  return found;
}

// The ops that read a value. Where they are so many that not all are considered, in canonical
// order.
std::span<const OpId> CandidateFinder::readers_of(TensorId value) {
  const std::span<const OpId> readers = graph_.readers[value];
  if (readers.size() <= kSiblingReach + 1) return readers;
  std::vector<OpId>& ranked = ranked_readers_[value];
  if (ranked.empty()) {
    ranked.assign(readers.begin(), readers.end());
    std::ranges::sort(ranked, {}, [&](OpId op) { return graph_.rank[op]; });
  }
  return ranked;
}

CandidateFinder::CandidateFinder(const OpGraph& graph, const std::vector<Kernel>& kernels,
                                 const std::vector<KernelId>& owner)
    : graph_(graph),
      outline_(graph.outline),
      kernels_(kernels),
      owner_(owner),
      takes_prologue_(graph.ops.size(), false),
      ranked_readers_(graph.tensors.size()) {
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    takes_prologue_[op] = outline_[op].contracts() && takes_prologue(graph, op);
  }
}

void CandidateFinder::add_maker(KernelId k, const Outline::Input& input, OpId op) {
  if (input.producer == kNone || !is_other(input.producer, k)) return;
  const KernelId maker = owner_[input.producer];
  const std::span<const OpId> readers = graph_.readers[input.value];
  const bool vanishes = !input.output && readers.size() <= kMostReaders &&
                        std::ranges::all_of(readers, [&](OpId reader) {
                          return owner_[reader] == k || owner_[reader] == maker;
                        });
  shared_.push_back({.kernel = maker,
                     .value = input.value,
                     .bytes = vanishes ? twice(input.bytes) : input.bytes,
                     .feeds = true,
                     .contracts = contracts(op),
                     .prologue = takes_prologue_[op]});
}

void CandidateFinder::add_siblings(KernelId k, const Outline::Input& input, OpId op) {
  const std::span<const OpId> readers = readers_of(input.value);
  if (readers.size() == 1) return;  // the op itself
  const auto rank = [&](OpId reader) { return graph_.rank[reader]; };
  const auto place =
      readers.size() <= kSiblingReach
          ? 0
          : std::ranges::lower_bound(readers, graph_.rank[op], {}, rank) - readers.begin();
  const auto first = std::max<std::ptrdiff_t>(0, place - std::ptrdiff_t{kSiblingReach});
  const auto last = std::min(std::ssize(readers), place + std::ptrdiff_t{kSiblingReach} + 1);
  for (auto i = first; i < last; ++i) {
    const OpId reader = readers[static_cast<std::size_t>(i)];
    if (!is_other(reader, k)) continue;
    shared_.push_back({.kernel = owner_[reader], .value = input.value, .bytes = input.bytes});
  }
}

void CandidateFinder::add_readers(KernelId k, const Outline::Result& result) {
  const std::span<const OpId> readers = readers_of(result.tensor);
  const std::size_t count = std::min(readers.size(), kMostReaders);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_other(readers[i], k)) continue;
    const KernelId reader = owner_[readers[i]];
    const bool vanishes = !result.output && count == readers.size() &&
                          std::ranges::all_of(graph_.readers[result.tensor], [&](OpId other) {
                            return owner_[other] == k || owner_[other] == reader;
                          });
    shared_.push_back({.kernel = reader,
                       .value = result.tensor,
                       .bytes = vanishes ? twice(result.bytes) : result.bytes,
                       .feeds = true,
                       .contracts = contracts(readers[i]),
                       .prologue = takes_prologue_[readers[i]]});
  }
}

}  // namespace fusecalc
