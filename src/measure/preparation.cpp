#include "measure/preparation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/interrupt.hpp"

namespace fusecalc {
namespace {

struct EpilogueWords {
  MatmulEpilogue epilogue;
  std::string_view words;
};

constexpr std::array kEpilogueWords = {
    EpilogueWords{MatmulEpilogue::kPlain, ""},
    EpilogueWords{MatmulEpilogue::kBias, " with its bias epilogue"},
    EpilogueWords{MatmulEpilogue::kRelu, " with its relu epilogue"},
    EpilogueWords{MatmulEpilogue::kReluBias, " with its bias and relu epilogue"},
    EpilogueWords{MatmulEpilogue::kGelu, " with its gelu epilogue"},
    EpilogueWords{MatmulEpilogue::kGeluBias, " with its bias and gelu epilogue"},
};

}  // namespace

void Preparation::add(const GeneratedKernel& code, PreparedKernel& kernel) {
  Added& added = added_.emplace_back(Added{.code = &code, .kernel = &kernel});
  if (code.workspace_bytes > 0) {
    const DeviceBuffer& workspace = workspaces_.emplace_back(gpu_, code.workspace_bytes);
    gpu_.set_bytes(workspace, std::byte{0});
    added.workspace = workspace.at(0);
  }
  if (code.library) prepare_library(added);
}

MatmulOperands Preparation::operands_of(const LibraryProduct& product, const Added& added) const {
  const auto at = [&](TensorId tensor, DType dtype, std::uint64_t offset) {
    BufferAt place = memory_.at(tensor);
    place.offset += bytes_of(dtype, offset);
    return place;
  };
  const LibraryMatmul& matmul = product.matmul;
  MatmulOperands operands{.a = product.a == kNone
                                   ? BufferAt{added.workspace.buffer, added.code->packed_at}
                                   : at(product.a, matmul.operand, product.a_offset),
                          .b = at(product.b, matmul.operand, product.b_offset),
                          .result = memory_.at(product.result)};
  if (product.bias != kNone) {
    operands.bias = at(product.bias, matmul.outcome, product.bias_offset);
  }
  return operands;
}

void Preparation::prepare_library(Added& added) {
  const LibraryProduct& product = *added.code->library;
  MatmulOperands operands = operands_of(product, added);
  for (const LibraryProduct& sibling : product.siblings) {
    operands.siblings.push_back(operands_of(sibling, added));
  }
  try {
    added.products = gpu_.prepare(product.matmul, operands);
  } catch (const Error& error) {
    if (error.fault() != Fault::kUnavailable) throw;
    added.no_product = error.what();
  }
}

void Preparation::finish(const Progress& progress) {
  compile(progress);
  for (const Added& added : added_) {
    PreparedKernel& kernel = *added.kernel;
    std::vector<Variant> variants = variants_of(added);
    if (variants.size() > 1) {
      kernel.variants = std::move(variants);
      continue;
    }
    kernel.steps = std::move(variants.front().steps);
    kernel.main = variants.front().main;
    kernel.schedule = std::move(variants.front().schedule);
    kernel.gaps = std::move(variants.front().gaps);
    kernel.source = variants.front().source;
    if (added.lone() && !added.no_product.empty()) {
      kernel.choice = "generated, because " + added.no_product;
    }
  }
  added_.clear();
}

void Preparation::compile(const Progress& progress) {
  std::vector<KernelSource> sources;
  std::set<std::string_view> known;
  const auto need = [&](const GeneratedKernel& code) {
    if (!compiled_.contains(code.source.text) && known.insert(code.source.text).second) {
      sources.push_back(code.source);
    }
  };
  for (const Added& added : added_) {
    if (!added.ours() && !added.code->packing) continue;
    need(*added.code);
    for (const GeneratedKernel& other : added.code->others) need(other);
  }
  if (sources.empty()) return;
  const auto report_progress = [&](std::size_t done) {
    stop_if_interrupted();
    progress(fmt::format("compiling kernels, {} of {} done", done, sources.size()));
  };
  report_progress(0);
  std::vector<std::vector<CompiledKernel>> kernels = gpu_.compile_all(sources, report_progress);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    compiled_.emplace(std::move(sources[i].text), std::move(kernels[i]));
  }
}

