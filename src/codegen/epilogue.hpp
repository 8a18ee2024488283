#pragma once

#include <optional>
#include <string>

#include "codegen/matrix_product.hpp"
#include "codegen/schedule.hpp"
#include "codegen/scope.hpp"

namespace fusecalc {

// The Epilogue struct (kernels/epilogue.cuh) for everything in a kernel that follows its
// contraction, and the entries that merge what its blocks reduced.
class Epilogue {
 public:
  // Throws Error for what the building blocks do not support: a second use of a row's reduction,
  // for example.
  Epilogue(KernelCode& code, OpId contraction);
  // For attention, whose rows and first product are the building block's business.
  static Epilogue of_attention(KernelCode& code, OpId contraction) {
    return {code, contraction, true};
  }

  // Where columns are reduced, the rows of a matrix that each of them runs down; 0 elsewhere.
  std::uint64_t rows_of_matrix() const;
  bool reduces() const { return accumulator_ != nullptr; }
  unsigned column_parts() const { return columns_ && reduces() ? accumulator_->tile_words : 0; }
  unsigned row_parts() const { return reduces() && !columns_ ? accumulator_->tile_words : 0; }
  // Whether what follows needs a whole row reduced before it can store any of it.
  bool holds_rows() const { return holds_rows_; }
  // The type that the contraction's sums have.
  ComputeType made_type() const { return made_type_; }

  // Writes it for a product whose partials of rows cover `tile_columns` each. What follows is valid
  // afterwards, once all of the kernel's pointers were asked for.
  void write(const MatrixProduct& product, std::uint64_t tile_columns);
  // The same for contract_rows_*.cuh, where rows are held.
  void write_rows(const MatrixProduct& product);
  // The same for attention: (batch, head, query) counts rows, whose columns are all in one tile.
  void write_attention(std::uint64_t heads, std::uint64_t queries, std::uint64_t rows,
                       std::uint64_t columns);
  std::string text() const;                 // the struct
  std::string made() const;                 // one of it, in an entry
  std::string workspace_parameter() const;  // an entry's last parameter, with its comma
  // Has the workspace hold an operand, too; where it begins.
  std::uint64_t reserve(std::uint64_t bytes);
  std::string preamble() const;
  // Adds the entries that come after the kernel's, and the memory between them.
  void finish(GeneratedKernel& kernel) const;

 private:
  Epilogue(KernelCode& code, OpId contraction, bool attends);
  void find_reduction();
  void write_elements(std::uint64_t rows, std::uint64_t columns);
  // The loop over the matrix, of which v holds `made`.
  Loop loop_over(TensorId made) const;
  bool stored_first(TensorId result) const;
  // Whether blocks leave parts of a reduction for an entry that merges them.
  bool merges() const { return reduces() && !holds_rows_; }
  std::string found() const;
  std::string functions_of_rows() const;
  void write_picked(const Scope& scope);
  void store_row_results(const Scope& scope) const;
  void write_merge();
  std::string merge_entry() const;
  std::string total_entry() const;

  KernelCode& code_;
  const KernelView& kernel_;
  const OpGraph& graph_;
  OpId contraction_;
  Roots roots_;
  ComputeType made_type_;
  const AccumulatorRow* accumulator_ = nullptr;
  OpId reduction_ = kNone;
  bool columns_ = false;
  bool holds_rows_ = false;

  std::uint64_t rows_ = 1;     // of all matrices
  std::uint64_t results_ = 0;  // of the reduction
  std::uint64_t partials_ = 0;
  std::uint64_t merged_ = 1;    // partials of a result
  std::uint64_t reserved_ = 0;  // bytes
  std::uint64_t n_ = 1;
  std::uint64_t strips_ = 1;
  std::string row_number_;  // of an element
  std::string signature_;
  CodeBlock block_;
  std::string second_;  // what is done with a row that is known
  std::string merge_body_;
  std::string state_;
  std::string total_body_;
};

}  // namespace fusecalc
