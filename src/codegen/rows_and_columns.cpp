// Kernels that sum the rows of a matrix and its columns: the body of the loop of
// kernels/column_sums.cuh, out of the kernel's ops. What one row needs of another pass is computed
// again from what is on chip.

#include "plan/rows_and_columns.hpp"

#include <fmt/format.h>

#include <functional>

#include "codegen/column_sums.hpp"
#include "codegen/elements.hpp"
#include "codegen/expressions.hpp"
#include "codegen/memory_access.hpp"
#include "codegen/row_results.hpp"
#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

class RowColumnWriter {
 public:
  RowColumnWriter(const KernelView& kernel, RowsAndColumns found, const Device& device)
      : kernel_(kernel),
        found_(std::move(found)),
        around_{.tiling = found_.tiling,
                .row_sums = found_.row_sums.size(),
                .sums = found_.column_sums.size(),
                .blocks = found_.tiling.blocks(device.multiprocessors)},
        roots_(find_roots(kernel, around_.tiling.rows * around_.tiling.length)),
        code_(kernel) {}

  GeneratedKernel write() {
    // The pointers are members of a struct: all of them must be known first.
    for (const std::vector<TensorId>* stored : {&roots_.full, &roots_.rows, &roots_.small}) {
      for (const TensorId id : *stored) code_.parameters().output(id);
    }
    find_results();
    const std::string functions = structs() + readers() + results() +
                                  widths([&](unsigned elements) { return add(elements); }) +
                                  widths([&](unsigned elements) { return finish(elements); }) +
                                  store_row() + store_column();
    const std::string in = fmt::format("\n{}\nstruct In {{\n{}{}}};\n", around_.constants(""),
                                       code_.parameters().members(), functions);
    return around_.write(code_, in, "const In& body = in;");
  }

 private:
  unsigned width() const { return around_.tiling.width; }
  DType type_of(TensorId id) const { return kernel_.tensor(id).type.dtype; }
  std::string pack_of(TensorId id, std::string_view elements) const {
    return fmt::format("Pack<{}, {}>", stored_type(type_of(id)), elements);
  }
  std::string group_of(TensorId id) const { return pack_of(id, std::to_string(width())); }
  // Functions for a group, and for one element where rows have ends.
  std::string widths(const std::function<std::string(unsigned)>& function) const {
    const bool ends = around_.tiling.ends > 0 && width() > 1;
    return function(width()) + (ends ? function(1) : "");
  }

  std::string structs() const;
  std::string readers();
  std::string places();
  std::string add(unsigned elements);
  std::string finish(unsigned elements);
  std::string finish_lanes(const Scope& scope, CodeBlock& block);
  void find_results();
  std::string results();
  std::string store_row();
  std::string store_column();
  Loop loop() const;
  std::string sums(KernelCode& code) const;
  static std::string taken(const Scope& scope, OpId id);
  std::string column_sums(const Scope& scope, std::uint8_t pass) const;

  const KernelView& kernel_;
  const RowsAndColumns found_;
  const ColumnKernel around_;
  const Roots roots_;
  KernelCode code_;
  std::vector<TensorId> results_;  // of rows, that their elements use
};

// What a thread has of the matrix's elements, of a row and of columns.
std::string RowColumnWriter::structs() const {
  std::string row;
  for (const TensorId id : found_.of_rows) {
    row += fmt::format("    {} r{};\n", name_of(compute_type(type_of(id))), id);
  }
  std::string columns;
  for (const TensorId id : found_.of_columns) {
    columns += fmt::format("    {} c{};\n", pack_of(id, "N"), id);
  }
  std::string group;
  for (const TensorId id : found_.elements) {
    group += fmt::format("    {} x{};\n", pack_of(id, "N"), id);
  }
  return fmt::format(
      "  struct Row {{\n{}  }};\n  template <int N>\n  struct Columns {{\n{}  }};\n"
      "  template <int N>\n  struct Group {{\n{}  }};\n",
      row, columns, group);
}

// Pointers to the places of groups on chip, one array for each tensor.
std::string RowColumnWriter::places() {
  std::string text;
  std::string offset = "0";
  for (const TensorId id : found_.elements) {
    text += fmt::format(
        "  static __device__ __forceinline__ {0}& place_of{1}(u8* shared, u32 place) {{\n"
        "    return reinterpret_cast<{0}*>(shared + ({2}) * kPlaces)[place];\n  }}\n",
        group_of(id), id, offset);
    offset += fmt::format(" + sizeof({})", group_of(id));
  }
  return text;
}

