// Kernels of the gradients of a layer_norm or an rms_norm; their traffic is described in
// kernels/norm_backward.cuh.

#include "plan/norm_backward.hpp"

#include <fmt/format.h>

#include <array>

#include "codegen/column_sums.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

class NormBackward {
 public:
  NormBackward(const KernelView& kernel, const Device& device)
      : kernel_(kernel),
        op_(kernel.op(kernel.ops().front())),
        code_(kernel),
        centers_(op_.row->accumulator == Accumulator::kMoments) {
    const auto tiling = norm_backward_tiling(kernel.graph(), op_, device.on_chip_bytes);
    if (!tiling) refuse(kernel.graph(), {Obstacle::kLongRows, kernel.ops().front()});
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      if (kernel.needed_outside(op_.outputs[i])) results_[gradient_of(op_, i)] = op_.outputs[i];
    }
    around_ = {
        .tiling = *tiling,
        .number = computes_in_f64(kernel.graph(), op_) ? ComputeType::kF64 : ComputeType::kF32,
        .row_sums = results_[0] == kNone ? 0U
                    : centers_           ? 2U
                                         : 1U,
        .sums = (results_[1] != kNone ? 1U : 0U) + (results_[2] != kNone ? 1U : 0U),
        .blocks = tiling->blocks(device.multiprocessors)};
  }

  GeneratedKernel write() {
    // The reader's pointers are members of a struct: all of them must be known first.
    for (const TensorId id : results_) {
      if (id != kNone) code_.parameters().output(id);
    }
    const std::string functions = readers() + stores();
    const std::string structs =
        fmt::format("{}\n{}\nstruct In {{\n{}{}}};\n", embedded_kernel("norm_backward"),
                    around_.constants(constants()), code_.parameters().members(), functions);
    return around_.write(code_, structs, "const NormGradients<Tiling, In> body{in};");
  }

 private:
  bool weighs() const { return op_.operands.size() > weight_at(); }
  std::size_t weight_at() const { return centers_ ? 4 : 3; }
  bool copied(std::size_t i) const { return copied_as_stored(kernel_.graph(), op_.operands[i]); }
  DType type_of(std::size_t i) const { return kernel_.tensor(op_.operands[i].tensor).type.dtype; }
  std::string_view held_type(std::size_t i) const {
    return copied(i) ? stored_type(type_of(i)) : name_of(number());
  }

  ComputeType number() const { return around_.number; }
  unsigned width() const { return around_.tiling.width; }

  std::string constants() const {
    return fmt::format(
        "  typedef {} X;\n  typedef {} Dy;\n  typedef {} Weight;\n"
        "  static constexpr bool kCenters = {}, kWeighs = {}, kDx = {}, kDw = {}, kDb = {};\n",
        held_type(1), held_type(0), weighs() ? held_type(weight_at()) : name_of(number()), centers_,
        weighs(), results_[0] != kNone, results_[1] != kNone, results_[2] != kNone);
  }

  // The element number `i` of an operand that is not read as it is stored.
  std::string element_reader(std::string_view name, std::size_t i) {
    return element_function(code_, fmt::format("{}(idx i)", name), op_.operands[i].tensor, "i",
                            number());
  }

  // Brings a group of an operand as large as the rows to its place on chip; or reads one element.
  std::string start_function(std::string_view name, std::size_t i) {
    const auto functions = [&](const std::string& group, const std::string& one) {
      return fmt::format(
          "  __device__ __forceinline__ void start_{0}(Pack<{1}, {2}>& to, idx i) const {{\n"
          "    {3};\n  }}\n"
          "  __device__ __forceinline__ Pack<{1}, 1> read_{0}(idx i) const {{ return {4}; }}\n",
          name, held_type(i), width(), group, one);
    };
    if (copied(i)) {
      const std::string memory = code_.parameters().input(op_.operands[i].tensor);
      return functions(fmt::format("start_group(to, {}, i)", memory),
                       fmt::format("load_pack<1>({} + i)", memory));
    }
    return element_reader(name, i) +
           functions(fmt::format("for (int j = 0; j < {}; ++j) to.v[j] = {}(i + j)", width(), name),
                     fmt::format("{{{{{}(i)}}}}", name));
  }

  std::string weight_function() {
    if (!weighs()) return {};
    const std::string signature =
        "  template <int N>\n  __device__ __forceinline__ void take_weight(Pack<Tiling::Weight, "
        "N>& "
        "to, u32 c) const {\n";
    if (copied(weight_at())) {
      return fmt::format("{}    ::take_columns<Tiling>(to, {}, c);\n  }}\n", signature,
                         code_.parameters().input(op_.operands[weight_at()].tensor));
    }
    return element_reader("weight", weight_at()) + signature +
           "    for (int j = 0; j < N; ++j) to.v[j] = weight(c + j);\n  }\n";
  }

  std::string readers() {
    std::string text = start_function("x", 1) + start_function("dy", 0) + weight_function();
    text +=
        element_function(code_, "rstd(idx i)", op_.operands[weight_at() - 1].tensor, "i", number());
    text += centers_ ? element_function(code_, "mean(idx i)", op_.operands[2].tensor, "i", number())
                     : fmt::format("  __device__ {} mean(idx) const {{ return 0; }}\n",
                                   name_of(number()));
    return text;
  }

  std::string stores() {
    std::string text = fmt::format(
        "  template <int N>\n  __device__ __forceinline__ void store_dx(idx i, const {} (&v)[N]) "
        "const {{\n",
        name_of(number()));
    if (results_[0] != kNone) {
      const DType dtype = kernel_.tensor(results_[0]).type.dtype;
      text += fmt::format("    Pack<{}, N> pack;\n", stored_type(dtype));
      text += number() == ComputeType::kF32
                  ? "    store_lanes(pack, v);\n"
                  : fmt::format("    for (int j = 0; j < N; ++j) store_as(pack.v[j], ({})v[j]);\n",
                                name_of(compute_type(dtype)));
      text +=
          fmt::format("    store_pack({} + i, pack);\n", code_.parameters().output(results_[0]));
    }
    text += "  }\n";
    for (const std::size_t which : {std::size_t{1}, std::size_t{2}}) {
      text += fmt::format("  __device__ __forceinline__ void store_{}(u32 c, {} sum) const {{\n",
                          which == 1 ? "dw" : "db", name_of(number()));
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
  bool centers_;                                             // a layer_norm
  std::array<TensorId, 3> results_ = {kNone, kNone, kNone};  // by gradient; kNone: not needed
  ColumnKernel around_;
};

}  // namespace

GeneratedKernel generate_norm_backward(const KernelView& kernel, const Device& device) {
  return NormBackward(kernel, device).write();
}

}  // namespace fusecalc
