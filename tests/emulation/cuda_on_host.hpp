// CUDA's built-ins on the host, for kernels that its C++ compiler compiles (translation.cpp).
// Compiled before the text of each kernel; the tests do not include it.
#pragma once

#include <math.h>
#include <sched.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "blocks.hpp"

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __shared__ static thread_local
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct alignas(8) uint2 {
  std::uint32_t x, y;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
namespace host {

template <class... Parameters, std::size_t... kPlaces>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<kPlaces...>) {
  kernel(*static_cast<std::remove_reference_t<Parameters>*>(arguments[kPlaces])...);
}
template <class... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<Parameters...>());
}

// 1,024 bytes more: kernels align its beginning.
inline char* dynamic_shared() {
  return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(block->dynamic.data()) + 127) /
                                 128 * 128);
}

// Another thread may be about to write what the caller waits for.
template <class T>
volatile T* watched(T* at) {
  yield();
  sched_yield();
  return at;
}

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// The value of another lane of the warp.
template <class T>
T from_lane(T value, unsigned lane) {
  static_assert(sizeof(T) <= 8);
  Fiber& mine = *block->running;
  std::memcpy(&mine.moved, &value, sizeof value);
  wait(warp_of(mine).barrier);
  const unsigned first = mine.place.x / kWarp * kWarp;
  T result;
  std::memcpy(&result, &block->fibers[first + lane % kWarp].moved, sizeof result);
  wait(warp_of(mine).barrier);
  return result;
}

// What each lane of the warp has at `own`, while `use` runs.
template <class T, class Use>
void with_lanes(const T& own, const Use& use) {
  Fiber& mine = *block->running;
  mine.moved = reinterpret_cast<std::uintptr_t>(&own);
  wait(warp_of(mine).barrier);
  const unsigned first = mine.place.x / kWarp * kWarp;
  use([first](unsigned lane) -> const T& {
    return *reinterpret_cast<const T*>(block->fibers[first + lane].moved);
  });
  wait(warp_of(mine).barrier);
}

}  // namespace host

#define threadIdx (host::block->running->place)
#define blockIdx (host::block->place)
#define gridDim (host::block->grid)
#define blockDim (host::block->size)

inline void __syncthreads() { host::wait(host::block->all); }
inline void __syncwarp(unsigned = ~0U) { host::wait(host::warp_of(*host::block->running).barrier); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() {}
inline unsigned lane_of() { return threadIdx.x % host::kWarp; }
template <class T>
T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  return host::from_lane(value, lane_of() / width * width + lane % width);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
  return host::from_lane(value, lane_of() ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned by, int width = 32) {
  return host::from_lane(value, lane_of() % width >= by ? lane_of() - by : lane_of());
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned by, int width = 32) {
  return host::from_lane(value, lane_of() % width + by < width ? lane_of() + by : lane_of());
}
inline unsigned __activemask() {
  return host::is_whole(host::warp_of(*host::block->running)) ? ~0U : 1U << lane_of();
}
inline bool __all_sync(unsigned, bool value) {
  bool all = true;
  for (unsigned lane = 0; lane < host::kWarp; ++lane) all &= host::from_lane(value, lane);
  return all;
}

template <class T>
T atomicAdd(T* at, T value) {
  return std::atomic_ref<T>(*at).fetch_add(value);
}
template <class T>
T atomicMax(T* at, T value) {
  T before = *at;
  while (before < value && !std::atomic_ref<T>(*at).compare_exchange_weak(before, value)) {
  }
  return before;
}
template <class T>
T atomicMin(T* at, T value) {
  T before = *at;
  while (value < before && !std::atomic_ref<T>(*at).compare_exchange_weak(before, value)) {
  }
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  std::atomic_ref<T>(*at).compare_exchange_strong(expected, value);
  return expected;
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, T value) {
  *at = value;
}

template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
inline float __uint_as_float(std::uint32_t bits) { return host::bits_as<float>(bits); }
inline float __int_as_float(int bits) { return host::bits_as<float>(bits); }
inline std::uint32_t __float_as_uint(float x) { return host::bits_as<std::uint32_t>(x); }
inline double __longlong_as_double(long long bits) { return host::bits_as<double>(bits); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline std::size_t __cvta_generic_to_shared(const void* at) {
  return static_cast<const char*>(at) - host::dynamic_shared();
}
inline std::uint32_t __funnelshift_r(std::uint32_t low, std::uint32_t high, std::uint32_t by) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32U | low) >> (by & 31U));
}
inline std::uint32_t __byte_perm(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t both = std::uint64_t{b} << 32U | a;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned one = selector >> (4 * i) & 15U;
    std::uint32_t byte = both >> (8 * (one & 7U)) & 255U;
    if ((one & 8U) != 0) byte = (byte & 128U) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline uint4 make_uint4(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(std::uint32_t x, std::uint32_t y) { return {x, y}; }
