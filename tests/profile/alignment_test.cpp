#include "profile/alignment.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "graph/graph_text.hpp"
#include "profile/launch_class.hpp"
#include "profile/profile.hpp"
#include "report/profile_rows.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Tensors of 64 MiB: 4096 x 4096 f32. linear reads x, w and a bias of 16 KiB.
constexpr std::uint64_t kTensor = std::uint64_t{64} << 20U;
constexpr std::string_view kBlock = R"({"dtype": "f32",
  "tensors": {"x": {"shape": [4096, 4096]}, "w": {"shape": [4096, 4096]}},
  "ops": [{"name": "mm", "op": "matmul", "inputs": ["x", "w"], "output": "h"},
          {"name": "act", "op": "gelu", "inputs": ["h"], "output": "g"},
          {"name": "res", "op": "add", "inputs": ["g", "x"], "output": "r"},
          {"name": "soft", "op": "softmax", "inputs": ["r"], "axis": -1, "output": "y"}]})";

Analysis block() {
  return analyze_graph(graph_of(kBlock), "block", device_named("h200"), std::nullopt);
}

// A launch that moves so many tensors.
ProfiledLaunch launch(const std::string& name, std::uint64_t read, std::uint64_t write) {
  ProfiledLaunch made;
  made.name = name;
  made.dram = Bytes{.read = read * kTensor, .write = write * kTensor};
  made.seconds = 1e-3;
  return made;
}

const ProfiledLaunch kProduct = launch("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_TNT", 2, 1);
const ProfiledLaunch kGelu = launch("vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", 1, 1);
const ProfiledLaunch kAdd = launch("vectorized_elementwise_kernel<4, CUDAFunctor_add>", 2, 1);
const ProfiledLaunch kSoftmax = launch("cunn_SoftMaxForward<8>", 1, 1);

std::string text_of(const Alignment& alignment) {
  std::string text;
  for (const Match& match : alignment.matches) {
    text += std::to_string(match.launch) + ":";
    for (const OpId op : match.ops) text += " " + alignment.ops[op];
    text += "; ";
  }
  return text;
}

}  // namespace

TEST_CASE("eager launches match one op each, and a stranger matches none") {
  const ProfiledLaunch stranger = launch("distribution_elementwise_grid_stride_kernel", 0, 9);
  const std::vector<ProfiledLaunch> launches = {stranger, kProduct, kGelu, kAdd, kSoftmax};
  const Alignment alignment = align(block(), launches);
  CHECK(text_of(alignment) == "1: mm; 2: act; 3: res; 4: soft; ");
  CHECK(alignment.runs == 1);
  CHECK(alignment.missing.empty());
  CHECK(alignment.unmatched.empty());
  CHECK(alignment.moved.total() == 10 * kTensor);
  CHECK(alignment.attributed == 10 * kTensor);
  for (const Match& match : alignment.matches) CHECK(match.confidence > 0.9);
}

TEST_CASE("a launch that fuses several ops matches all of them") {
  const std::vector<ProfiledLaunch> launches = {kProduct,
                                                launch("triton_poi_fused_add_gelu_0", 2, 1),
                                                launch("triton_per_fused__softmax_1", 1, 1)};
  const Alignment alignment = align(block(), launches);
  CHECK(text_of(alignment) == "0: mm; 1: act res; 2: soft; ");
  REQUIRE(alignment.matches.size() == 3);
  CHECK(alignment.matches[1].unfused.total() == 5 * kTensor);
  CHECK(alignment.matches[1].fused.total() == 3 * kTensor);
}

TEST_CASE("of several runs of a list the last whole one counts") {
  std::vector<ProfiledLaunch> launches;
  for (int run = 0; run < 3; ++run) {
    for (const ProfiledLaunch& one : {kProduct, kGelu, kAdd, kSoftmax}) launches.push_back(one);
    if (run < 2) launches.push_back(launch("fill", 0, 1));
  }
  launches.push_back(kProduct);  // a run that was cut off
  const Alignment alignment = align(block(), launches);
  CHECK(alignment.runs >= 3);
  CHECK(text_of(alignment) == "10: mm; 11: act; 12: res; 13: soft; ");
  CHECK(alignment.moved.total() == 10 * kTensor);
}

