#include "profile/launch_class.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace fusecalc {
namespace {

struct Row {
  std::string_view part;  // of a name, in lower case
  LaunchClass launch_class;
};

// The first row whose part the name holds. Triton's kernels of torch.compile say what they are by
// their prefix, whatever ops they list, so they come first.
constexpr std::array kRows = {
    Row{"triton_poi_", LaunchClass::kPointwise},
    Row{"triton_red_", LaunchClass::kReduce},
    Row{"triton_per_", LaunchClass::kReduce},
    Row{"triton_tem_", LaunchClass::kProduct},
    Row{"nchwtonhwc", LaunchClass::kLayout},
    Row{"nhwctonchw", LaunchClass::kLayout},
    Row{"nchw_to_nhwc", LaunchClass::kLayout},
    Row{"nhwc_to_nchw", LaunchClass::kLayout},
    Row{"nhwcaddpadding", LaunchClass::kLayout},
    Row{"nhwc_padding", LaunchClass::kLayout},
    Row{"converttensor", LaunchClass::kLayout},
    Row{"tensortransform", LaunchClass::kLayout},
    Row{"flash", LaunchClass::kAttention},
    Row{"fmha", LaunchClass::kAttention},
    Row{"sdpa", LaunchClass::kAttention},
    Row{"attention", LaunchClass::kAttention},
    Row{"softmax", LaunchClass::kRows},
    Row{"layer_norm", LaunchClass::kRows},
    Row{"layernorm", LaunchClass::kRows},
    Row{"rms_norm", LaunchClass::kRows},
    Row{"rmsnorm", LaunchClass::kRows},
    Row{"groupnorm", LaunchClass::kRows},
    Row{"group_norm", LaunchClass::kRows},
    Row{"batch_norm_transform", LaunchClass::kScaleShift},
    Row{"batch_norm_elementwise", LaunchClass::kScaleShift},
    Row{"bn_fw_inf", LaunchClass::kScaleShift},
    Row{"batch_norm", LaunchClass::kRows},
    Row{"bn_fw", LaunchClass::kRows},
    Row{"rowwisemoments", LaunchClass::kRows},
    Row{"nll_loss", LaunchClass::kRows},
    Row{"cross_entropy", LaunchClass::kRows},
    Row{"splitkreduce", LaunchClass::kUnknown},  // a part of a product
    Row{"nvjet", LaunchClass::kProduct},
    Row{"gemm", LaunchClass::kProduct},
    Row{"gemv", LaunchClass::kProduct},
    Row{"cublas", LaunchClass::kProduct},
    Row{"cutlass", LaunchClass::kProduct},
    Row{"xmma", LaunchClass::kProduct},
    Row{"convolve", LaunchClass::kProduct},
    Row{"conv2d", LaunchClass::kProduct},
    Row{"implicit_convolve", LaunchClass::kProduct},
    Row{"winograd", LaunchClass::kProduct},
    Row{"fprop", LaunchClass::kProduct},
    Row{"matmul", LaunchClass::kProduct},
    Row{"reduce", LaunchClass::kReduce},
    Row{"argmax", LaunchClass::kReduce},
    Row{"catarray", LaunchClass::kMovement},
    Row{"transpose", LaunchClass::kMovement},
    Row{"index", LaunchClass::kMovement},
    Row{"gather", LaunchClass::kMovement},
    Row{"scatter", LaunchClass::kMovement},
    Row{"embedding", LaunchClass::kMovement},
    Row{"copy_kernel", LaunchClass::kCopy},
    Row{"at::native::dire...", LaunchClass::kCopy},  // direct_copy_kernel, cut off
    Row{"fillfunctor", LaunchClass::kTransfer},
    Row{"elementwise", LaunchClass::kPointwise},
    Row{"pointwise", LaunchClass::kPointwise},
    Row{"dropout", LaunchClass::kPointwise},
    Row{"multi_tensor", LaunchClass::kPointwise},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

LaunchClass classify(const ProfiledLaunch& launch) {
  switch (launch.kind) {
    case LaunchKind::kGraph: return LaunchClass::kGraph;
    case LaunchKind::kCopy:
    case LaunchKind::kFill: return LaunchClass::kTransfer;
    case LaunchKind::kKernel: break;
  }
  std::string name = launch.name;
  std::ranges::transform(name, name.begin(), lower);
  const auto* row = std::ranges::find_if(
      kRows, [&](const Row& known) { return name.find(known.part) != std::string::npos; });
  return row == kRows.end() ? LaunchClass::kUnknown : row->launch_class;
}

}  // namespace fusecalc
