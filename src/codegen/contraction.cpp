// Products of matrices with an epilogue: selects one of kernels/contract_*.cuh, and a call of the
// vendor's library where one does the same; writes what all of them share.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "codegen/contraction_writer.hpp"
#include "codegen/elements.hpp"
#include "codegen/library.hpp"
#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "core/embedded.hpp"
#include "graph/product_parts.hpp"
#include "plan/step_scales.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

std::uint64_t alignment_of(const MatrixOperand& operand, std::uint64_t most) {
  const std::uint64_t bits =
      operand.offset | operand.line | operand.inner | operand.outer | operand.jump | most;
  return bits & (~bits + 1);
}

bool ContractionWriter::multiplies_on_tensor_cores() const {
  const DType type = operand_type();
  const bool known =
      device_.capability >= kFirstWithCopies &&
      (type == DType::kBf16 || type == DType::kF16 || type == DType::kF32 || type == DType::kTf32);
  return known && graph_.tensors[op_.operands[1].tensor].type.dtype == type;
}

bool ContractionWriter::fits_tensor_cores() const {
  const DType type = operand_type();
  if (!strided_ || !is_fp8(type)) return strided_ && multiplies_on_tensor_cores();
  // Copies are of four bytes at least, and lines run along k.
  return graph_.tensors[op_.operands[1].tensor].type.dtype == type &&
         device_.capability >= kFirstWithFp8 && !product_.a.across && !product_.b.across &&
         alignment_of(product_.a) >= 4 && alignment_of(product_.b) >= 4;
}

bool ContractionWriter::fits_copy_engine(const MatrixProduct& product) const {
  const DType type = operand_type();
  if (device_.capability != kHopper || graph_.tensors[op_.operands[1].tensor].type.dtype != type) {
    return false;
  }
  const bool along = !product.a.across && !product.b.across;
  const bool taken = type == DType::kBf16 || type == DType::kF16 ||
                     (is_fp8(type) && along && fits_fp8_sums(graph_, op_)) ||
                     (type == DType::kTf32 && along && !computes_rows()) ||
                     (type == DType::kF32 && !computes_rows());
  if (!taken) return false;
  const std::uint64_t whole = 16 / bytes_of(type, 1);
  return (computes_rows() || alignment_of(product.a, whole) == whole) &&
         alignment_of(product.b, whole) == whole;
}

std::string ContractionWriter::blocks(std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += std::string(embedded_kernel(name)) + "\n";
  return text;
}

std::string ContractionWriter::shape(std::uint64_t group) const {
  const auto steps = [](std::uint64_t distance) { return distance > 0 ? 1 : 0; };
  return fmt::format(
      "constexpr ContractShape kShape = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}};\n",
      product_.m, product_.n, product_.k, product_.outer, product_.inner, steps(product_.a.outer),
      steps(product_.a.inner), steps(product_.b.outer), steps(product_.b.inner), group,
      product_.a.piece);
}

std::string ContractionWriter::entry(std::string_view bounds, std::string_view parameters,
                                     std::string_view call) const {
  const std::string pointers = code_.parameters().declarations();
  return fmt::format("extern \"C\" __global__ void {} fused({}{}{}{}) {{\n  {}\n}}\n", bounds,
                     parameters, parameters.empty() || pointers.empty() ? "" : ", ", pointers,
                     epilogue_.workspace_parameter(), call);
}

std::string ContractionWriter::mapped_entry(std::string_view contract, const KernelFacts& facts,
                                            std::string_view resident,
                                            std::string_view more) const {
  std::string parameters = "const __grid_constant__ TensorMap a";
  std::string maps;
  const std::size_t sources = sources_of_b().size();
  for (std::size_t i = 1; i <= sources; ++i) {
    const std::string name = i == 1 ? "b" : fmt::format("b{}", i);
    parameters += fmt::format(", const __grid_constant__ TensorMap {}", name);
    maps += fmt::format("{}&{}", i == 1 ? "" : ", ", name);
  }
  const std::string b = sources == 1 ? "b" : fmt::format("Contract::MapsOfB{{{{{}}}}}", maps);
  return fmt::format("typedef {}, Epilogue{}> Contract;\n", contract, more) +
         facts.asserted_of("Contract") +
         entry(fmt::format("__launch_bounds__(Contract::kThreads{}) __cluster_dims__({}, 1, 1)",
                           resident, facts.blocks_per_cluster),
               parameters,
               fmt::format("Contract::run(a, {}, kShape, {}{});", b, made_epilogue(),
                           made_groups() + made_scales()));
}

