#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/matrix_product.hpp"
#include "codegen/schedule.hpp"
#include "codegen/scope.hpp"
#include "plan/halves.hpp"

namespace fusecalc {

// The Epilogue struct (kernels/epilogue.cuh) for everything in a kernel that follows its
// contraction, and the entries that merge what its blocks reduced.
class Epilogue {
 public:
  // Throws Error for what the building blocks do not support: a second use of a row's reduction,
  // for example.
  Epilogue(KernelCode& code, OpId contraction, std::string name = "Epilogue");
  // For attention: the building block itself computes the first product and the softmax.
  static Epilogue of_attention(KernelCode& code, OpId contraction) {
    return {code, contraction, "Epilogue", true};
  }

  // If columns are reduced, their length, which becomes the number of rows of a matrix; else 0.
  std::uint64_t rows_of_matrix() const;
  bool reduces() const { return accumulator_ != nullptr; }
  unsigned column_parts() const { return columns_ && reduces() ? accumulator_->tile_words : 0; }
  unsigned row_parts() const { return reduces() && !columns_ ? accumulator_->tile_words : 0; }
  // Whether a whole row must be reduced before any result that depends on it can be stored.
  bool holds_rows() const { return holds_rows_; }
  // Whether it takes two halves of the columns side by side: tiles have the same ones of both.
  const std::optional<Halves>& halves() const { return halves_; }
  // Whether all results of a convolution leave with their channels last (plan/channels_last.hpp).
  bool ends_channels_last() const;
  // The type of the contraction's sums.
  ComputeType made_type() const { return made_type_; }

  // What the building block can do for it: load a tensor ahead; store the one result, of rows of
  // which each `period` are alike but for what the contraction made of them, and bring a tensor
  // that lies as the result.
  struct Services {
    bool loads_ahead = false;
    bool stores = false;
    bool stores_last = false;  // and so, in the order of channels last, where the result has that
    bool brings = false;
    std::uint64_t period = 0;
    bool channels_last = false;   // the product's rows are a convolution's pixels, of all images
    bool columns_beyond = false;  // it may be called for eight columns beyond, none of them real
    unsigned width = 8;           // columns that it takes at a time
    bool keeps_terms = false;     // it keeps what is the same in all rows, if rows are pixels
  };
  // Writes the epilogue of a product; each partial of a row covers `tile_columns`. The functions
  // below may be called afterwards, once all of the kernel's pointers were requested.
  void write(const MatrixProduct& product, std::uint64_t tile_columns,
             const Services& services = {false, false, false, false, 0, false, false, 8, false});
  // How many terms of columns there are, which the building block keeps (kernels/epilogue.cuh).
  std::uint64_t terms() const { return terms_.size(); }
  // Whether the building block stores the result.
  bool stored_outside() const { return block_.made.has_value(); }
  // The same for contract_rows_*.cuh, which hold whole rows.
  void write_rows(const MatrixProduct& product, const Services& services);
  // The same for attention: a row is a (batch, head, query), and all its columns are in one tile.
  void write_attention(std::uint64_t heads, std::uint64_t queries, std::uint64_t rows,
                       std::uint64_t columns);
  std::string text() const;                 // the struct
  std::string made() const;                 // an instance of it, in an entry
  std::string workspace_parameter() const;  // an entry's last parameter, with its comma
  // Reserves more room in the workspace, once it is written; returns its offset.
  std::uint64_t reserve(std::uint64_t bytes);
  std::string preamble() const;
  // Adds the entries that run after the kernel's, and the workspace between them.
  void finish(GeneratedKernel& kernel) const;

 private:
  // Rows that one partial of a column covers: ContractShape::kStripRows.
  static constexpr std::uint64_t kStripRows = 64;

  Epilogue(KernelCode& code, OpId contraction, std::string name, bool attends);
  void find_reduction();
  void find_terms();
  void write_elements(std::uint64_t rows, std::uint64_t columns);
  bool is_same_in_columns() const;
  bool ignores_place(OpId id) const;
  void take_half(const Scope& scope, bool second) const;
  // The loop over the matrix, of which v holds `made`.
  Loop loop_over(TensorId made) const;
  bool stored_first(TensorId result) const;
  // Whether blocks leave parts of a reduction for an entry that merges them.
  bool merges() const { return reduces() && !holds_rows_; }
  void write_picked(const Scope& scope);
  void store_row_results(const Scope& scope) const;
  std::string function_of_sums();
  void write_merge();
  // epilogue_text.cpp:
  std::string found() const;
  std::string functions_of_rows() const;
  std::string function_ahead() const;
  std::string functions_of_prefetches() const;
  std::string column_clamp() const;
  std::string function_of_terms() const;
  std::string merge_entry() const;
  std::string total_entry() const;

  KernelCode& code_;
  const KernelView& kernel_;
  const OpGraph& graph_;
  OpId contraction_;
  std::string name_;  // of the struct
  bool attends_;
  TensorId sums_ = kNone;  // of an attention's rows, if they are needed
  std::string sums_function_;
  std::optional<Halves> halves_;
  Roots roots_;
  ComputeType made_type_;
  const AccumulatorRow* accumulator_ = nullptr;
  OpId reduction_ = kNone;
  bool columns_ = false;
  bool holds_rows_ = false;
  TensorId kept_ = kNone;  // if so: the value whose elements it holds

  std::uint64_t rows_ = 1;     // of all matrices
  std::uint64_t results_ = 0;  // of the reduction
  std::uint64_t partials_ = 0;
  std::uint64_t merged_ = 1;    // partials of a result
  std::uint64_t reserved_ = 0;  // bytes
  std::uint64_t n_ = 1;
  std::uint64_t strips_ = 1;
  std::string row_number_;  // of an element
  std::string signature_;
  Services services_;
  CodeBlock block_;
  std::vector<std::string> terms_;  // of block_'s, those that its own code reads
  std::string second_;              // the body of the second function (write_rows)
  std::string merge_body_;
  std::string state_;
  std::string total_body_;
};

}  // namespace fusecalc