TEST_CASE("small ops do not decide which of several runs counts") {
  const Analysis analysis =
      analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [4096, 4096]},
          "w": {"shape": [4096, 4096]}, "t": {"shape": [16, 16]}},
        "ops": [{"name": "small", "op": "softmax", "inputs": ["t"], "axis": -1, "output": "u"},
                {"name": "mm", "op": "matmul", "inputs": ["x", "w"], "output": "h"},
                {"name": "act", "op": "gelu", "inputs": ["h"], "output": "y"}]})"),
                    "small", device_named("h200"), std::nullopt);
  // The second run keeps what `small` computes.
  const ProfiledLaunch small = launch("cunn_SoftMaxForward<4>", 0, 0);
  const std::vector<ProfiledLaunch> launches = {small, kProduct, kGelu, kProduct, kGelu};
  const Alignment alignment = align(analysis, launches);
  CHECK(alignment.runs == 2);
  CHECK(text_of(alignment) == "3: mm; 4: act; ");
  CHECK(alignment.missing == std::vector<OpId>{0});
}

TEST_CASE("ops that a compiler runs where they are first used are matched there") {
  // `table` is written ahead of the product, and `act` ahead of another one.
  const Analysis analysis =
      analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [4096, 4096]},
          "t": {"shape": [4096, 4096]}, "w": {"shape": [4096, 4096]}, "v": {"shape": [4096, 4096]}},
        "ops": [{"name": "table", "op": "cos", "inputs": ["t"], "output": "c"},
                {"name": "mm", "op": "matmul", "inputs": ["x", "w"], "output": "h"},
                {"name": "act", "op": "silu", "inputs": ["h"], "output": "g"},
                {"name": "up", "op": "matmul", "inputs": ["x", "v"], "output": "u"},
                {"name": "mul", "op": "mul", "inputs": ["g", "u"], "output": "m"},
                {"name": "turn", "op": "mul", "inputs": ["m", "c"], "output": "y"}]})"),
                    "gated", device_named("h200"), std::nullopt);
  const Alignment compiled = align(
      analysis, std::vector{kProduct, kProduct, launch("triton_poi_fused_cos_mul_silu_0", 3, 1)});
  CHECK(text_of(compiled) == "0: mm; 1: up; 2: table act mul turn; ");
  CHECK(compiled.matches.back().fused.total() == 4 * kTensor);
  const Alignment eager =
      align(analysis, std::vector{launch("vectorized_elementwise_kernel<4, cos>", 1, 1), kProduct,
                                  kGelu, kProduct, kAdd, kAdd});
  CHECK(text_of(eager) == "0: table; 1: mm; 2: act; 3: up; 4: mul; 5: turn; ");
}

TEST_CASE("trials of a tuner before a run are no part of it") {
  // x of 64 MiB are rows of an embedding.
  const Analysis analysis =
      analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"e": {"shape": [65536, 4096]},
          "i": {"shape": [4096], "dtype": "i64"}, "w": {"shape": [4096, 4096]}},
        "ops": [{"name": "rows", "op": "embedding", "inputs": ["e", "i"], "output": "x"},
                {"name": "soft", "op": "softmax", "inputs": ["x"], "axis": -1, "output": "s"},
                {"name": "mm", "op": "matmul", "inputs": ["s", "w"], "output": "y"}]})"),
                    "tuned", device_named("h200"), std::nullopt);
  ProfiledLaunch copy = launch("copy device to device", 1, 1);
  copy.kind = LaunchKind::kCopy;
  const ProfiledLaunch trial = launch("triton_red_fused__softmax_embedding_1", 3, 1);
  const ProfiledLaunch flush = launch("vectorized_elementwise_kernel<4, FillFunctor<int>>", 0, 1);
  std::vector<ProfiledLaunch> launches;
  for (int i = 0; i < 9; ++i) launches.insert(launches.end(), {copy, trial, flush});
  launches.push_back(launch("triton_red_fused__softmax_embedding_0", 1, 1));
  launches.push_back(kProduct);
  const Alignment alignment = align(analysis, launches);
  CHECK(text_of(alignment) == "27: rows soft; 28: mm; ");
  CHECK(alignment.moved.total() == 5 * kTensor);
  CHECK(alignment.unmatched.empty());
}

