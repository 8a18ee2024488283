// Attention, as one op or as two products around a softmax: kernels/attention_*.cuh, with what
// happens to the scores and to the result written by the emitter.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "codegen/epilogue.hpp"
#include "codegen/matrix_product.hpp"
#include "codegen/schedule.hpp"
#include "core/embedded.hpp"

namespace fusecalc {
namespace {

// An operand in memory: distances, in elements, between its rows, heads and batches.
struct Rows {
  TensorId tensor = kNone;
  std::uint64_t row = 0;
  std::uint64_t head = 0;
  std::uint64_t batch = 0;
  bool along = false;  // a row's elements are neighbours
};

class AttentionWriter {
 public:
  AttentionWriter(Emitter& emitter, PhaseFinder& finder, const std::vector<OpId>& contractions,
                  const Target& target)
      : emitter_(emitter),
        graph_(emitter.graph()),
        first_(contractions.front()),
        last_(contractions.back()),
        op_(emitter.op(contractions.back())),
        target_(target),
        epilogue_(Epilogue::of_attention(emitter, finder, contractions.back())) {
    if (contractions.size() > 2) cannot_generate(op_, "a third contraction in one kernel");
  }

  GeneratedKernel write();

 private:
  const Shape& shape_of(const Op& op, std::size_t operand) const {
    return graph_.tensors[op.operands[operand].tensor].type.shape;
  }
  OpId producer_inside(TensorId tensor) const;
  void take_op();
  void take_products();
  Rows rows_of(const Op& op, std::size_t operand, const OperandOrder& order, std::uint64_t lines,
               std::uint64_t columns, const Shape& batch) const;
  TensorId softmax_input(OpId weights) const;
  bool is_scale(TensorId scores, TensorId input);
  void write_scores(TensorId scores, TensorId input);
  void write_mask();
  std::string scores_struct() const;
  void check() const;
  bool fits_copy_engine() const;
  void write_sm90();
  void write_sm80();
  MappedTensor map_of(const Rows& rows, std::uint64_t lines, std::uint64_t heads,
                      std::uint32_t box) const;
  std::string shape() const;
  std::string entry(std::string_view bounds, std::string_view parameters,
                    std::string_view operands) const;