std::string ContractionWriter::strided_entry(std::string_view contract, const KernelFacts& facts,
                                             std::string_view resident, std::string_view a,
                                             std::string_view b, std::string_view more) const {
  return strides() +
         fmt::format("typedef {}, Epilogue{}> Contract;\n", contract, groups_type(", NoPrologue")) +
         facts.asserted_of("Contract") +
         entry(fmt::format("__launch_bounds__(Contract::kThreads{})", resident), "",
               fmt::format("Contract::run({}, {}, kShape, kStrides, {}{}{});", a, b,
                           made_epilogue(), more, made_groups()));
}

MappedTensor ContractionWriter::map_of(const MatrixOperand& operand, std::uint64_t lines,
                                       std::uint32_t box_lines) const {
  const std::uint64_t size = bytes_of(operand_type(), 1);
  // The stride of a dimension of extent 1 is never used, but must be a multiple of 16.
  const auto bytes = [&](std::uint64_t distance) { return distance > 0 ? distance * size : 16; };
  const auto extent = [](std::uint64_t distance, std::uint64_t count) {
    return distance > 0 ? count : 1;
  };
  if (operand.piece != 0) {
    return {.storage = graph_.storage_of(operand.tensor),
            .dtype = operand_type(),
            .offset = operand.offset * size,
            .extents = {operand.piece, lines, product_.k / operand.piece,
                        extent(operand.outer, product_.outer)},
            .strides = {bytes(operand.line), bytes(operand.jump), bytes(operand.outer)},
            .box = {box_elements(), box_lines, 1, 1}};
  }
  return {.storage = operand.tensor == kNone ? kNone : graph_.storage_of(operand.tensor),
          .dtype = operand_type(),
          .offset = operand.offset * size,
          .extents = {operand.across ? lines : product_.k, operand.across ? product_.k : lines,
                      extent(operand.inner, product_.inner),
                      extent(operand.outer, product_.outer_of_b())},
          .strides = {bytes(operand.line), bytes(operand.inner), bytes(operand.outer)},
          .box = {box_elements(), operand.across ? box_elements() : box_lines, 1, 1}};
}

std::string ContractionWriter::strides() const {
  return fmt::format("constexpr ContractStrides kStrides = {{{}, {}, {}, {}, {}, {}}};\n",
                     product_.a.line, product_.a.inner, product_.a.outer, product_.b.line,
                     product_.b.inner, product_.b.outer);
}

// The operand's pointer, or that of its copy.
std::string ContractionWriter::pointer_of(const MatrixOperand& operand) {
  if (operand.tensor != kNone) {
    const std::string memory = code_.parameters().input(operand.tensor);
    return operand.offset == 0 ? memory : fmt::format("{} + {}", memory, operand.offset);
  }
  return fmt::format("reinterpret_cast<const {}*>(work + {})", stored_type(operand_type()),
                     result_.packed_at + bytes_of(operand_type(), operand.offset));
}

void ContractionWriter::reserve_packed() {
  for (const Padded& each : padded_) code_.parameters().input(each.from.tensor);
  if (!padded_.empty()) {
    result_.packed_at = epilogue_.reserve(padded_.back().at + padded_.back().bytes);
    return;
  }
  if (product_.a.tensor != kNone) return;
  const TensorId tensor = op_.operands[0].tensor;
  result_.packed_at = epilogue_.reserve(graph_.tensors[tensor].bytes);
  code_.parameters().input(tensor);
}