std::vector<Variant> Preparation::variants_of(const Added& added) {
  std::vector<Variant> variants;
  if (added.ours()) {
    variants.push_back(generated_variant(*added.code, added));
    for (const GeneratedKernel& other : added.code->others) {
      variants.push_back(generated_variant(other, added));
    }
    if (variants.size() == 1) variants.front().name = "the generated kernel";
  }
  for (const PreparedMatmul& product : added.products) {
    variants.push_back(library_variant(product, added));
  }
  return variants;
}

Variant Preparation::library_variant(const PreparedMatmul& product, const Added& added) {
  const auto* row = std::ranges::find(kEpilogueWords, added.code->library->matmul.epilogue,
                                      &EpilogueWords::epilogue);
  Variant variant{.steps = {product},
                  .schedule = fmt::format("cuBLASLt{}", row->words),
                  .name = "cuBLASLt",
                  .gaps = added.code->gaps};
  if (const std::size_t more = added.code->library->siblings.size(); more > 0) {
    variant.schedule += fmt::format(", {} products as a batch", more + 1);
  }
  if (!product.kernel.empty()) variant.schedule += fmt::format(", {}", product.kernel);
  if (product.launches > 1) variant.schedule += fmt::format(", {} calls", product.launches);
  if (!added.pads()) add_packing(variant, added);
  return variant;
}

Variant Preparation::generated_variant(const GeneratedKernel& code, const Added& added) {
  Variant variant{.steps = {first_entry(code, added.workspace)},
                  .schedule = code.schedule,
                  .name = code.schedule,
                  .gaps = code.gaps,
                  .source = &code.source.text};
  for (std::size_t i = 0; i < code.following.size(); ++i) {
    variant.steps.emplace_back(entry_of(code, i + 1, code.following[i], added.workspace));
  }
  add_packing(variant, added);
  return variant;
}

void Preparation::add_packing(Variant& variant, const Added& added) {
  const GeneratedKernel& code = *added.code;
  if (!code.packing) return;
  variant.schedule += ", after packing an operand";
  ++variant.main;
  variant.steps.insert(variant.steps.begin(), entry_of(code, code.source.entries.size() - 1,
                                                       *code.packing, added.workspace));
}

Launch Preparation::entry_of(const GeneratedKernel& code, std::size_t entry,
                             const FollowingEntry& extent, const BufferAt& workspace) {
  Launch launch{.kernel = compiled_.at(code.source.text)[entry],
                .grid = {static_cast<unsigned>(extent.blocks)},
                .block = {extent.threads},
                .shared_bytes = 0,
                .arguments = {}};
  for (const TensorId id : code.storages) launch.arguments.emplace_back(memory_.at(id));
  if (code.workspace_bytes > 0) launch.arguments.emplace_back(workspace);
  return launch;
}

Launch Preparation::first_entry(const GeneratedKernel& code, const BufferAt& workspace) {
  Launch launch = entry_of(code, 0, {code.blocks, code.threads}, workspace);
  launch.grid.y = code.blocks_y;
  launch.grid.z = code.blocks_z;
  launch.shared_bytes = code.shared_bytes;
  launch.cooperative = code.cooperative;
  launch.overlaps = code.packing && code.waits_for_packing;
  std::vector<Argument> maps;
  for (const MappedTensor& map : code.maps) {
    const bool packed = map.storage == kNone;
    BufferAt at = packed ? BufferAt{workspace.buffer, code.packed_at} : memory_.at(map.storage);
    at.offset += map.offset;
    maps.emplace_back(TensorMap{.at = at,
                                .dtype = map.dtype,
                                .extents = map.extents,
                                .strides = map.strides,
                                .box = map.box,
                                .windows = map.windows});
  }
  launch.arguments.insert(launch.arguments.begin(), maps.begin(), maps.end());
  if (const unsigned cluster = code.persistent_cluster; cluster > 0) {
    const unsigned resident = std::max(1U, gpu_.resident_clusters(launch, cluster));
    launch.grid.x = cluster * std::min(launch.grid.x / cluster, resident);
  }
  return launch;
}

}  // namespace fusecalc
