#include "predict/l2_model.hpp"

#include <algorithm>
#include <vector>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

// Panels of one operand: the lines that a row (or column) of tiles needs.
class Panels {
 public:
  Panels(std::uint64_t lines, std::uint64_t tile, double line_bytes)
      : lines_(lines), tile_(tile), line_bytes_(line_bytes) {}

  std::uint64_t count() const { return ceil_div(lines_, tile_); }
  double bytes(std::uint64_t panel) const {
    return static_cast<double>(std::min(tile_, lines_ - panel * tile_)) * line_bytes_;
  }
  int& seen_in(std::uint64_t panel) {
    if (panel >= seen_in_.size()) seen_in_.resize(panel + 1, -1);
    return seen_in_[panel];
  }

 private:
  std::uint64_t lines_;
  std::uint64_t tile_;
  double line_bytes_;
  std::vector<int> seen_in_;  // the last wave that read it, of those that were read
};

// Waves of clusters, each wave reading its panels from end to end.
class Walk {
 public:
  Walk(const TileWalk& walk, const L2Model& l2)
      : walk_(walk),
        l2_(l2),
        a_(walk.m, walk.tile_m, static_cast<double>(walk.k) * walk.operand_bytes),
        b_(walk.n, walk.tile_n, static_cast<double>(walk.k) * walk.operand_bytes) {}

  double reads() {
    Panels& grouped = walk_.rows_first ? a_ : b_;
    Panels& other = walk_.rows_first ? b_ : a_;
    const auto tiles = static_cast<double>(grouped.count()) * static_cast<double>(other.count());
    std::uint64_t walked = 0;
    for (std::uint64_t first = 0; first < grouped.count(); first += walk_.group) {
      const std::uint64_t end = std::min(grouped.count(), first + walk_.group);
      for (std::uint64_t across = 0; across < other.count(); ++across) {
        for (std::uint64_t along = first; along < end; ++along) {
          touch(grouped, along);
          touch(other, across);
          if (++taken_ == walk_.at_once) end_wave();
        }
        walked += end - first;
        // The tiles after so many read as much as those before.
        if (walked >= kMostWalked) return total_ * (tiles / static_cast<double>(walked));
      }
    }
    return total_;
  }

 private:
  static constexpr std::uint64_t kMostWalked = std::uint64_t{1} << 22;

  void touch(Panels& panels, std::uint64_t panel) {
    int& seen = panels.seen_in(panel);
    if (seen == wave_) return;
    const double bytes = panels.bytes(panel);
    double missed = bytes;
    if (seen >= 0) {
      const auto last = static_cast<std::size_t>(seen);
      missed *= l2_.miss(footprints_[last] + fetched_ - fetched_after_[last]);
    }
    footprint_ += bytes;
    fetched_here_ += missed;
    total_ += missed;
    seen = wave_;
  }

  void end_wave() {
    const double streamed =
        static_cast<double>(taken_ * walk_.tile_m * walk_.tile_n) * walk_.streamed_per_result;
    footprints_.push_back(footprint_ + streamed);
    fetched_ += fetched_here_ + streamed;
    fetched_after_.push_back(fetched_);
    footprint_ = fetched_here_ = 0;
    taken_ = 0;
    ++wave_;
  }

  const TileWalk& walk_;
  const L2Model& l2_;
  Panels a_;
  Panels b_;
  double total_ = 0;
  int wave_ = 0;
  std::uint64_t taken_ = 0;
  double footprint_ = 0;               // of this wave
  double fetched_here_ = 0;            // by this wave
  double fetched_ = 0;                 // by all waves before
  std::vector<double> footprints_;     // of waves
  std::vector<double> fetched_after_;  // each wave
};

}  // namespace

double L2Model::miss(double distance) const {
  return std::clamp((distance - near) / (far - near), 0.0, 1.0);
}

double L2Model::mean_miss(double from, double to) const {
  constexpr int kSteps = 8;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += miss(from + (to - from) * (i + 0.5) / kSteps);
  return sum / kSteps;
}

L2Model streaming_l2(std::uint64_t l2_bytes) {
  const auto bytes = static_cast<double>(l2_bytes);
  return {.near = 0.64 * bytes, .far = 1.12 * bytes};
}

L2Model tiles_l2(std::uint64_t l2_bytes) {
  const auto bytes = static_cast<double>(l2_bytes);
  return {.near = 0.40 * bytes, .far = 0.72 * bytes};
}

double operand_reads(const TileWalk& walk, const L2Model& l2) { return Walk(walk, l2).reads(); }

}  // namespace fusecalc
