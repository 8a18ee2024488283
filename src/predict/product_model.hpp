#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "plan/mma_tiling.hpp"
#include "plan/tiling.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// A kernel's only product.
struct ProductKernel {
  const KernelTraffic& traffic;
  ProductShape shape;
  DType type = DType::kF32;
  bool padded = false;        // lines that begin oddly were copied to whole 16 bytes
  double operand_bytes = 2;   // of an element
  double operands = 0;        // bytes of both, each once
  double beside = 0;          // bytes that the epilogue reads
  double prologue = 0;        // instructions that compute the weights
  bool makes_rows = false;    // the first operand is computed as it is read
  double row_prologue = 0;    // instructions for an element of it
  double row_bytes = 0;       // that are read for an element of it
  double epilogue = 0;        // instructions for an element of the result
  bool scales_steps = false;  // where sums of steps are scaled: by tiles of wgmma
  std::uint64_t results = 1;

  std::uint64_t bytes(std::uint64_t count) const {
    return static_cast<std::uint64_t>(static_cast<double>(count) * operand_bytes);
  }
  // All lines of both operands begin at multiples of what divides this.
  std::uint64_t line_bytes() const { return padded ? 16 : a_line_bytes() | b_line_bytes(); }
  std::uint64_t a_line_bytes() const { return bytes(shape.a_across ? shape.m : shape.k); }
  std::uint64_t b_line_bytes() const { return bytes(shape.b_across ? shape.n : shape.k); }
  // Those and the lines of the result.
  bool has_whole_lines() const {
    return (a_line_bytes() | b_line_bytes() | bytes(shape.n)) % 16 == 0;
  }
  // Of the operands that do not begin all lines at multiples of 16 bytes.
  std::uint64_t odd_bytes() const {
    const std::uint64_t a = a_line_bytes() % 16 != 0 ? shape.m : 0;
    const std::uint64_t b = b_line_bytes() % 16 != 0 ? shape.n : 0;
    return std::min(static_cast<std::uint64_t>(operands), bytes((a + b) * shape.k) * shape.batches);
  }
};

// A product of 16-bit elements whose k is short (plan/shallow.hpp): `instructions` of its epilogue.
KernelWork shallow_work(const ProductShape& shape, const Bytes& bytes, bool reading,
                        double instructions, const Device& device);

// Predicts kernels around a product on one device, by who would run them.
class ProductModel {
 public:
  explicit ProductModel(const Device& device) : device_(device), constants_(device.constants) {}

  // A kernel of the vendor's library, with an epilogue that it has.
  KernelWork library_work(const ProductKernel& product);
  // Ours, in tiles.
  KernelWork tile_work(const ProductKernel& product);
  // Whether these run beside the library's, for a product alone (LibraryMatmul::may_be_slow()).
  bool contests(const ProductKernel& product) const;
  // Whether they copy operands first (codegen/contraction_padding.cpp).
  bool pads(const ProductKernel& product) const;
  // Ours, where an epilogue needs whole rows of the result.
  KernelWork whole_rows_work(const ProductKernel& product);

 private:
  // Cycles of all waves of tiles, and blocks that share a tile's k.
  struct Tiling {
    double cycles = 0;
    double splits = 1;
  };
  Tiling library_tiling(const ProductKernel& product, double rate);
  KernelWork lanes_work(const ProductKernel& product);
  KernelWork library_work(const ProductKernel& product, double rate, bool tensor_cores);
  KernelWork skinny_work(const ProductKernel& product) const;
  KernelWork padded_work(const ProductKernel& product);
  void add_padding(const ProductKernel& product, KernelWork& work) const;
  KernelWork mma_work(const ProductKernel& product);
  KernelWork wgmma_work(const ProductKernel& product);
  KernelWork wgmma_work(const ProductKernel& product, const ProductTiling& tiling);
  static double made_cycles(const ProductKernel& product);
  static TileWork work_of_tile(const ProductKernel& product, const ProductTiling& tiling);
  bool beaten(const ProductKernel& product);
  const std::vector<ProductTiling>& wgmma_tilings(const ProductKernel& product);
  double tiled_reads(const ProductKernel& product, std::uint64_t tile_m, std::uint64_t tile_n,
                     bool rows_first, std::uint64_t group, std::uint64_t at_once);

  const Device& device_;
  const DeviceConstants& constants_;
  // Tilings that were chosen and walks that were simulated: layers of a model repeat.
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, double, double>,
           Tiling>
      tilings_;
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                      std::uint64_t, double, double, bool>,
           double>
      walks_;
  std::map<std::tuple<ProductShape, MmaOperands, bool>, bool> beaten_;
  std::map<std::tuple<ProductShape, bool>, std::vector<ProductTiling>> wgmma_tilings_;
};

}  // namespace fusecalc
