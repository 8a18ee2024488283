#include "predict/attention_model.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/attention_operands.hpp"
#include "plan/attention_tiling.hpp"
#include "predict/gathered_rows.hpp"

namespace fusecalc {
namespace {

struct Attention {
  double queries = 1, keys = 1;     // of a head
  double window = 0;                // keys that a query sees at most, if causal
  double heads = 1, key_heads = 1;  // of all batches
  double head = 1;                  // elements of a query
  std::uint64_t padded = 0;         // those that a kernel for tensor cores is made for
  double rate = 1;                  // of its products, per multiprocessor and cycle
  double instructions = 0;          // for each score, beside its exponential
  bool on_tensor_cores = false;
  bool words = false;  // f32 there, as three products each
  // Where blocks have all queries of a key head, and the keys are split over the chip.
  std::optional<FewTiling> few = std::nullopt;
  bool causal = false, masked = false;
  bool plain = false;  // scores are only scaled

  // Of the queries' heads that share a key head.
  double rows() const { return queries * heads / std::max(1.0, key_heads); }
};

std::uint64_t whole(double count) { return static_cast<std::uint64_t>(count); }

// `beside`: instructions of all ops but the first product.
Attention attention_of(const OpGraph& graph, const Kernel& kernel,
                       const std::vector<OpId>& products, double beside, const Device& device) {
  constexpr double kMask = 10;     // instructions to find and read an element of it
  constexpr double kSoftmax = 12;  // counted by its exponential
  constexpr double kScored = 0.3;  // instructions of ours for one of those
  constexpr double kNoWindow = 1e12;
  const Op& op = graph.ops[products.front()];
  const Shape& queries = graph.tensors[op.operands[0].tensor].type.shape;
  const Tensor& k = graph.tensors[op.operands[1].tensor];
  const DType type = graph.tensors[op.operands[0].tensor].type.dtype;
  const std::optional<TensorCoreAttention> taken =
      tensor_core_attention(graph, kernel, products.front(), products.back(), device.capability);
  const bool one_op = op.row->family == OpFamily::kAttention;
  Attention attention{.queries = static_cast<double>(queries[queries.size() - 2]),
                      .keys = static_cast<double>(one_op ? k.type.shape[k.type.shape.size() - 2]
                                                         : op.matrix.columns),
                      .head = static_cast<double>(queries.back()),
                      .on_tensor_cores = taken.has_value(),
                      .causal = one_op && op.attributes->causal,
                      .masked = one_op && op.operands.size() > 3};
  const auto elements = [&](std::size_t operand) {
    return static_cast<double>(graph.tensors[op.operands[operand].tensor].elements);
  };
  attention.heads = elements(0) / std::max(1.0, attention.queries * attention.head);
  attention.key_heads =
      one_op ? elements(1) / std::max(1.0, attention.keys * attention.head) : attention.heads;
  attention.window =
      std::min(attention.keys,
               op.attributes->window ? static_cast<double>(*op.attributes->window) : kNoWindow);
  if (taken) {
    attention.words = type == DType::kF32;
    attention.padded = taken->head;
    attention.few = few_tiling(whole(attention.rows()), taken->head, taken->element_bytes,
                               device.on_chip_bytes);
  }
  const double extra = beside - (one_op ? 0 : kSoftmax);
  attention.instructions = std::max(0.0, extra) * kScored + (attention.masked ? kMask : 0);
  attention.plain = !attention.masked && extra <= 0;
  attention.rate = attention.on_tensor_cores ? device.constants.tensor_flops.value *
                                                   (device.capability == kHopper ? 1 : 0.6)
                                             : 2 * arithmetic_lanes(type, device) * 0.4;
  return attention;
}

// Blocks that share a key head leave their parts for one of them.
double merge_us(const Attention& attention, const Device& device) {
  constexpr double kMergeUs = 3;
  constexpr double kBytesPerUs = 110e3;  // that one multiprocessor reads from the L2
  const auto up = [](double count) { return whole(std::max(1.0, std::ceil(count))); };
  const double rows = attention.rows();
  const double keys = std::min(attention.keys, attention.window + attention.queries - 1);
  const KeySplit split =
      key_split(up(attention.key_heads), up(rows), up(keys / static_cast<double>(kFewTileKeys)),
                std::max(1U, device.multiprocessors) * attention.few->running);
  if (split.parts == 1) return 0;
  return kMergeUs +
         static_cast<double>(split.parts) * rows * attention.head * sizeof(float) / kBytesPerUs;
}

// Reading keys and values takes the time, but for f32, whose products take longer.
void add_few_queries(const OpGraph& graph, const Kernel& kernel, const Attention& attention,
                     const Device& device, KernelWork& work) {
  constexpr double kLookUpUs = 0.8;  // until the first entries of a table have arrived
  constexpr double kWords = 90;      // FLOPs per multiprocessor and cycle
  work.fixed_us += merge_us(attention, device);
  work.time_doubt = 0.2;
  if (attention.words) {
    const auto rows = static_cast<double>(attention.few->row_tiles * kFewTileRows);
    const double keys = std::ceil(attention.keys / kFewTileKeys) * kFewTileKeys;
    const double flops =
        attention.key_heads * rows * keys * static_cast<double>(attention.padded) * 4;
    work.compute_us =
        flops / (kWords * device.multiprocessors * device.constants.clock_ghz.value * kGiga);
  }
  bool looks_up = false;
  for (const OpId id : kernel) {
    const Op& op = graph.ops[id];
    if (op.row->access != Access::kGather) continue;
    looks_up = true;
    add_repeated_rows(graph, op, device, work);
  }
  if (looks_up) work.fixed_us += kLookUpUs;
}

constexpr double kManyWaves = 8;  // after which ends even out

// Blocks of queries over tiles of keys, in f32. Measured on an H200.
double words_us(const Attention& attention, const Device& device) {
  constexpr double kBeginUs = 1;
  constexpr double kTile = 880, kOfHead = 35.6;  // cycles of a tile, and for each element of a head
  constexpr double kBeside = 0.81;               // of that, where blocks run beside each other
  constexpr double kMmaFlops = 85;               // per cycle, of a block of attention_sm80
  constexpr double kMmaBlocks = 2;
  const auto head = static_cast<double>(attention.padded);
  const bool copies = device.capability == kHopper;
  const MmaAttention mma = mma_attention(attention.padded, 4);
  const auto rows = static_cast<double>(copies ? kWordsTile : mma.rows);
  const auto tile_keys = static_cast<double>(copies ? kWordsTile : mma.keys);
  const double resident = copies ? static_cast<double>(words_blocks(attention.padded)) : kMmaBlocks;
  const double blocks = std::ceil(attention.queries / rows) * attention.heads;
  const double waves = blocks / (resident * device.multiprocessors);
  const double beside = std::min(resident, std::ceil(blocks / device.multiprocessors));
  const double cycles_per_us = device.constants.clock_ghz.value * kGiga;
  const double alone_us =
      (copies ? kTile + kOfHead * head : rows * tile_keys * head * 4 / kMmaFlops) / cycles_per_us +
      rows * tile_keys * attention.instructions / (device.constants.lanes.value * cycles_per_us);
  const double tile_us = copies ? alone_us * std::max(1.0, kBeside * beside) : alone_us;
  const double tiles = std::ceil(attention.keys / tile_keys);
  if (attention.causal) {
    const double seen = std::ceil((attention.window + rows) / tile_keys);
    // The longest end alone.
    const double mean = (tiles + rows / tile_keys) / 2;
    return std::max(waves * (kBeginUs + std::min({mean, tiles, seen}) * tile_us),
                    kBeginUs + std::min(tiles, seen) * (alone_us + tile_us) / 2);
  }
  return (waves > kManyWaves ? waves : std::ceil(waves)) * (kBeginUs + tiles * tile_us);
}

// The same in bf16 and f16, and without tensor cores.
double tiles_us(const Attention& attention, const Device& device) {
  constexpr double kExponentials = 18;  // of a tile, per cycle
  const std::uint64_t padded = attention.head <= 64 ? 64 : 128;
  const auto rows = static_cast<double>(attention_rows(padded, attention.plain,
                                                       {.heads = whole(attention.heads),
                                                        .queries = whole(attention.queries),
                                                        .keys = whole(attention.keys),
                                                        .causal = attention.causal,
                                                        .window = whole(attention.window)},
                                                       device.multiprocessors));
  const bool small = attends_alone(padded, attention.plain, whole(rows));
  const bool alone = small && device.capability == kHopper;
  const auto tile_keys = static_cast<double>(
      device.capability == kHopper
          ? attention_tile_keys(whole(attention.head), attention.plain, whole(attention.keys))
          : 128);
  const double tiles = std::ceil(attention.keys / tile_keys);
  // To load its queries and store its result; several blocks do a part of it behind the others.
  const double begin_us = alone ? 1.5 : 2.5;
  // Blocks that a multiprocessor runs at once share it.
  const double resident = alone ? static_cast<double>(kAloneBlocks) : small ? 2 : 1;
  const double waves =
      std::ceil(attention.queries / rows) * attention.heads / (resident * device.multiprocessors);
  const double scores = std::clamp(waves * resident, 1.0, resident) * rows * tile_keys;
  const double tile = scores * (attention.head * 4 / attention.rate + 1 / kExponentials +
                                attention.instructions / device.constants.lanes.value);
  const auto block_us = [&](double count) {
    return begin_us + count * tile / (device.constants.clock_ghz.value * kGiga);
  };
  // The longest blocks run first, so that the short ones even out the ends.
  if (attention.causal) {
    const double seen = std::ceil((attention.window + rows) / tile_keys);
    return std::max(waves * block_us(std::min((tiles + 1) / 2, seen)),
                    block_us(std::min(tiles, seen)));
  }
  return (waves > kManyWaves ? waves : std::ceil(waves)) * block_us(tiles);
}

}  // namespace

KernelWork attention_work(const OpGraph& graph, const Kernel& kernel,
                          const std::vector<OpId>& products, const KernelTraffic& traffic,
                          double beside, const Device& device) {
  constexpr double kBeginUs = 1.5;
  const Attention attention = attention_of(graph, kernel, products, beside, device);
  KernelWork work{.dram_read = static_cast<double>(traffic.bytes.read),
                  .dram_write = static_cast<double>(traffic.bytes.write),
                  .fixed_us = device.constants.launch_us.value + kBeginUs,
                  .read_doubt = 0.1,
                  .write_doubt = 0.05,
                  .time_doubt = attention.masked ? 0.4 : 0.3};
  if (attention.few) {
    add_few_queries(graph, kernel, attention, device, work);
  } else {
    work.compute_us = attention.words ? words_us(attention, device) : tiles_us(attention, device);
  }
  return work;
}

}  // namespace fusecalc
