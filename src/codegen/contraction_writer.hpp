#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/convolution.hpp"
#include "codegen/epilogue.hpp"
#include "codegen/kernel_facts.hpp"
#include "codegen/matrix_product.hpp"
#include "codegen/schedule.hpp"
#include "plan/grouped_weights.hpp"
#include "plan/mma_tiling.hpp"
#include "plan/shallow.hpp"
#include "plan/siblings.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

// The largest power of two, up to `most`, that all lines of an operand begin at multiples of.
std::uint64_t alignment_of(const MatrixOperand& operand, std::uint64_t most = 8);

// Writes one kernel around a product, or around siblings (plan/siblings.hpp): the first of them is
// the writer's own, and all others have the same operand A.
class ContractionWriter {
 public:
  // `way`: which of the tilings that take about the least time, the best first.
  ContractionWriter(const KernelView& kernel, OpId id, const Device& device,
                    std::span<const KernelView> others = {}, std::size_t way = 0)
      : kernel_(kernel),
        code_(kernel),
        graph_(kernel.graph()),
        id_(id),
        op_(kernel.op(id)),
        device_(device),
        way_(way),
        epilogue_(code_, id, others.empty() ? "Epilogue" : "Epilogue0") {
    for (const KernelView& other : others)
      siblings_.emplace_back(other, code_, siblings_.size() + 1);
  }

  GeneratedKernel write();
  // How many tilings there were, once it is written.
  std::size_t ways() const { return ways_; }

 private:
  static constexpr unsigned kPackThreads = 256;

  // A part of the kernel with a product of its own.
  struct Sibling {
    Sibling(const KernelView& part, const KernelCode& first, std::size_t number)
        : code(part, first),
          id(contraction_of(part.graph(), part.ops())),
          op(part.op(id)),
          epilogue(code, id, "Epilogue" + std::to_string(number)) {}

    KernelCode code;
    OpId id;
    const Op& op;
    Epilogue epilogue;
  };