TEST_CASE("small launches inside a run do not take the ops of large ones") {
  const Analysis analysis =
      analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [4096, 4096]},
          "w": {"shape": [4096, 4096]}, "t": {"shape": [4096, 1]}},
        "ops": [{"name": "scale", "op": "exp", "inputs": ["t"], "output": "s"},
                {"name": "mm", "op": "matmul", "inputs": ["x", "w"], "output": "h"},
                {"name": "mul", "op": "mul", "inputs": ["h", "s"], "output": "y"}]})"),
                    "scaled", device_named("h200"), std::nullopt);
  const std::vector<ProfiledLaunch> launches = {kProduct, launch("triton_poi_fused_arange_1", 0, 0),
                                                launch("triton_poi_fused_cat_2", 0, 0),
                                                launch("triton_poi_fused_exp_mul_3", 1, 1)};
  const Alignment alignment = align(analysis, launches);
  CHECK(alignment.matches.front().launch == 0);
  CHECK(alignment.matches.back().launch == 3);
  CHECK(alignment.moved.total() == 5 * kTensor);
  CHECK(alignment.attributed == 5 * kTensor);
  CHECK(alignment.missing.empty());
}

TEST_CASE("a graph launch runs the whole list") {
  ProfiledLaunch graph = launch("graph", 6, 4);
  graph.kind = LaunchKind::kGraph;
  const Alignment alignment = align(block(), std::vector{graph, graph});
  CHECK(text_of(alignment) == "1: mm act res soft; ");
  CHECK(alignment.runs == 2);
}

TEST_CASE("fusions that the program misses are told with what they would save") {
  Profile profile;
  profile.processes.emplace_back().launches = {kProduct, kGelu, kAdd, kSoftmax};
  profile.alignment = align(block(), profile.processes[0].launches);
  REQUIRE_FALSE(profile.alignment->fusions.empty());
  const MissedFusion& most = profile.alignment->fusions.front();
  CHECK(most.launches >= 2);
  // Fusing two launches that share a tensor saves its write and its read at least.
  CHECK(most.bytes >= 2 * kTensor);
  REQUIRE(most.seconds);
  const std::string verdict = verdict_of(profile);
  CHECK(verdict.starts_with("moved 671.1 MB: unfused 671.1 MB, compiler "));
  CHECK(verdict.find("; the fusions that would save most: ") != std::string::npos);
}

TEST_CASE("launches of nothing that the list has are left unmatched") {
  const std::vector<ProfiledLaunch> launches = {launch("fmha_cutlassF_bf16_aligned", 40, 40)};
  const Alignment alignment = align(block(), launches);
  CHECK(alignment.matches.empty());
  Profile profile;
  profile.processes.emplace_back().launches = launches;
  profile.alignment = alignment;
  CHECK(verdict_of(profile) == "no launch matches block: is it this program's op list?");
}