std::string RowColumnWriter::readers() {
  std::string row;
  for (const TensorId id : found_.of_rows) {
    row += fmt::format("    row.r{} = fetch({}, r);\n", id, code_.parameters().input(id));
  }
  std::string columns;
  for (const TensorId id : found_.of_columns) {
    columns += fmt::format("    ::take_columns<Tiling>(columns.c{}, {}, c);\n", id,
                           code_.parameters().input(id));
  }
  std::string start;
  std::string group;
  std::string read;
  for (const TensorId id : found_.elements) {
    const std::string memory = code_.parameters().input(id);
    start += fmt::format("    start_group(place_of{}(shared, place), {}, i);\n", id, memory);
    group += fmt::format("    group.x{0} = place_of{0}(shared, place);\n", id);
    read += fmt::format("    one.x{} = load_pack<1>({} + i);\n", id, memory);
  }
  const std::string function = "  __device__ __forceinline__ ";
  return "  static constexpr u32 kPlaces = Tiling::kThreads * Tiling::kRounds * "
         "Tiling::kStages;\n" +
         places() +
         fmt::format("{}Row row(idx r) const {{\n    Row row;\n{}    return row;\n  }}\n", function,
                     row) +
         fmt::format(
             "  template <int N>\n{}void take_columns(Columns<N>& columns, u32 c) const "
             "{{\n{}  }}\n",
             function, columns) +
         fmt::format("{}void start(u8* shared, u32 place, idx i) const {{\n{}  }}\n", function,
                     start) +
         fmt::format(
             "{0}Group<{1}> group(u8* shared, u32 place) const {{\n    Group<{1}> group;\n"
             "{2}    return group;\n  }}\n",
             function, width(), group) +
         fmt::format(
             "{}Group<1> read(idx i) const {{\n    Group<1> one;\n{}    return one;\n  }}\n",
             function, read);
}

// Over the elements of a group, all of which are on chip.
Loop RowColumnWriter::loop() const {
  Loop loop{.element = {.name = "i", .pattern = LanePattern::kUnit},
            .row = {.index = {.name = "q"}}};
  const auto add = [&](TensorId id, const std::string& text, bool uniform) {
    loop.ready[id] = {.text = text, .type = compute_type(type_of(id)), .uniform = uniform};
  };
  for (const TensorId id : found_.elements) add(id, fmt::format("group.x{}.get(j)", id), false);
  for (const TensorId id : found_.of_rows) add(id, fmt::format("row.r{}", id), true);
  for (const TensorId id : found_.of_columns) add(id, fmt::format("columns.c{}.get(j)", id), false);
  return loop;
}

// The accumulators of the row, with its sums.
std::string RowColumnWriter::sums(KernelCode& code) const {
  std::string text;
  for (std::size_t n = 0; n < found_.row_sums.size(); ++n) {
    text += fmt::format("    const Sum<f32> {}[1] = {{{{sums[{}]}}}};\n",
                        code.accumulator(found_.row_sums[n]), n);
  }
  return text;
}

// What a sum takes in for an element.
std::string RowColumnWriter::taken(const Scope& scope, OpId id) {
  return converted(accumulator_input(scope, id, scope.loop.element), ComputeType::kF32).text;
}

// What the pass adds to the group's columns.
std::string RowColumnWriter::column_sums(const Scope& scope, std::uint8_t pass) const {
  std::string text;
  for (std::size_t n = 0; n < found_.column_sums.size(); ++n) {
    const OpId id = found_.column_sums[n];
    if (kernel_.runs_in(id) != pass) continue;
    text += fmt::format("column_sums[{}][j] = {};\n", n, taken(scope, id));
  }
  return text;
}

std::string RowColumnWriter::add(unsigned elements) {
  KernelCode code(kernel_, code_);
  const Loop loop = this->loop();
  CodeBlock block = block_of(elements);
  const Scope scope{code, loop, block};
  std::string sums;
  for (std::size_t n = 0; n < found_.row_sums.size(); ++n) {
    sums += fmt::format("sums[{}] += {};\n", n, taken(scope, found_.row_sums[n]));
  }
  sums += column_sums(scope, 0);
  block.lanes += sums;
  return fmt::format(
      "  __device__ __forceinline__ void add(const Row& row, const Columns<{0}>& columns, const "
      "Group<{0}>& group, idx q, idx i, f32* sums, f32 (*column_sums)[{0}]) const {{\n{1}  }}\n",
      elements, block.text("    "));
}

