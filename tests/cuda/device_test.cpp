#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/device_buffer.hpp"
#include "core/error.hpp"
#include "cuda/cuda_backend.hpp"
#include "measure/chain_runner.hpp"
#include "reference/element.hpp"
#include "reference/random.hpp"

namespace fusecalc::cuda {
namespace {

GpuBackend& timing_gpu() {
  static CudaBackend gpu({.device_index = 0, .counters = false});
  return gpu;
}

std::vector<std::byte> contents(GpuBackend& gpu, const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.bytes);
  gpu.download(bytes, {buffer});
  return bytes;
}

template <typename Value>
std::vector<Value> values(GpuBackend& gpu, const Buffer& buffer) {
  std::vector<Value> result(buffer.bytes / sizeof(Value));
  gpu.download(std::as_writable_bytes(std::span(result)), {buffer});
  return result;
}

CompiledKernel stream_kernel(GpuBackend& gpu) { return gpu.compile(stream_source()).front(); }

TEST_CASE("bytes copied to the device and back are unchanged") {
  GpuBackend& gpu = timing_gpu();
  const DeviceBuffer buffer(gpu, 1000);
  std::vector<std::byte> sent(1000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  gpu.upload(buffer.at(0), sent);
  CHECK(contents(gpu, buffer) == sent);
  gpu.poison(buffer);
  CHECK(contents(gpu, buffer) == std::vector<std::byte>(1000, std::byte{0xff}));
}

TEST_CASE("random fills are in their range, in every width, and repeat with their seed") {
  GpuBackend& gpu = timing_gpu();
  const DeviceBuffer buffer(gpu, 1U << 20U);
  gpu.fill(buffer, {.dtype = DType::kF32, .low = -2, .high = 6, .seed = 1});
  const std::vector<float> floats = values<float>(gpu, buffer);
  const auto [least, most] = std::ranges::minmax(floats);
  CHECK(least >= -2);
  CHECK(least < -1.99F);
  CHECK(most < 6);
  CHECK(most > 5.99F);
  double sum = 0;
  for (const float each : floats) sum += static_cast<double>(each);
  CHECK(sum / static_cast<double>(floats.size()) == doctest::Approx(2).epsilon(0.01));
  const std::vector<std::byte> first = contents(gpu, buffer);
  gpu.fill(buffer, {.dtype = DType::kF32, .low = -2, .high = 6, .seed = 2});
  CHECK(contents(gpu, buffer) != first);
  gpu.fill(buffer, {.dtype = DType::kF32, .low = -2, .high = 6, .seed = 1});
  CHECK(contents(gpu, buffer) == first);
  gpu.fill(buffer, {.dtype = DType::kBool, .low = 0, .high = 2, .seed = 1});
  const std::vector<std::uint8_t> flags = values<std::uint8_t>(gpu, buffer);
  CHECK(std::ranges::all_of(flags, [](std::uint8_t flag) { return flag <= 1; }));
  CHECK(std::ranges::count(flags, 1) > 500'000);
  gpu.fill(buffer, {.dtype = DType::kI64, .low = -5, .high = 5, .seed = 1});
  for (const std::int64_t each : values<std::int64_t>(gpu, buffer)) {
    REQUIRE((each >= -5 && each < 5));
  }
}

TEST_CASE("a half and a bfloat16 of the same draw agree with the float") {
  GpuBackend& gpu = timing_gpu();
  const DeviceBuffer wide(gpu, 4096 * 4);
  const DeviceBuffer narrow(gpu, 4096 * 2);
  gpu.fill(wide, {.dtype = DType::kF32, .low = -1, .high = 1, .seed = 3});
  const std::vector<float> exact = values<float>(gpu, wide);
  gpu.fill(narrow, {.dtype = DType::kBf16, .low = -1, .high = 1, .seed = 3});
  const std::vector<std::uint16_t> bf16 = values<std::uint16_t>(gpu, narrow);
  gpu.fill(narrow, {.dtype = DType::kF16, .low = -1, .high = 1, .seed = 3});
  const std::vector<std::uint16_t> f16 = values<std::uint16_t>(gpu, narrow);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const std::uint32_t bits = std::uint32_t{bf16[i]} << 16U;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    REQUIRE(std::abs(value - exact[i]) <= std::abs(exact[i]) / 128);
    const int exponent = f16[i] >> 10U & 0x1fU;
    const double magnitude = std::ldexp(1024 + (f16[i] & 0x3ffU), exponent - 25);
    const double half = exponent == 0 ? 0.0 : (f16[i] & 0x8000U) != 0 ? -magnitude : magnitude;
    REQUIRE(std::abs(half - static_cast<double>(exact[i])) <=
            std::abs(static_cast<double>(exact[i])) / 1024 + 7e-5);
  }
}

TEST_CASE("every element of a fill is what the host says it is") {
  GpuBackend& gpu = timing_gpu();
  constexpr std::uint64_t kElements = 10'000;
  struct Range {
    double low;
    double high;
  };
  for (std::size_t t = 0; t <= static_cast<std::size_t>(DType::kBool); ++t) {
    const auto dtype = static_cast<DType>(t);
    for (const Range range : {Range{-1, 1}, Range{0.25, 1}, Range{0, 7.3}, Range{0, 0x1p-9}}) {
      const double low = range.low;
      const double high = range.high;  // lambdas cannot capture a structured binding
      if (dtype == DType::kFp4E2m1 && high > 6) continue;
      const bool has_no_sign = dtype == DType::kU8 || dtype == DType::kU4;
      if (has_no_sign && low < 0) continue;
      CAPTURE(name_of(dtype));
      CAPTURE(high);
      const DeviceBuffer buffer(gpu, bytes_of(dtype, kElements));
      for (const std::uint64_t period : {0U, 999U}) {
        const RandomFill fill{
            .dtype = dtype, .low = low, .high = high, .seed = 77, .period = period};
        gpu.fill(buffer, fill);
        const std::vector<std::byte> bytes = contents(gpu, buffer);
        for (std::uint64_t i = 0; i < kElements; ++i) {
          REQUIRE(decode(dtype, bytes, i) == random_value(fill, i));
        }
      }
    }
  }
}

TEST_CASE("tensors of every type are compared element by element") {
  GpuBackend& gpu = timing_gpu();
  constexpr std::uint64_t kElements = 300'001;
  for (std::size_t t = 0; t <= static_cast<std::size_t>(DType::kBool); ++t) {
    const auto dtype = static_cast<DType>(t);
    CAPTURE(name_of(dtype));
    const DeviceBuffer a(gpu, bytes_of(dtype, kElements));
    const DeviceBuffer b(gpu, bytes_of(dtype, kElements));
    const RandomFill fill{.dtype = dtype, .low = 0, .high = 4, .seed = 5};
    gpu.fill(a, fill);
    gpu.fill(b, fill);
    const Allowance none{.absolute = 0x1p-20};
    const Difference same = gpu.compare(a.at(0), b.at(0), dtype, kElements, none);
    CHECK(same.excess == 0);
    CHECK(same.beyond == 0);
    double largest = 0;
    for (std::uint64_t i = 0; i < kElements; ++i)
      largest = std::max(largest, random_value(fill, i));
    CHECK(same.max_magnitude == largest);
    // Element 123,456 becomes what element 0 is, or its neighbour where those are equal.
    const std::vector<std::byte> bytes = contents(gpu, b);
    const std::uint64_t size = bytes_of(dtype, 2) / 2;
    if (size == 0) continue;
    std::uint64_t other = 0;
    while (random_value(fill, other) == random_value(fill, 123'456)) ++other;
    gpu.upload(b.at(123'456 * size), std::span(bytes).subspan(other * size, size));
    const Difference one = gpu.compare(a.at(0), b.at(0), dtype, kElements, {.absolute = 0.5});
    CHECK(one.worst == 123'456);
    const double distance = std::abs(random_value(fill, other) - random_value(fill, 123'456));
    CHECK(one.excess == distance / 0.5);
    CHECK(one.beyond == (distance > 0.5 ? 1 : 0));
  }
}

TEST_CASE("a comparison distinguishes infinities and NaN") {
  GpuBackend& gpu = timing_gpu();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const DeviceBuffer left(gpu, 16);
  const DeviceBuffer right(gpu, 16);
  const auto compared = [&](const std::array<float, 4>& a, const std::array<float, 4>& b) {
    gpu.upload(left.at(0), std::as_bytes(std::span(a)));
    gpu.upload(right.at(0), std::as_bytes(std::span(b)));
    return gpu.compare(left.at(0), right.at(0), DType::kF32, 4, {.absolute = 1, .relative = 0.5});
  };
  const std::array<float, 4> plain = {1, kInfinity, -kInfinity, kNan};
  CHECK(compared(plain, plain).excess == 0);
  CHECK(compared(plain, plain).max_magnitude == 1);
  CHECK(std::isinf(compared(plain, {1, -kInfinity, -kInfinity, kNan}).excess));
  CHECK(compared(plain, {1, kInfinity, -kInfinity, 7}).worst == 3);
  CHECK(compared(plain, {1, kInfinity, kNan, kNan}).worst == 2);
  // 8 from 2 is allowed 1 + 8 / 2.
  CHECK(compared({2, 0, 0, 0}, {8, 0, 0, 0}).excess == 6.0 / 5.0);
  CHECK(compared({2, 0, 0, 0}, {8, 0, 0, 0}).beyond == 1);
}

TEST_CASE("the streaming kernel writes every byte of its output and none beyond") {
  GpuBackend& gpu = timing_gpu();
  const CompiledKernel kernel = stream_kernel(gpu);
  for (const std::uint64_t bytes : {1U, 15U, 16U, 17U, 127U, 4096U, 100'003U, 1'000'000U}) {
    for (const unsigned blocks : {1U, 7U, 61U}) {
      CAPTURE(bytes);
      CAPTURE(blocks);
      const DeviceBuffer input(gpu, bytes);
      const DeviceBuffer output(gpu, bytes + 64);
      gpu.fill(input, {.dtype = {}, .seed = bytes});
      gpu.poison(output);
      gpu.launch({.kernel = kernel,
                  .grid = {blocks},
                  .block = {256},
                  .shared_bytes = 0,
                  .arguments = {input.at(0), bytes, output.at(0), bytes, std::uint32_t{0}}});
      std::vector<std::byte> expected = contents(gpu, input);
      expected.resize(bytes + 64, std::byte{0xff});
      // Without salt it copies, so poison left inside would show.
      CHECK(contents(gpu, output) == expected);
    }
  }
}

TEST_CASE("an event pair sees the work and not the launches' gaps" *
          doctest::test_suite("undisturbed")) {
  GpuBackend& gpu = timing_gpu();
  const DeviceBuffer from(gpu, std::uint64_t{64} << 20U);
  const DeviceBuffer to(gpu, std::uint64_t{64} << 20U);
  const auto copies = [&](int count) {
    const Work work = [&] {
      for (int i = 0; i < count; ++i) gpu.copy(to.at(0), from.at(0), std::uint64_t{64} << 20U);
    };
    gpu.time_once(work);
    return gpu.time_once(work).seconds;
  };
  const double one = copies(1);
  CHECK(one > 1e-6);
  CHECK(copies(8) == doctest::Approx(8 * one).epsilon(0.5));
}

TEST_CASE("more launches than the queue holds complete, too" * doctest::test_suite("undisturbed")) {
  GpuBackend& gpu = timing_gpu();
  const CompiledKernel kernel = stream_kernel(gpu);
  const DeviceBuffer buffer(gpu, 16);
  const TimedRun run = gpu.time_once([&] {
    for (int i = 0; i < 3000; ++i) {
      gpu.launch({.kernel = kernel,
                  .grid = {},
                  .block = {256},
                  .shared_bytes = 0,
                  .arguments = {buffer.at(0), std::uint64_t{16}, buffer.at(0), std::uint64_t{16},
                                std::uint32_t{1}}});
    }
  });
  CHECK(run.seconds > 0);
  CHECK(run.seconds < 0.9);  // the hold kernel did not have to give up
}

TEST_CASE("compiled kernels report their resources, and come from the cache the second time") {
  GpuBackend& gpu = timing_gpu();
  stream_kernel(gpu);
  const CompiledKernel kernel = stream_kernel(gpu);
  CHECK(kernel.cached);
  CHECK(kernel.resources.registers > 0);
  CHECK(kernel.resources.max_block_threads == 256);
  CHECK(gpu.occupancy(
            {.kernel = kernel, .grid = {}, .block = {256}, .shared_bytes = 0, .arguments = {}}) >
        0.25);
}

TEST_CASE("allocating more memory than the device has is refused") {
  GpuBackend& gpu = timing_gpu();
  CHECK_THROWS_WITH_AS(gpu.allocate(std::uint64_t{1} << 50U),
                       doctest::Contains("out of GPU memory"), Error);
}

TEST_CASE("an index that no device has is refused") {
  CHECK_THROWS_WITH_AS(CudaBackend({.device_index = 999, .counters = false}),
                       doctest::Contains("there is no GPU with that index"), Error);
}

}  // namespace
}  // namespace fusecalc::cuda
