#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/attention_parts.hpp"
#include "codegen/epilogue.hpp"
#include "codegen/schedule.hpp"
#include "plan/attention_operands.hpp"
#include "plan/attention_tiling.hpp"

namespace fusecalc {

// How a kernel of kernels/attention_few.cuh distributes its work.
struct FewQueries {
  FewTiling tiling{};
  KeySplit keys{};
};

// Writes one attention kernel.
class AttentionWriter {
 public:
  AttentionWriter(const KernelView& kernel, const std::vector<OpId>& contractions,
                  const Device& device)
      : kernel_(kernel),
        code_(kernel),
        graph_(kernel.graph()),
        first_(contractions.front()),
        last_(contractions.back()),
        op_(kernel.op(last_)),
        device_(device),
        epilogue_(Epilogue::of_attention(code_, contractions.back())),
        parts_(attention_parts(code_, contractions.front(), contractions.back(),
                               epilogue_.made_type())) {}

  GeneratedKernel write();

 private:
  // attention_tensor_cores.cpp:
  std::string pointer_of(const OperandStrides& strides);
  // Whether a building block for tensor cores takes the operands; then finds where they lie.
  bool fits_tensor_cores();
  bool fits_copy_engine() const;
  void write_tensor_cores();
  // The files of a kernel's building block, and its type up to the arguments that all have.
  struct BuildingBlock {
    std::vector<std::string_view> files;
    std::string type;
  };
  BuildingBlock few_block(const FewQueries& few) const;
  BuildingBlock sm90_block() const;
  BuildingBlock sm80_block() const;
  std::string_view element() const;
  bool has_words() const { return element_bytes_ == 4; }
  std::uint64_t sm90_rows() const;
  std::uint64_t tile_keys() const;  // of sm_90
  void write_sm90();
  void write_sm80();
  std::optional<FewQueries> few_queries() const;
  void write_few(const FewQueries& few);
  std::string strides() const;
  std::string rows_of(const OperandStrides& strides);
  MappedTensor map_of(const OperandStrides& strides, const Matrices& operand, std::uint64_t heads,
                      std::uint32_t box) const;
  std::string entry(std::string_view bounds, std::string_view parameters,
                    std::string_view operands) const;

  void write_any();
  std::string operands_of_any();
  bool plain() const { return !parts_.scores && !parts_.weights; }
  std::string_view name_of_scores() const { return plain() ? "PlainScores" : "Scores"; }
  std::string scores_struct() const;
  bool scores_load_eights() const;
  std::string made_scores() const;
  std::string shape() const;

  const KernelView& kernel_;
  KernelCode code_;
  const OpGraph& graph_;
  OpId first_;
  OpId last_;
  const Op& op_;
  const Device& device_;
  Epilogue epilogue_;
  AttentionParts parts_;
  OperandStrides q_, k_, v_;
  std::uint64_t head_ = 0;  // the head size that the tensor cores' building blocks are compiled for
  std::uint64_t element_bytes_ = 0;  // of their operands
  GeneratedKernel result_;
};

}  // namespace fusecalc
