#include "cuda/harness_source.hpp"

#include <array>
#include <string_view>

#include "codegen/kernel_facts.hpp"
#include "core/embedded.hpp"

namespace fusecalc::cuda {
namespace {

// Of the enumeration in kernels/harness.cuh, in DType's order.
constexpr std::array<std::string_view, 16> kKindNames = {
    "kFloat64",    "kFloat32",    "kTfloat32", "kFloat16", "kBfloat16", "kFloat8E4m3",
    "kFloat8E5m2", "kFloat4E2m1", "kInt64",    "kInt32",   "kInt16",    "kInt8",
    "kUint8",      "kInt4",       "kUint4",    "kBool"};
static_assert(kKindNames.size() == static_cast<std::size_t>(DType::kBool) + 1);

}  // namespace

ElementKind kind_of(DType dtype) {
  return {kBits8.number + 1 + static_cast<std::int32_t>(dtype), bytes_of(dtype, 1)};
}

KernelSource harness_source() {
  std::string text(embedded_kernel("harness"));
  text += static_asserts({{"kThreads", kHarnessThreads},
                          {"sizeof(Differences)", sizeof(Differences)},
                          {"kBits64", static_cast<std::uint64_t>(kBits64.number)},
                          {"kBits8", static_cast<std::uint64_t>(kBits8.number)}});
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    const ElementKind kind = kind_of(static_cast<DType>(i));
    text += static_asserts({{kKindNames[i], static_cast<std::uint64_t>(kind.number)}});
  }
  return {text, {"sweep", "hold", "fill", "compare"}};
}

}  // namespace fusecalc::cuda