  // The number of this way's tiling, of so many.
  std::size_t tiling_of(std::size_t tilings);
  template <class Tiling>
  const Tiling& tiling_of(const std::vector<Tiling>& tilings) {
    return tilings[tiling_of(tilings.size())];
  }
  DType operand_type() const { return graph_.tensors[op_.operands[0].tensor].type.dtype; }
  // Elements of a line in a box that the copy engine brings.
  std::uint32_t box_elements() const {
    return static_cast<std::uint32_t>(kBoxBytes / bytes_of(operand_type(), 1));
  }
  bool convolves() const { return op_.row->family == OpFamily::kConvolution; }
  bool multiplies_on_tensor_cores() const;  // what the operands' type allows
  bool fits_tensor_cores() const;
  bool fits_copy_engine(const MatrixProduct& product) const;
  std::optional<MatrixProduct> in_pieces() const;
  std::optional<MatrixProduct> in_strides() const;
  std::optional<LibraryProduct> library_call() const;
  // Of one product, or of two whose results are halves: as if their weights were one matrix.
  std::optional<MatrixProduct> joined(std::optional<MatrixProduct> product) const;
  // The second half of B's lines, as an operand of its own.
  MatrixOperand second_half() const;
  // What tiles take their columns of B from: one matrix, two halves, or one of each sibling.
  std::vector<MatrixOperand> sources_of_b() const;
  // That of the tiles.
  ProductShape tiled_shape() const;
  bool reads_elsewhere() const;
  void write_epilogues(std::uint64_t tile_columns, const Epilogue::Services& services);
  // The struct Epilogue, and an instance of it.
  std::string epilogue_text() const;
  std::string made_epilogue() const;
  MappedTensor map_in_order(const MatrixOperand& operand, std::uint64_t lines) const;
  // Of contract_sm90: what it is, how it fetches B, and on how many blocks it runs.
  KernelFacts sm90_facts(const ProductTiling& tiling, const ProductShape& size) const;
  static std::string matrix_source(const TileWidth& width);
  // What follows the epilogue among its arguments: nothing, if all are the usual ones. `source` is
  // where B's lines come from, `beside` how many blocks share A.
  std::string sm90_more(const std::string& source, std::uint64_t beside,
                        const ProductShape& size) const;
  // How a step's sums are added, where not in place.
  std::string sums_text(const ProductShape& size) const;
  std::string_view lines_of_b(bool in_order) const;
  std::uint64_t sm90_blocks(const ProductTiling& tiling, const ProductShape& size) const;
  void write_sm90();
  bool fits_row_clusters() const;
  // Whole rows of the result in the registers of a cluster's blocks. The second half comes when all
  // else of the kernel is there: every tiling of it is a way to run it.
  bool rows_in_order() const;
  void write_rows();
  void tile_rows();
  // Of contract_sm80: what it multiplies, in which tiles, and what it is.
  MmaOperands mma_operands() const;
  std::string contract_sm80(const MmaTile& tile) const;
  KernelFacts sm80_facts(const MmaTile& tile) const;
  std::string launch_sm80(const MmaTile& tile, std::uint64_t column_tiles);
  void write_sm80();
  // By one of those two, after a copy of lines that begin at odd places, where that repays.
  void write_tiles();
  bool multiplies_by_wgmma() const;
  MatrixOperand padded(const MatrixOperand& operand, std::uint64_t lines);
  bool copy_lines();
  bool pad_lines();
  void write_padding();
  void write_vector();
  // Ways for a short k stand before those in tiles, or behind the first of these, whichever is
  // likely to be faster.
  void take_shallow(const MatrixProduct& product);
  void take_shallow_convolution();
  // `result`: what the epilogue is of.
  void write_shallow(const ShallowTiling& tiling, const MatrixProduct& result, bool channels_last);
  bool is_skinny() const;
  void write_skinny();
  void write_skinny_sm90();
  void write_skinny_sm80();
  // Whether a prologue computes the second operand.
  bool computes_weights() const;
  unsigned width_of_weights() const;
  std::string weights_struct();
  // Where these are packed integers of few rows' products.
  std::optional<GroupedWeights> packed_weights() const;
  std::string packed_struct(const GroupedWeights& weights);
  bool write_nibbles(const GroupedWeights& weights);
  // Whether a prologue computes the first operand.
  bool computes_rows() const;
  std::optional<MatrixProduct> in_lines() const;
  std::string prologue_body();
  std::string prologue_struct(const std::string& body, std::uint64_t beside) const;
  std::string prologue_made() const;
  void write_prologue();
  void write_prologue_sm90();
  void write_prologue_sm80();
  void take_whole();
  void write_any();
  void write_rows_any();
  std::optional<MatrixProduct> pixels_in_tiles() const;
  bool convolves_in_tiles(const Convolution& convolution) const;
  void write_convolution();
  // Whether its epilogue is one of a matrix with its channels last, which is the product.
  bool leaves_channels_last(const Convolution& convolution) const;
  static MatrixProduct product_of_pixels_last(const Convolution& convolution);
  bool write_convolution_few(const Convolution& convolution);  // if its channels are few, and last
  void write_convolution_sm80(const Convolution& convolution);
  std::optional<MatrixProduct> pixels_in_copies() const;
  void write_convolution_pixels(const Convolution& convolution);
  std::uint64_t groups_together(const Convolution& convolution) const;
  bool gathers_windows(const Convolution& convolution) const;
  bool copies_input(const Convolution& convolution) const;
  // `together`: groups that were merged to one of these.
  void write_convolution_sm90(const Convolution& convolution, std::uint64_t together);
  void write_convolution_rows(const Convolution& convolution, std::uint64_t together,
                              std::uint64_t split);
  std::uint64_t reserve_windows(const Convolution& convolution, bool taken);
  std::string gathering_blocks() const;
  std::string row_entry(const ProductTiling& tiling, const std::string& pixels);
  // Tiles whose rows are pixels: small ones, or else wide ones of contract_sm90.
  struct RowTiles {
    std::optional<SmallTiles> small{};
    ProductTiling wide{};
  };
  RowTiles row_tiles(std::uint64_t split, bool copies);
  std::string small_entry(const SmallTiles& tiles, const std::string& windows);
  // Whether the kernel's map is of the weights as they lie.
  bool takes_weights(const Convolution& convolution, std::uint64_t together) const;
  std::string window_entry(const WindowTiles& tiles, const std::string& windows);
  void write_window_packing(const Convolution& convolution, std::uint64_t together,
                            const std::string& x, std::uint64_t input_at);
  MappedTensor map_of_windows(const Convolution& convolution, std::uint64_t at,
                              std::uint64_t pixels) const;
  // Whether planes of the input are a stream, of which a block should hold some.
  bool takes_planes(const Convolution& convolution) const;
  bool turns_planes(const Convolution& convolution) const;
  std::string turn_planes(const Convolution& convolution);
  bool write_convolution_planes(const Convolution& convolution);  // if some fit
  bool write_convolution_last(const Convolution& convolution);    // if its channels lie last
  bool write_down_of_last(const Convolution& convolution, const LastShape& shape);
  bool write_bands_of_last(const Convolution& convolution, const LastShape& shape);
  void write_convolution_any(const Convolution& convolution);
  std::string weights_of_convolution();
  void pack_weights(std::uint64_t elements);
  // The entry `pack`, before all others: so many blocks of 256 threads.
  void write_pack(std::string_view body, std::uint64_t blocks);
  // With the kernel's pointers; all of them were requested.
  std::string operands_struct(const std::string& functions) const;
  void add_any(std::string_view block, const std::string& functions, const std::string& contract,
               const std::string& asserts);
  void reserve_packed();
  void write_packing();
  // Of rows in groups (kernels/row_groups.cuh): asks for where they end, as early as for operands;
  // then what a contract's type, the text before it and its call have more, each with its comma.
  void request_ends();
  std::string groups_type(std::string_view before) const;
  std::string groups_text() const;
  std::string made_groups() const;
  std::uint64_t groups_bytes() const;  // of shared memory
  // Of operands that are scaled block by block along k. Where contract_sm90 can scale the sums of
  // its steps (kernels/step_scales.cuh), the same as for groups; else they are scaled as they are
  // loaded.
  bool scales_blocks() const;
  std::string scale_index(std::size_t which, std::string_view line, std::string_view depth) const;
  void request_scales(bool together);
  std::uint64_t scale_bytes(const TileWidth& width) const;
  std::string scales_text() const;
  std::string made_scales() const;
  void write_scaled_blocks();
  std::string pointer_of(const MatrixOperand& operand);
  std::string strides() const;
  std::string operands_of_any();
  std::string shape(std::uint64_t group) const;
  static std::string blocks(std::initializer_list<std::string_view> names);  // of kernels/
  std::string entry(std::string_view bounds, std::string_view parameters,
                    std::string_view call) const;
  // The same around `contract`, a block's struct with its arguments but for the epilogue: one that
  // takes its operands as tensor maps, or as pointers and strides. `resident`: what
  // __launch_bounds__ says after the threads, with its comma; `more`: arguments after the epilogue.
  // Each source of B is a map.
  std::string mapped_entry(std::string_view contract, const KernelFacts& facts,
                           std::string_view resident, std::string_view more = {}) const;
  std::string strided_entry(std::string_view contract, const KernelFacts& facts,
                            std::string_view resident, std::string_view a, std::string_view b,
                            std::string_view more = {}) const;
  MappedTensor map_of(const MatrixOperand& operand, std::uint64_t lines,
                      std::uint32_t box_lines) const;

  const KernelView& kernel_;
  KernelCode code_;
  const OpGraph& graph_;
  OpId id_;
  const Op& op_;
  const Device& device_;
  std::size_t way_;
  std::size_t ways_ = 1;
  std::size_t shallow_ways_ = 0;
  std::optional<ShallowTiling> shallow_{};  // of this way
  Epilogue epilogue_;
  // Operands that are copied first, and where to (pad_lines.cuh).
  struct Padded {
    MatrixOperand from;
    std::uint64_t lines = 0;
    std::uint64_t at = 0;  // bytes from the first copy on
    std::uint64_t bytes = 0;
  };
  std::vector<Padded> padded_;
  std::vector<MatrixOperand> padded_b_;  // the copies of several sources of B
  std::deque<Sibling> siblings_;  // these refer to each other's members: they stay where they are
  MatrixProduct product_;
  std::optional<MatrixProduct> strided_;
  std::string ends_;    // the function that loads where a group of rows ends
  std::string scales_;  // those that load scales of a step
  GeneratedKernel result_;
};

}  // namespace fusecalc
