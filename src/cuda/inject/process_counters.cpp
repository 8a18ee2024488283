#include "cuda/inject/process_counters.hpp"

#include <utility>

#include "core/error.hpp"

namespace fusecalc::cuda {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

}  // namespace

ProcessCounters::ProcessCounters(std::string folder, const InjectionSettings& settings,
                                 RecordFile& records)
    : folder_(std::move(folder)), settings_(settings), records_(records), patience_(kPatience) {}

ContextCounter* ProcessCounters::counter_of(CUcontext context, CUdevice device) {
  const auto known = counters_.find(context);
  if (known != counters_.end()) return known->second.get();
  if (faults_.contains(context)) return nullptr;
  const auto begin = std::chrono::steady_clock::now();
  open(context, device);
  opening_ += std::chrono::steady_clock::now() - begin;
  const auto opened = counters_.find(context);
  return opened == counters_.end() ? nullptr : opened->second.get();
}

std::string ProcessCounters::why_not(CUcontext context) const {
  const auto fault = faults_.find(context);
  return fault == faults_.end() ? "another process of the program was counting on this GPU"
                                : fault->second;
}

void ProcessCounters::open(CUcontext context, CUdevice device) {
  std::erase_if(counters_, [&](const Row& row) {
    return row.second->device() == device && !row.second->pending() && close(row, kLongestWait);
  });
  if (!turn_on(device).take(patience_)) {
    patience_ = 0ms;
    return;
  }
  patience_ = kPatience;
  try {
    counters_[context] = std::make_unique<ContextCounter>(context, device, settings_, records_);
    turn_on(device).start_share();
  } catch (const Error& error) {
    counters_.erase(context);
    faults_[context] = error.what();
    records_.write(RecordKind::kFault, {error.what()});
  }
}

// Whether it was idle.
bool ProcessCounters::close(const Row& row, std::chrono::microseconds limit) {
  const CurrentContext current(row.first);
  if (row.second->wait(limit) != Idleness::kIdle) return false;
  row.second->finish();
  return true;
}

Turn& ProcessCounters::turn_on(CUdevice device) {
  std::unique_ptr<Turn>& turn = turns_[device];
  if (turn == nullptr) turn = std::make_unique<Turn>(folder_, uuid_text(device));
  return *turn;
}

bool ProcessCounters::finish_passes(std::chrono::microseconds limit) {
  bool finished = false;
  for (auto& [context, counter] : counters_) {
    if (!counter->in_pass()) continue;
    const CurrentContext current(context);
    if (counter->wait(limit) != Idleness::kIdle) continue;
    counter->finish_pass();
    finished = true;
  }
  return finished;
}

void ProcessCounters::pass_turn_on(std::chrono::milliseconds share) {
  for (auto& [device, turn] : turns_) {
    if (keeps_turn_ || !turn->is_over(share)) continue;
    bool counts = false;
    std::erase_if(counters_, [&, on = device](const Row& row) {
      if (row.second->device() != on) return false;
      const bool closed = !row.second->pending() && close(row, 1ms);
      counts = counts || !closed;
      return closed;
    });
    if (!counts) turn->give_up();
  }
}

void ProcessCounters::close(std::chrono::microseconds limit) {
  std::erase_if(counters_, [&](const Row& row) { return close(row, limit); });
  abandon();
}

// CUPTI keeps the GPU's counters until the process ends, so the process keeps its turn.
void ProcessCounters::abandon() {
  for (auto& [context, counter] : counters_) counter->abandon();
  keeps_turn_ = keeps_turn_ || !counters_.empty();
  counters_.clear();
}

void ProcessCounters::lose(CUcontext context, const std::string& why) {
  counters_.at(context)->abandon();
  counters_.erase(context);
  faults_[context] = why;
  keeps_turn_ = true;
}

void ProcessCounters::lose_all(const std::string& why) {
  while (!counters_.empty()) lose(counters_.begin()->first, why);
}

}  // namespace fusecalc::cuda