// The entry that copies `a` to contiguous memory, as frameworks do, if its views cannot be
// expressed as strides.
void ContractionWriter::write_packing() {
  if (product_.a.tensor != kNone || !padded_.empty()) return;
  const Tensor& tensor = graph_.tensors[op_.operands[0].tensor];
  const auto most = static_cast<unsigned>(16 / bytes_of(tensor.type.dtype, 1));
  const unsigned width = tensor.elements % most == 0 ? most : 1;
  const Loop loop{.element = {.name = "i", .pattern = LanePattern::kUnit}};
  CodeBlock block = block_of(width);
  const Value value = element({code_, loop, block}, op_.operands[0].tensor, loop.element);
  const std::string_view type = stored_type(tensor.type.dtype);
  block.before += fmt::format("Pack<{}, {}> y;\n", type, width);
  block.lanes += fmt::format("store_as(y.v[j], {});\n", value.text);
  block.after += fmt::format("store_pack<{}>(reinterpret_cast<{}*>(work + {}) + i, y);\n", width,
                             type, result_.packed_at);
  constexpr std::uint64_t kThreads = 256;
  result_.source.text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({0}) pack({1}, u8* work) {{\n"
      "  const i64 i = ((i64)blockIdx.x * {0} + threadIdx.x) * {2};\n  if (i >= {3}) return;\n"
      "{4}}}\n",
      kThreads, code_.parameters().declarations(), width, tensor.elements, block.text("  "));
  result_.packing = {.blocks = ceil_div(tensor.elements, width * kThreads), .threads = kThreads};
  result_.gaps.more_reads = result_.gaps.more_writes =
      "an operand's views cannot be expressed as strides, so it is copied first, as frameworks do";
}

// The copy engine can assemble lines that are in pieces.
std::optional<MatrixProduct> ContractionWriter::in_pieces() const {
  const auto product = joined(product_of_pieces(graph_, op_, box_elements()));
  constexpr std::uint64_t kMostSkinnyRows = 64;
  const bool fits = product && epilogue_.rows_of_matrix() == 0 && product->m > kMostSkinnyRows &&
                    product->n > 1 && !epilogue_.holds_rows() && fits_copy_engine(*product) &&
                    (!epilogue_.halves() || product->n % 16 == 0);
  return fits ? product : std::nullopt;
}

std::optional<MatrixProduct> ContractionWriter::joined(std::optional<MatrixProduct> product) const {
  if (product && epilogue_.halves() && epilogue_.halves()->other != kNone) product->n *= 2;
  return product;
}

MatrixOperand ContractionWriter::second_half() const {
  const Halves& halves = *epilogue_.halves();
  MatrixOperand half = product_.b;
  if (halves.other == kNone) {
    half.offset += halves.columns * (half.across ? 1 : half.line);
  } else {
    half.tensor = graph_.tensors[kernel_.op(halves.other).operands[1].tensor].value;
  }
  return half;
}

// The product that the op is, where its operands lie in memory, or could once one is copied.
std::optional<MatrixProduct> ContractionWriter::in_strides() const {
  if (convolves()) return multiplies_on_tensor_cores() ? pixels_in_tiles() : std::nullopt;
  if (computes_rows()) return in_lines();
  const std::uint64_t rows = epilogue_.rows_of_matrix();
  if (const auto product = joined(matrix_product(graph_, op_, rows))) return product;
  // A contraction alone goes to the library, which takes no pieces; nor do other building blocks.
  const bool alone = kernel_.ops().size() == 1 && siblings_.empty();
  if (!alone && groups_of(graph_, op_) == 0) {
    if (const auto product = in_pieces()) return product;
  }
  return joined(matrix_product(graph_, op_, rows, true));
}

std::optional<LibraryProduct> ContractionWriter::library_call() const {
  std::vector<std::optional<LibraryProduct>> products = {library_product(kernel_, op_, product_)};
  for (const Sibling& sibling : siblings_) {
    const auto product = matrix_product(graph_, sibling.op, 0);
    products.push_back(product ? library_product(sibling.code.view(), sibling.op, *product)
                               : std::nullopt);
  }
  return in_one_call(products);
}

std::size_t ContractionWriter::tiling_of(std::size_t tilings) {
  constexpr std::size_t kMostBeside = 4;
  if (shallow_ways_ == 0) {
    ways_ = tilings;
    return way_;
  }
  ways_ = shallow_ways_ + std::min(tilings, kMostBeside);
  return way_ < shallow_ways_ ? 0 : way_ - shallow_ways_;
}

GeneratedKernel ContractionWriter::write() {
  if (convolves()) take_shallow_convolution();
  strided_ = in_strides();
  if (strided_) {
    product_ = *strided_;
  } else if (!convolves()) {
    take_whole();
  }
  if (!convolves() && product_.groups == 0 && fits_tensor_cores() && !scales_blocks()) {
    take_shallow(product_);
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max() - 1024;
  for (const std::uint64_t extent : {product_.m, product_.n, product_.k, product_.batches()}) {
    if (extent > kMost) cannot_generate(op_, "an extent is no 32-bit number");
  }
  if (strided_ && !computes_rows()) result_.library = library_call();
  result_.source.text = epilogue_.preamble();
  if (convolves() && !strided_) {
    write_convolution();
  } else if (scales_blocks()) {
    write_scaled_blocks();
  } else if (computes_rows()) {
    write_prologue();
  } else if (computes_weights()) {
    const std::optional<GroupedWeights> packed = packed_weights();
    if (!packed || !write_nibbles(*packed)) write_skinny_sm80();
  } else if (epilogue_.holds_rows() && (fits_row_clusters() || (strided_ && pad_lines()))) {
    write_rows();
    if (!padded_.empty()) write_padding();
  } else if (epilogue_.holds_rows()) {
    write_rows_any();
  } else if (product_.groups > 0) {
    fits_tensor_cores() ? write_tiles() : write_any();
  } else if (epilogue_.halves() || !siblings_.empty()) {
    write_tiles();
  } else if (!fits_tensor_cores()) {
    write_any();
  } else if (product_.n == 1 && !product_.a.across && !product_.b.across && !epilogue_.reduces()) {
    write_vector();
  } else if (shallow_) {
    write_shallow(*shallow_, product_, false);
  } else if (is_skinny()) {
    write_skinny();
  } else {
    write_tiles();
  }
  result_.source.entries = {"fused"};
  epilogue_.finish(result_);
  write_packing();
  if (result_.packing) result_.source.entries.emplace_back("pack");
  if (result_.gaps.more_reads.empty()) {
    result_.gaps.more_reads =
        "operands are fetched again for every wave of tiles, where they do not fit in the L2";
  }
  if (epilogue_.reduces() && !epilogue_.holds_rows()) {
    result_.gaps.more_writes = "blocks exchange partial results through memory";
  }
  result_.storages = code_.parameters().storages();
  if (result_.source.architecture_bound && epilogue_.holds_rows()) tile_rows();
  return std::move(result_);
}

namespace {

// All tilings that take about the least time are ways to run it, but for those that would need
// workspaces of their own. How many there are may show when one of them is written.
GeneratedKernel in_all_ways(const KernelView& kernel, OpId contraction, const Device& device,
                            std::span<const KernelView> others = {}) {
  ContractionWriter writer(kernel, contraction, device, others);
  GeneratedKernel first = writer.write();
  if (first.workspace_bytes > 0) return first;
  std::size_t ways = writer.ways();
  for (std::size_t way = 1; way < ways; ++way) {
    ContractionWriter next(kernel, contraction, device, others, way);
    GeneratedKernel other = next.write();
    ways = std::max(ways, next.ways());
    if (other.workspace_bytes == 0) first.others.push_back(std::move(other));
  }
  return first;
}

}  // namespace

GeneratedKernel generate_contraction(const KernelView& kernel, OpId contraction,
                                     const Device& device) {
  return in_all_ways(kernel, contraction, device);
}

GeneratedKernel generate_siblings(std::span<const KernelView> parts, const Device& device) {
  const KernelView& first = parts.front();
  const OpId contraction = contraction_of(first.graph(), first.ops());
  return in_all_ways(first, contraction, device, parts.subspan(1));
}

}  // namespace fusecalc