  Emitter& emitter_;
  const OpGraph& graph_;
  OpId first_;
  OpId last_;
  const Op& op_;
  const Target& target_;
  Epilogue epilogue_;
  Rows q_, k_, v_;
  std::uint64_t batches_ = 1, heads_ = 1, key_heads_ = 1, queries_ = 1, keys_ = 1, size_ = 1;
  double scale_ = 1;
  bool causal_ = false;
  bool plain_ = true;
  Piece scores_;  // between the first product and the softmax
  GeneratedKernel result_;
};

OpId AttentionWriter::producer_inside(TensorId tensor) const {
  if (tensor == kNone) return kNone;
  const OpId producer = graph_.value_of(tensor).producer;
  return producer != kNone && emitter_.contains(producer) ? producer : kNone;
}

Rows AttentionWriter::rows_of(const Op& op, std::size_t operand, const OperandOrder& order,
                              std::uint64_t lines, std::uint64_t columns,
                              const Shape& batch) const {
  const TensorId tensor = op.operands[operand].tensor;
  const auto need = [&](std::uint64_t extent, std::uint64_t stride) {
    const auto found = distance(graph_, tensor, extent, stride);
    if (!found) cannot_generate(op, "a view breaks up the lines of an operand");
    return *found;
  };
  Rows rows{.tensor = graph_.tensors[tensor].value, .row = need(lines, order.line)};
  rows.along = columns == 1 || need(columns, order.depth) == 1;
  if (!batch.empty()) rows.head = need(batch.back(), order.batch.back());
  std::uint64_t extent = 1;  // of the axes before it that are one
  for (std::size_t i = 0; i + 1 < batch.size(); ++i) {
    if (batch[i] == 1) continue;
    const std::uint64_t apart = need(batch[i], order.batch[i]);
    if (extent > 1 && rows.batch != apart * batch[i]) {
      cannot_generate(op, "its batch axes do not follow each other");
    }
    rows.batch = apart;
    extent *= batch[i];
  }
  if (!rows.along) cannot_generate(op, "an operand's heads do not lie along memory");
  return rows;
}

void AttentionWriter::take_op() {
  const Shape& q = shape_of(op_, 0);
  const Shape& k = shape_of(op_, 1);
  const std::size_t rank = q.size();
  heads_ = q[rank - 3];
  key_heads_ = k[rank - 3];
  queries_ = q[rank - 2];
  keys_ = k[rank - 2];
  size_ = q[rank - 1];
  batches_ = elements_between(q, 0, rank - 3);
  if (shape_of(op_, 2).back() != size_) {
    cannot_generate(op_, "values and keys are of different sizes");
  }
  const auto operand = [&](std::size_t i) {
    const Shape& shape = shape_of(op_, i);
    const std::vector<std::uint64_t> strides = strides_of(shape);
    OperandOrder order{.line = strides[rank - 2], .depth = 1};
    order.batch.assign(strides.begin(), strides.end() - 2);
    return rows_of(op_, i, order, shape[rank - 2], size_, {shape.begin(), shape.end() - 2});
  };
  q_ = operand(0);
  k_ = operand(1);
  v_ = operand(2);
  scale_ = op_.attributes->scale.value_or(1 / std::sqrt(static_cast<double>(size_)));
  causal_ = op_.attributes->causal;
  if (op_.operands.size() > 3) write_mask();
  if (scale_ <= 0 && plain_) cannot_generate(op_, "its scale is not positive");
}

void AttentionWriter::take_products() {
  const Op& scores = emitter_.op(first_);
  const Shape batch = batch_axes(graph_, scores);
  if (batch != batch_axes(graph_, op_)) cannot_generate(op_, "its batch axes are not the scores'");
  queries_ = scores.matrix.rows;
  keys_ = scores.matrix.columns;
  size_ = scores.matrix.depth;
  if (op_.matrix.columns != size_) cannot_generate(op_, "values and keys are of different sizes");
  heads_ = key_heads_ = batch.empty() ? 1 : batch.back();
  batches_ = batch.empty() ? 1 : elements_between(batch, 0, batch.size() - 1);
  q_ = rows_of(scores, 0, operand_order(graph_, scores, 0), queries_, size_, batch);
  k_ = rows_of(scores, 1, operand_order(graph_, scores, 1), keys_, size_, batch);
  OperandOrder values = operand_order(graph_, op_, 1);
  std::swap(values.line, values.depth);  // its lines are keys
  v_ = rows_of(op_, 1, values, keys_, size_, batch);
  const TensorId input = softmax_input(producer_inside(op_.operands[0].tensor));
  write_scores(scores.outputs[0], input);
}

// What the softmax that ends in the weights works on.
TensorId AttentionWriter::softmax_input(OpId weights) const {
  const auto is = [&](OpId id, std::string_view name) {
    return id != kNone && emitter_.op(id).row == op_named(name);
  };
  if (is(weights, "softmax")) return emitter_.op(weights).operands[0].tensor;
  if (is(weights, "div")) {
    const OpId exponential = producer_inside(emitter_.op(weights).operands[0].tensor);
    const OpId difference = is(exponential, "exp")
                                ? producer_inside(emitter_.op(exponential).operands[0].tensor)
                                : kNone;
    if (is(difference, "sub")) return emitter_.op(difference).operands[0].tensor;
  }
  cannot_generate(op_, "something happens to the weights between softmax and values");
}

// A multiplication by a positive number is the building block's own.
bool AttentionWriter::is_scale(TensorId scores, TensorId input) {
  if (graph_.tensors[input].value == scores) return true;
  const OpId id = producer_inside(input);
  if (id == kNone) return false;
  const Op& op = emitter_.op(id);
  const bool divides = op.row == op_named("div");
  if ((op.row != op_named("mul") && !divides) || op.operands[0].tensor != scores ||
      op.operands[1].tensor != kNone || op.operands[1].number <= 0) {
    return false;
  }
  scale_ = divides ? 1 / op.operands[1].number : op.operands[1].number;
  return true;
}

std::string AttentionWriter::scores_struct() const {
  return fmt::format(
      "struct Scores {{\n  static constexpr bool kActive = true;\n{}"
      "  __device__ __forceinline__ float operator()(int batch, int head, i64 query, i64 key, "
      "float score) const {{\n"
      "    const i64 s = (((i64)batch * {} + head) * {} + query) * {} + key;\n"
      "    float result = score;\n{}    return result;\n  }}\n}};\n",
      emitter_.members(), heads_, queries_, keys_, scores_.text("    "));
}

void AttentionWriter::write_scores(TensorId scores, TensorId input) {
  if (is_scale(scores, input)) return;
  plain_ = false;
  emitter_.enter(scores_, 0);
  const Index s{.name = "s", .path = std::nullopt};
  emitter_.set_loop(s);
  scores_.values[{scores, s.name}] = {.text = "score", .type = ComputeType::kF32, .uniform = true};
  const Value value = emitter_.converted(emitter_.value(input, s), ComputeType::kF32);
  scores_.lanes += fmt::format("result = {};\n", value.text);
}

// A bool mask keeps where it is true, any other is added.
void AttentionWriter::write_mask() {
  plain_ = false;
  const TensorId mask = op_.operands[3].tensor;
  Shape scores = shape_of(op_, 0);
  scores.back() = keys_;
  emitter_.enter(scores_, 0);
  const Index s{.name = "s", .path = std::nullopt};
  const Value value =
      emitter_.value(mask, emitter_.derive(s, broadcast_step(shape_of(op_, 3), scores)));
  scores_.lanes += value.type == ComputeType::kBool
                       ? fmt::format("result = {} ? score : lowest();\n", value.text)
                       : fmt::format("result = score + {};\n",
                                     emitter_.converted(value, ComputeType::kF32).text);
}

bool AttentionWriter::fits_copy_engine() const {
  if (target_.capability != 90 || size_ < 64) return false;
  return std::ranges::all_of(std::array{q_, k_, v_}, [&](const Rows& rows) {
    const bool repeats =
        (batches_ > 1 && rows.batch == 0) || (heads_ > 1 && rows.head == 0 && key_heads_ > 1);
    return !repeats && (rows.row | rows.head | rows.batch) % 8 == 0;
  });
}

MappedTensor AttentionWriter::map_of(const Rows& rows, std::uint64_t lines, std::uint64_t heads,
                                     std::uint32_t box) const {
  const auto bytes = [](std::uint64_t apart) { return apart > 0 ? apart * 2 : 16; };
  return {.storage = graph_.storage_of(rows.tensor),
          .dtype = graph_.tensors[rows.tensor].type.dtype,
          .extents = {size_, lines, heads, batches_},
          .strides = {bytes(rows.row), bytes(rows.head), bytes(rows.batch)},
          .box = {64, box, 1, 1}};
}

std::string AttentionWriter::shape() const {
  return fmt::format(
      "constexpr AttentionShape kShape = {{{}, {}, {}, {}, {}, {}, (float){:.17g}}};\n", batches_,
      heads_, key_heads_, queries_, keys_,
      static_cast<std::int64_t>(keys_) - static_cast<std::int64_t>(queries_), scale_);
}

std::string AttentionWriter::entry(std::string_view bounds, std::string_view parameters,
                                   std::string_view operands) const {
  std::string pointers;
  for (std::size_t i = 0; i < emitter_.storages().size(); ++i) {
    pointers += fmt::format("{}p{}", i > 0 ? ", " : "", i);
  }
  return fmt::format(
      "extern \"C\" __global__ void {} fused({}{}) {{\n"
      "  Attention::run({}, {}{{{}}}, {});\n}}\n",
      bounds, parameters, emitter_.parameters(), operands, plain_ ? "PlainScores" : "Scores",
      plain_ ? "" : pointers, epilogue_.made());
}

void AttentionWriter::write_sm90() {
  const std::uint32_t rows = size_ == 64 && plain_ ? 192 : 128;
  const std::uint32_t keys = size_ <= 128 ? 128 : size_ <= 192 ? 96 : 80;
  result_.maps = {map_of(q_, queries_, heads_, rows), map_of(k_, keys_, key_heads_, keys),
                  map_of(v_, keys_, key_heads_, keys)};
  result_.source.architecture_bound = true;
  result_.source.text += entry("__launch_bounds__(Attention::kThreads, 1)",
                               "const __grid_constant__ TensorMap q, const __grid_constant__ "
                               "TensorMap k, const __grid_constant__ TensorMap v, ",
                               "q, k, v, kShape");
  result_.threads = 128 + rows * 2;
  const std::uint32_t boxes = (static_cast<std::uint32_t>(size_) + 63) / 64;
  result_.shared_bytes = (rows + 4 * keys) * boxes * 128 + 128;
  result_.blocks = (queries_ + rows - 1) / rows;
  result_.schedule = fmt::format("attention by wgmma, {} queries a block", rows);
}

void AttentionWriter::write_sm80() {
  const std::uint32_t rows = size_ <= 128 ? 128 : 64;
  const std::uint32_t keys = size_ <= 128 ? 64 : 32;
  result_.source.text +=
      fmt::format("constexpr AttentionStrides kStrides = {{{}, {}, {}, {}, {}, {}, {}, {}, {}}};\n",
                  q_.row, q_.head, q_.batch, k_.row, k_.head, k_.batch, v_.row, v_.head, v_.batch);
  result_.source.text +=
      entry("__launch_bounds__(Attention::kThreads)", "",
            fmt::format("{}, {}, {}, kShape, kStrides", emitter_.pointer(q_.tensor),
                        emitter_.pointer(k_.tensor), emitter_.pointer(v_.tensor)));
  result_.threads = rows * 2;
  result_.shared_bytes = (rows + 2 * keys) * static_cast<std::uint32_t>(size_) * 2;
  result_.blocks = (queries_ + rows - 1) / rows;
  result_.schedule = fmt::format("attention by mma, {} queries a block", rows);
}

// What the building blocks take.
void AttentionWriter::check() const {
  const DType type = graph_.tensors[q_.tensor].type.dtype;
  for (const Rows& rows : {q_, k_, v_}) {
    const DType own = graph_.tensors[rows.tensor].type.dtype;
    if (own != type || (type != DType::kBf16 && type != DType::kF16)) {
      cannot_generate(op_, "attention is written for bf16 and f16");
    }
    if ((rows.row | rows.head | rows.batch) % 8 != 0) {
      cannot_generate(op_, "the rows of an operand are no multiple of 16 bytes apart");
    }
  }
  constexpr std::array<std::uint64_t, 6> kSizes = {32, 64, 96, 128, 192, 256};
  if (std::ranges::find(kSizes, size_) == kSizes.end()) {
    cannot_generate(op_, fmt::format("heads of {}; attention is written for 32, 64, 96, 128, 192 "
                                     "and 256",
                                     size_));
  }
  constexpr std::uint64_t kMostBlocks = 65535;
  constexpr std::uint64_t kMostRows = std::uint64_t{1} << 30U;
  if (heads_ > kMostBlocks || batches_ > kMostBlocks || queries_ > kMostRows || keys_ > kMostRows) {
    cannot_generate(op_, "it has too many heads or rows");
  }
}

GeneratedKernel AttentionWriter::write() {
  if (graph_.tensors[op_.outputs[0]].elements == 0) cannot_generate(op_, "it writes nothing");
  if (first_ == last_) {
    take_op();
  } else {
    take_products();
  }
  check();
  for (const Rows& rows : {q_, k_, v_}) emitter_.pointer(rows.tensor);
  epilogue_.write_attention(heads_, queries_, batches_ * heads_ * queries_, size_);
  const bool copies = fits_copy_engine();
  std::string& text = result_.source.text;
  text = epilogue_.preamble();
  constexpr std::array kSm90 = {"attention", "hopper", "attention_sm90"};
  constexpr std::array kSm80 = {"attention", "mma", "attention_sm80"};
  for (const char* block : copies ? kSm90 : kSm80) {
    text += std::string(embedded_kernel(block)) + "\n";
  }
  text += shape() + (plain_ ? std::string() : scores_struct()) + epilogue_.text();
  text += fmt::format("typedef {}<{}, {}, {}, {}, Epilogue> Attention;\n",
                      copies ? "AttentionSm90" : "AttentionSm80",
                      name_of(graph_.tensors[q_.tensor].type.dtype), size_, causal_,
                      plain_ ? "PlainScores" : "Scores");
  if (copies) {
    write_sm90();
  } else {
    write_sm80();
  }
  result_.blocks_y = static_cast<unsigned>(heads_);
  result_.blocks_z = static_cast<unsigned>(batches_);
  result_.source.entries = {"fused"};
  result_.storages = emitter_.storages();
  return std::move(result_);
}

}  // namespace

GeneratedKernel generate_attention(Emitter& emitter, PhaseFinder& finder,
                                   const std::vector<OpId>& contractions, const Target& target) {
  return AttentionWriter(emitter, finder, contractions, target).write();
}

}  // namespace fusecalc