TEST_CASE("launches that change layouts belong to their convolutions, and are told apart") {
  // Tensors of 64 MiB; the filters have 16 KiB.
  const Analysis convolutions =
      analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [64, 64, 64, 64]},
          "v": {"shape": [64, 64, 1, 1]}, "w": {"shape": [64, 64, 1, 1]}},
        "ops": [{"name": "first", "op": "conv2d", "inputs": ["x", "v"], "output": "a"},
                {"name": "scale", "op": "sigmoid", "inputs": ["a"], "output": "b"},
                {"name": "second", "op": "conv2d", "inputs": ["b", "w"], "output": "y"}]})"),
                    "convolutions", device_named("h200"), std::nullopt);
  ProfiledLaunch clear = launch("fill", 0, 1);
  clear.kind = LaunchKind::kFill;
  const ProfiledLaunch convolution =
      launch("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", 1, 1);
  const std::string copy = "elementwise_kernel<128, 4, direct_copy_kernel_cuda>";
  Profile profile;
  profile.processes.emplace_back().launches = {
      launch("vectorized_elementwise_kernel<4, other>", 9, 9),
      clear,
      launch("nhwcAddPaddingKernel<__nv_bfloat16>", 1, 1),
      convolution,
      launch(copy, 0, 0),  // a cast of statistics
      launch("batch_norm_transform_input_channels_last_kernel<float>", 1, 1),
      launch(copy, 1, 1),
      convolution,
      launch("nhwcToNchwKernel<float>", 1, 1)};
  profile.alignment = align(convolutions, profile.processes[0].launches);
  const Alignment& alignment = *profile.alignment;
  CHECK(text_of(alignment) == "3: first; 5: scale; 7: second; ");
  std::string layouts;
  for (const LayoutLaunch& layout : alignment.layouts) {
    layouts += std::to_string(layout.launch) + ":" + std::to_string(layout.match) + " ";
  }
  CHECK(layouts == "1:0 2:0 6:2 8:2 ");
  CHECK(alignment.unmatched == std::vector<std::size_t>{4});
  CHECK(alignment.layout_bytes == 7 * kTensor);
  CHECK(alignment.moved.total() == 13 * kTensor);
  CHECK(alignment.attributed == 13 * kTensor);
  CHECK(verdict_of(profile).starts_with("moved 872.4 MB: unfused "));
  const std::vector<std::string> notes = profile_notes(profile, profile.processes[0]);
  CHECK(notes.back() ==
        "469.8 MB (53.8 %) of it is overhead of layouts: 4 launches that change them "
        "or pad for convolutions");
}

TEST_CASE("names tell what launches are") {
  const auto class_of = [](const std::string& name) { return classify(launch(name, 1, 1)); };
  CHECK(class_of("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN") == LaunchClass::kProduct);
  CHECK(class_of("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n") == LaunchClass::kProduct);
  CHECK(class_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16") ==
        LaunchClass::kAttention);
  CHECK(class_of("flash_fwd_kernel<Flash_fwd_kernel_traits>") == LaunchClass::kAttention);
  CHECK(class_of("triton_poi_fused_add_view_3") == LaunchClass::kPointwise);
  CHECK(class_of("triton_per_fused_native_layer_norm_0") == LaunchClass::kReduce);
  CHECK(class_of("vectorized_layer_norm_kernel<c10::BFloat16>") == LaunchClass::kRows);
  CHECK(class_of("reduce_kernel<512, 1>") == LaunchClass::kReduce);
  CHECK(class_of("batch_norm_collect_statistics_kernel<float>") == LaunchClass::kRows);
  CHECK(class_of("batch_norm_transform_input_channels_last_kernel<c10::BFloat16>") ==
        LaunchClass::kScaleShift);
  CHECK(class_of("unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::Tens...>") ==
        LaunchClass::kCopy);
  CHECK(class_of(
            "elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::dire...>") ==
        LaunchClass::kCopy);
  CHECK(class_of("nchwToNhwcKernel<__half, __half, float>") == LaunchClass::kLayout);
  CHECK(class_of("CatArrayBatchedCopy<4>") == LaunchClass::kMovement);
  CHECK(class_of("vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>") ==
        LaunchClass::kTransfer);
  CHECK(class_of("my_kernel") == LaunchClass::kUnknown);
}