// Computes what elements are stored and added up in the second pass, and stores them.
std::string RowColumnWriter::finish_lanes(const Scope& scope, CodeBlock& block) {
  std::string stores;
  for (const TensorId id : roots_.full) {
    const Value value =
        converted(element(scope, id, scope.loop.element), compute_type(type_of(id)));
    const std::string name = scope.fresh("y");
    block.before += fmt::format("{} {};\n", pack_of(id, block.width_text), name);
    block.lanes += fmt::format("store_as({}.v[j], {});\n", name, value.text);
    stores += fmt::format("store_pack({} + i, {});\n", code_.parameters().output(id), name);
  }
  const std::string late = column_sums(scope, 1);
  block.lanes += late;
  block.after += stores;
  return block.text("    ");
}

// They are computed once for a row, not for each of its groups.
void RowColumnWriter::find_results() {
  KernelCode code(kernel_, code_);
  const Loop loop = this->loop();
  CodeBlock block = block_of(width());
  finish_lanes({code, loop, block}, block);
  for (const auto& [id, value] : code.row_results()) results_.push_back(id);
}

std::string RowColumnWriter::results() {
  KernelCode code(kernel_, code_);
  const Loop loop = this->loop();
  CodeBlock block;
  const Scope scope{code, loop, block};
  std::string members;
  std::string values;
  for (const TensorId id : results_) {
    const Value value = row_result(scope, id);
    members += fmt::format("    {} r{};\n", name_of(value.type), id);
    values += fmt::format("    results.r{} = {};\n", id, value.text);
  }
  return fmt::format(
      "  struct Results {{\n{}  }};\n"
      "  __device__ __forceinline__ Results results(const Row& row, const f32* sums) const {{\n"
      "    Results results;\n{}{}{}    return results;\n  }}\n",
      members, sums(code), block.row_results, values);
}

std::string RowColumnWriter::finish(unsigned elements) {
  KernelCode code(kernel_, code_);
  Loop loop = this->loop();
  for (const TensorId id : results_) {
    loop.ready[id] = {
        .text = fmt::format("results.r{}", id), .type = compute_type(type_of(id)), .uniform = true};
  }
  CodeBlock block = block_of(elements);
  const std::string text = finish_lanes({code, loop, block}, block);
  return fmt::format(
      "  __device__ __forceinline__ void finish(const Row& row, const Columns<{0}>& columns, const "
      "Group<{0}>& group, idx q, idx i, const Results& results, f32 (*column_sums)[{0}]) const "
      "{{\n{1}  }}\n",
      elements, text);
}

std::string RowColumnWriter::store_row() {
  KernelCode code(kernel_, code_);
  const Loop loop = this->loop();
  CodeBlock block;
  const Scope scope{code, loop, block};
  for (const TensorId id : roots_.rows) {
    store(scope, id, loop.row.index, row_result(scope, id));
  }
  return fmt::format(
      "  __device__ __forceinline__ void store_row(const Row& row, idx q, const f32* sums) const "
      "{{\n{}{}{}  }}\n",
      sums(code), block.row_results, block.text("    "));
}

// The results of columns that are made of one sum each.
std::string RowColumnWriter::store_column() {
  std::string text =
      "  __device__ __forceinline__ void store_column(u32 which, u32 c, f32 sum) const {\n";
  for (std::size_t n = 0; n < found_.column_sums.size(); ++n) {
    const OpId id = found_.column_sums[n];
    const Op& op = kernel_.op(id);
    KernelCode code(kernel_, code_);
    Loop loop{.element = {.name = "c"}};
    CodeBlock block;
    for (const TensorId column : found_.of_columns) {
      loop.ready[column] = {.text = fmt::format("fetch({}, c)", code_.parameters().input(column)),
                            .type = compute_type(type_of(column)),
                            .uniform = true};
    }
    loop.ready[op.outputs[0]] =
        evaluate({code, loop, block}, {.op = id,
                                       .device = device_expression(op, 0),
                                       .at = loop.element,
                                       .computed = ComputeType::kF32,
                                       .result = compute_type(type_of(op.outputs[0])),
                                       .made = op.outputs[0],
                                       .accumulator = "total"});
    const Scope scope{code, loop, block};
    for (const TensorId small : roots_.small) {
      if (found_.column_sum_of.at(small) != id) continue;
      store(scope, small, loop.element, element(scope, small, loop.element));
    }
    text += fmt::format(
        "    if (which == {}) {{\n      const Sum<f32> total = {{sum}};\n"
        "{}    }}\n",
        n, block.text("      "));
  }
  return text + "  }\n";
}

}  // namespace

GeneratedKernel generate_rows_and_columns(const KernelView& kernel, const ResolvedKernel& resolved,
                                          const Device& device) {
  const auto found = rows_and_columns(resolved, kernel.ops(), device.on_chip_bytes);
  if (!found) cannot_generate(kernel.op(kernel.ops().front()), "its rows do not fit a block");
  return RowColumnWriter(kernel, *found, device).write();
}

}  // namespace fusecalc
