#include "plan/paged_rows.hpp"

#include <algorithm>

#include "core/ceil_div.hpp"
#include "graph/axis.hpp"
#include "plan/attention_tiling.hpp"
#include "plan/view_steps.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kVector = 8;  // elements of 16 bytes, which rows are copied in

// Of attention's operands: [..., heads, rows, columns].
struct Extents {
  std::uint64_t batches = 1;
  std::uint64_t heads = 1;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;

  explicit Extents(const Shape& shape)
      : batches(elements_between(shape, 0, shape.size() - 3)),
        heads(shape[shape.size() - 3]),
        rows(shape[shape.size() - 2]),
        columns(shape.back()) {}
};

// Which operand of a gather along the first axis holds the pages; the other one is the table.
std::optional<std::size_t> pool_operand(const OpGraph& graph, const Op& gather) {
  const OpFamily family = gather.row->family;
  if (family != OpFamily::kGather && family != OpFamily::kEmbedding) return std::nullopt;
  const std::size_t rank = graph.tensors[gather.operands[0].tensor].type.shape.size();
  if (family == OpFamily::kGather && axis_of(gather, rank) != 0) return std::nullopt;
  return table_input(graph, gather);
}

class PageFinder {
 public:
  PageFinder(const OpGraph& graph, TensorId operand)
      : graph_(graph), operand_(operand), extents_(graph.tensors[operand].type.shape) {}

  std::optional<PagedRows> find() {
    found_.gather = graph_.value_of(operand_).producer;
    if (found_.gather == kNone) return std::nullopt;
    const Op& gather = graph_.ops[found_.gather];
    const auto which = pool_operand(graph_, gather);
    if (!which) return std::nullopt;
    const TensorId pool = gather.operands[*which].tensor;
    const TensorId table = gather.operands[1 - *which].tensor;
    const Shape& shape = graph_.tensors[pool].type.shape;
    elements_ = elements_between(shape, 1, shape.size());
    if (elements_ == 0 || !find_in_page() || !find_pages(pool, shape[0]) || !find_entries(table)) {
      return std::nullopt;
    }
    const std::uint64_t apart = found_.page | found_.offset | found_.row | found_.head;
    return apart % kVector == 0 ? std::optional(found_) : std::nullopt;
  }

 private:
  // Rows of a page, and where they lie in it.
  bool find_in_page() {
    const Extents& all = extents_;
    const auto keys = digits_of(graph_, operand_, all.rows, all.columns);
    const auto head = distance(graph_, operand_, all.heads, all.columns * all.rows);
    const auto along = distance(graph_, operand_, all.columns, 1);
    const auto offset = offset_of(graph_, operand_);
    if (!keys || keys->size() > 2 || !head || along != 1 || !offset) return false;
    if (!keys->empty()) found_.row = keys->back().stride;
    found_.head = *head;
    found_.offset = *offset % elements_;
    first_ = *offset / elements_;
    if (keys->size() == 2) {
      found_.rows = keys->back().extent;
      if (keys->front().stride != elements_) return false;
    } else if (all.rows > 1) {
      if (found_.row == 0 || elements_ % found_.row != 0) return false;
      found_.rows = elements_ / found_.row;
    }
    const std::uint64_t rows = std::min(found_.rows, all.rows);
    return found_.offset + (rows - 1) * found_.row + (all.heads - 1) * found_.head + all.columns <=
           elements_;
  }

  // Where pages lie in memory.
  bool find_pages(TensorId pool, std::uint64_t pages) {
    const auto apart = distance(graph_, pool, pages, elements_);
    const auto within = distance(graph_, pool, elements_, 1);
    const auto offset = offset_of(graph_, pool);
    if (!apart || within != 1 || !offset) return false;
    found_.pool = graph_.tensors[pool].value;
    found_.page = *apart;
    found_.offset += *offset;
    return true;
  }

  bool find_entries(TensorId table) {
    const Extents& all = extents_;
    const auto batch = distance(graph_, operand_, all.batches, all.columns * all.rows * all.heads);
    if (!batch || (all.batches > 1 && *batch % elements_ != 0)) return false;
    const std::uint64_t entries = ceil_div(all.rows, found_.rows);
    const auto along = distance(graph_, table, entries, 1);
    const auto apart = distance(graph_, table, all.batches, *batch / elements_);
    const auto offset = offset_of(graph_, table);
    if (!offset || !apart || (entries > 1 && along != 1)) return false;
    found_.table = graph_.tensors[table].value;
    found_.entry = *offset + first_;
    found_.batch = all.batches > 1 ? *apart : 0;
    return true;
  }

  const OpGraph& graph_;
  const TensorId operand_;
  const Extents extents_;
  std::uint64_t elements_ = 0;  // of a page
  std::uint64_t first_ = 0;     // entry
  PagedRows found_;
};

// Rows of a key head, the head size that they are padded to, and an element's bytes.
struct Sizes {
  std::uint64_t rows = 1;
  std::optional<std::uint64_t> head;
  std::uint64_t element_bytes = 1;
};

Sizes sizes_of(const OpGraph& graph, const Op& attention) {
  const auto extents_of = [&](std::size_t i) {
    return Extents(graph.tensors[attention.operands[i].tensor].type.shape);
  };
  const Extents queries = extents_of(0);
  const Extents values = extents_of(2);
  const std::uint64_t element_bytes =
      bytes_of(graph.tensors[attention.operands[0].tensor].type.dtype, 1);
  return {.rows = queries.rows * (queries.heads / values.heads),
          .head = tensor_core_head(queries.columns, values.columns, element_bytes),
          .element_bytes = element_bytes};
}

}  // namespace

std::optional<PagedRows> paged_rows(const OpGraph& graph, const Op& attention,
                                    std::size_t operand) {
  return PageFinder(graph, attention.operands[operand].tensor).find();
}

bool takes_pages(const OpGraph& graph, const Op& attention) {
  const auto dtype_of = [&](std::size_t i) {
    return graph.tensors[attention.operands[i].tensor].type.dtype;
  };
  const DType type = dtype_of(0);
  const DType made = graph.tensors[attention.outputs[0]].type.dtype;
  const Sizes sizes = sizes_of(graph, attention);
  return attends_on_tensor_cores(type) && dtype_of(1) == type && dtype_of(2) == type &&
         is_float(made) && made != DType::kF64 && attention.attributes->scale.value_or(1) > 0 &&
         sizes.rows <= kMostFewRows && sizes.head;
}

bool holds_pages(const OpGraph& graph, const Op& attention, std::uint64_t on_chip_bytes) {
  const Sizes sizes = sizes_of(graph, attention);
  return sizes.head &&
         few_tiling(sizes.rows, *sizes.head, sizes.element_bytes, on_chip_bytes).has_value();
}

}  // namespace fusecalc
