// Kernels of the gradients of a layer_norm or an rms_norm; their traffic is described in
// kernels/norm_backward.cuh.

#include "plan/norm_backward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

// Numbers between the blocks' sums of two columns of the same number; whole lines of the L2.
constexpr std::uint64_t kSliceColumns = 128;
constexpr std::uint64_t kGateBytes = 256;

class NormBackward {
 public:
  NormBackward(const KernelView& kernel, const Device& device)
      : kernel_(kernel),
        op_(kernel.op(kernel.ops().front())),
        code_(kernel),
        centers_(op_.row->accumulator == Accumulator::kMoments),
        number_(computes_in_f64(kernel.graph(), op_) ? ComputeType::kF64 : ComputeType::kF32) {
    const auto tiling = norm_backward_tiling(kernel.graph(), op_, device.on_chip_bytes);
    if (!tiling) refuse(kernel.graph(), {Obstacle::kLongRows, kernel.ops().front()});
    tiling_ = *tiling;
    blocks_ = std::min(std::max<std::uint64_t>(1, device.multiprocessors),
                       ceil_div(tiling_.rows, tiling_.teams));
    pitch_ = ceil_div(tiling_.length, kSliceColumns) * kSliceColumns;
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      if (kernel.needed_outside(op_.outputs[i])) results_[gradient_of(op_, i)] = op_.outputs[i];
    }
    sums_ = (results_[1] != kNone ? 1U : 0U) + (results_[2] != kNone ? 1U : 0U);
  }

  GeneratedKernel write() {
    // The reader's pointers are members of a struct: all of them must be known first.
    for (const TensorId id : results_) {
      if (id != kNone) code_.parameters().output(id);
    }
    const std::string functions = readers() + stores();
    GeneratedKernel result;
    std::string& text = result.source.text;
    text = preamble(kernel_.graph(), tiling_.rows * tiling_.length);
    text += embedded_kernel("norm_backward");
    text += fmt::format("\n{}\nstruct In {{\n{}{}}};\n\n", constants(),
                        code_.parameters().members(), functions);
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, 1) fused({}{}) {{\n"
        "  extern __shared__ __align__(16) u8 shared[];\n  const In in{{{}}};\n"
        "  norm_backward<Tiling>(in, {}, shared);\n}}\n",
        tiling_.threads(), code_.parameters().declarations(), sums_ > 0 ? ", u32* gates" : "",
        code_.parameters().arguments(),
        sums_ > 0 ? fmt::format("gates, reinterpret_cast<Tiling::Number*>(gates + {})",
                                kGateBytes / sizeof(std::uint32_t))
                  : "nullptr, nullptr");
    result.source.entries = {"fused"};
    result.storages = code_.parameters().storages();
    result.threads = tiling_.threads();
    result.blocks = blocks_;
    result.shared_bytes = static_cast<std::uint32_t>(tiling_.shared_bytes);
    result.schedule =
        fmt::format("rows by {} threads, {} at a time in each block", tiling_.team, tiling_.teams);
    if (sums_ > 0) {
      result.cooperative = true;
      result.workspace_bytes = kGateBytes + blocks_ * sums_ * pitch_ * number_bytes();
      result.gaps.more_reads = result.gaps.more_writes =
          "blocks leave their sums of columns in memory for each other";
    }
    return result;
  }

 private:
  std::uint64_t number_bytes() const { return number_ == ComputeType::kF64 ? 8 : 4; }
  bool weighs() const { return op_.operands.size() > weight_at(); }
  std::size_t weight_at() const { return centers_ ? 4 : 3; }
  bool copied(std::size_t i) const { return copied_as_stored(kernel_.graph(), op_.operands[i]); }
  DType type_of(std::size_t i) const { return kernel_.tensor(op_.operands[i].tensor).type.dtype; }
  std::string_view held_type(std::size_t i) const {
    return copied(i) ? stored_type(type_of(i)) : name_of(number_);
  }

  std::string constants() const {
    const std::uint64_t slices = std::max<std::uint64_t>(1, sums_ * pitch_ / kSliceColumns);
    const std::uint64_t each = std::bit_ceil(ceil_div(slices, blocks_));
    return fmt::format(
        "struct Tiling {{\n  typedef {} Number;\n  typedef {} X;\n  typedef {} Dy;\n"
        "  typedef {} Weight;\n  static constexpr u64 kRows = {}ull;\n"
        "  static constexpr u32 kLength = {}, kPitch = {}, kTeam = {}, kTeams = {}, "
        "kThreads = {};\n"
        "  static constexpr u32 kStages = {}, kSums = {}, kSlices = {};\n"
        "  static constexpr int kWidth = {}, kRounds = {};\n"
        "  static constexpr bool kCenters = {}, kWeighs = {}, kDx = {}, kDw = {}, kDb = {};\n}};\n",
        name_of(number_), held_type(1), held_type(0),
        weighs() ? held_type(weight_at()) : name_of(number_), tiling_.rows, tiling_.length, pitch_,
        tiling_.team, tiling_.teams, tiling_.threads(), tiling_.stages, sums_,
        std::min<std::uint64_t>(each, tiling_.threads() / kWarp), tiling_.width, tiling_.rounds,
        centers_, weighs(), results_[0] != kNone, results_[1] != kNone, results_[2] != kNone);
  }

  // Brings a group of an operand to `to`: as it is stored, or one by one where that is not known.
  std::string group_reader(std::string_view name, std::size_t i, std::string_view how) {
    const std::string group = fmt::format("Pack<{}, {}>& to", held_type(i), tiling_.width);
    const TensorId id = op_.operands[i].tensor;
    if (copied(i)) {
      return fmt::format(
          "  __device__ __forceinline__ void {}({}, idx i) const {{\n    {};\n  }}\n", name, group,
          fmt::format(fmt::runtime(how), code_.parameters().input(id)));
    }
    const std::string element = fmt::format("{}_one", name);
    return element_function(code_, element + "(idx i)", id, "i", number_) +
           fmt::format(
               "  __device__ __forceinline__ void {}({}, idx i) const {{\n"
               "    for (int j = 0; j < {}; ++j) to.v[j] = {}(i + j);\n  }}\n",
               name, group, tiling_.width, element);
  }

  std::string readers() {
    const auto copy = [&](std::size_t i) {
      // Copies that run by themselves are of 4 bytes at least.
      const bool alone = tiling_.width * bytes_of(type_of(i), 1) >= 4;
      return std::string(alone ? "copy_async(to, {} + i)" : "copy_now(to, {} + i)");
    };
    std::string text = group_reader("start_x", 1, copy(1)) + group_reader("start_dy", 0, copy(0));
    if (weighs()) {
      text += group_reader("take_weight", weight_at(),
                           fmt::format("to = load_pack<{}>({{}} + i)", tiling_.width));
    } else {
      text += "  template <typename P>\n  __device__ void take_weight(P&, idx) const {}\n";
    }
    text +=
        element_function(code_, "rstd(idx i)", op_.operands[weight_at() - 1].tensor, "i", number_);
    text += centers_ ? element_function(code_, "mean(idx i)", op_.operands[2].tensor, "i", number_)
                     : fmt::format("  __device__ {} mean(idx) const {{ return 0; }}\n",
                                   name_of(number_));
    return text;
  }

  std::string stores() {
    std::string text = fmt::format(
        "  __device__ __forceinline__ void store_dx(idx i, const {} (&v)[{}]) const {{\n",
        name_of(number_), tiling_.width);
    if (results_[0] != kNone) {
      const DType dtype = kernel_.tensor(results_[0]).type.dtype;
      text += fmt::format("    Pack<{0}, {1}> pack;\n", stored_type(dtype), tiling_.width);
      text += number_ == ComputeType::kF32
                  ? "    store_lanes(pack, v);\n"
                  : fmt::format("    for (int j = 0; j < {}; ++j) store_as(pack.v[j], ({})v[j]);\n",
                                tiling_.width, name_of(compute_type(dtype)));
      text +=
          fmt::format("    store_pack({} + i, pack);\n", code_.parameters().output(results_[0]));
    }
    text += "  }\n";
    for (const std::size_t which : {std::size_t{1}, std::size_t{2}}) {
      text += fmt::format("  __device__ __forceinline__ void store_{}(u32 c, {} sum) const {{\n",
                          which == 1 ? "dw" : "db", name_of(number_));
      if (results_[which] != kNone) {
        text +=
            fmt::format("    put({}, c, ({})sum);\n", code_.parameters().output(results_[which]),
                        name_of(compute_type(kernel_.tensor(results_[which]).type.dtype)));
      }
      text += "  }\n";
    }
    return text;
  }

  const KernelView& kernel_;
  const Op& op_;
  KernelCode code_;
  bool centers_;  // a layer_norm
  ComputeType number_;
  NormBackwardTiling tiling_;
  std::array<TensorId, 3> results_ = {kNone, kNone, kNone};  // by gradient; kNone: not needed
  unsigned sums_ = 0;                                        // of columns
  std::uint64_t blocks_ = 1;
  std::uint64_t pitch_ = 0;  // columns, from one block's sums to the next kind's
};

}  // namespace

GeneratedKernel generate_norm_backward(const KernelView& kernel, const Device& device) {
  return NormBackward(kernel, device).write();
}

}  // namespace fusecalc
