// The PTX of kernels, for cuda_on_host.hpp.
#pragma once

#include "cuda_on_host.hpp"

// What a kernel's PTX does, by its text; the operands are those of the asm, in order.
namespace host {

template <std::size_t kSize>
struct Text {
  char characters[kSize];
  constexpr Text(const char (&text)[kSize]) {
    for (std::size_t i = 0; i < kSize; ++i) characters[i] = text[i];
  }
};
template <Text kText>
struct Ptx {
  template <class... Operands>
  static void run(Operands&&...) {
    std::fprintf(stderr, "nothing stands for this PTX: %s\n", kText.characters);
    std::abort();
  }
};

using Half = unsigned short;
inline float from_half(Half bits) { return bits_as<_Float16>(bits); }
inline Half to_half(float x) { return bits_as<Half>(static_cast<_Float16>(x)); }
inline Half to_bf16(float x) {
  const std::uint32_t bits = bits_as<std::uint32_t>(x);
  return x != x ? 0x7fff : static_cast<Half>((bits + 0x7fff + (bits >> 16U & 1U)) >> 16U);
}
inline float larger_or_nan(float a, float b) { return a != a || b != b ? NAN : fmaxf(a, b); }
inline float from_bf16(Half bits) { return bits_as<float>(std::uint32_t{bits} << 16U); }
inline void copy_to_shared(std::uint32_t to, const void* from, std::size_t bytes,
                           std::size_t real) {
  std::memset(dynamic_shared() + to, 0, bytes);
  std::memcpy(dynamic_shared() + to, from, real);
}

template <>
struct Ptx<""> {
  static void run(std::uint32_t&) {}
};
template <>
struct Ptx<"cvt.f32.f16 %0, %1;"> {
  static void run(float& to, Half x) { to = from_half(x); }
};
template <>
struct Ptx<"cvt.rn.f16.f32 %0, %1;"> {
  static void run(Half& to, float x) { to = to_half(x); }
};
template <>
struct Ptx<"cvt.rn.bf16.f32 %0, %1;"> {
  static void run(Half& to, float x) { to = to_bf16(x); }
};
template <>
struct Ptx<"cvt.rn.f16x2.f32 %0, %1, %2;"> {
  static void run(std::uint32_t& to, float high, float low) {
    to = std::uint32_t{to_half(high)} << 16U | to_half(low);
  }
};
template <>
struct Ptx<"cvt.rn.bf16x2.f32 %0, %1, %2;"> {
  static void run(std::uint32_t& to, float high, float low) {
    to = std::uint32_t{to_bf16(high)} << 16U | to_bf16(low);
  }
};
template <>
struct Ptx<"lop3.b32 %0, %1, %2, %3, 0x6a;"> {  // (a & b) ^ c
  static void run(std::uint32_t& to, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    to = (a & b) ^ c;
  }
};
template <>
struct Ptx<"prmt.b32 %0, %1, 0, 0x1044;"> {
  static void run(std::uint32_t& to, std::uint32_t a) { to = __byte_perm(a, 0, 0x1044); }
};
template <>
struct Ptx<"max.NaN.f32 %0, %1, %2;"> {
  static void run(float& to, float a, float b) { to = larger_or_nan(a, b); }
};
template <>
struct Ptx<"max.NaN.f32 %0, %1, 0f00000000;"> {
  static void run(float& to, float a) { to = larger_or_nan(a, 0); }
};
template <>
struct Ptx<"ex2.approx.ftz.f32 %0, %1;"> {
  static void run(float& to, float x) { to = exp2f(x); }
};
template <>
struct Ptx<"lg2.approx.ftz.f32 %0, %1;"> {
  static void run(float& to, float x) { to = log2f(x); }
};
template <>
struct Ptx<"rcp.approx.ftz.f32 %0, %1;"> {
  static void run(float& to, float x) { to = 1.0F / x; }
};
template <>
struct Ptx<"div.full.f32 %0, %1, %2;"> {
  static void run(float& to, float a, float b) { to = a / b; }
};
template <>
struct Ptx<"sqrt.approx.f32 %0, %1;"> {
  static void run(float& to, float x) { to = sqrtf(x); }
};
template <>
struct Ptx<"tanh.approx.f32 %0, %1;"> {
  static void run(float& to, float x) { to = tanhf(x); }
};
template <>
struct Ptx<"bar.sync %0, %1;"> {
  static void run(std::uint32_t number, unsigned threads) {
    Barrier& barrier = block->named[number];
    barrier.expected = threads;
    wait(barrier);
  }
};
template <>
struct Ptx<"bar.warp.sync 0xffffffff;"> {
  static void run() { wait(warp_of(*block->running).barrier); }
};
// Copies run at once.
template <>
struct Ptx<"cp.async.commit_group;"> {
  static void run() {}
};
template <>
struct Ptx<"cp.async.wait_group %0;"> {
  static void run(int) {}
};
template <>
struct Ptx<"cp.async.cg.shared.global [%0], [%1], 16;"> {
  static void run(std::uint32_t to, const void* from) { copy_to_shared(to, from, 16, 16); }
};
template <>
struct Ptx<"cp.async.ca.shared.global [%0], [%1], %2;"> {
  static void run(std::uint32_t to, const void* from, unsigned bytes) {
    copy_to_shared(to, from, bytes, bytes);
  }
};
template <>
struct Ptx<"cp.async.cg.shared.global [%0], [%1], 16, %2;"> {
  static void run(std::uint32_t to, const void* from, unsigned real) {
    copy_to_shared(to, from, 16, real);
  }
};
template <>
struct Ptx<"cp.async.ca.shared.global [%0], [%1], %2, %3;"> {
  static void run(std::uint32_t to, const void* from, unsigned bytes, unsigned real) {
    copy_to_shared(to, from, bytes, real);
  }
};
template <>
struct Ptx<"atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"> {
  static void run(std::uint32_t& before, std::uint32_t* at, std::uint32_t more) {
    before = std::atomic_ref(*at).fetch_add(more);
  }
};
template <>
struct Ptx<"ld.acquire.gpu.global.u32 %0, [%1];"> {
  static void run(std::uint32_t& now, const std::uint32_t* at) {
    now = std::atomic_ref(const_cast<std::uint32_t&>(*at)).load();
    sched_yield();
  }
};
template <>
struct Ptx<"discard.global.L2 [%0], 128;"> {
  static void run(const void*) {}
};
template <>
struct Ptx<"prefetch.global.L2 [%0];"> {
  static void run(const void*) {}
};

// Loads and stores where `all` is not 0; a load gives 0 elsewhere.
struct LoadFourIf {
  static void run(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                  const void* at, std::uint32_t all) {
    std::uint32_t words[4] = {};
    if (all != 0) std::memcpy(words, at, sizeof words);
    a = words[0], b = words[1], c = words[2], d = words[3];
  }
};
template <>
struct Ptx<
    "{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
    "mov.b32 %3, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];}"> : LoadFourIf {};
template <>
struct Ptx<
    "{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
    "mov.b32 %3, 0; @p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}"> : LoadFourIf {
};
template <>
struct Ptx<
    "{.reg .pred p; setp.ne.u32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
    "@p ld.global.nc.v2.u32 {%0, %1}, [%2];}"> {
  static void run(std::uint32_t& a, std::uint32_t& b, const void* at, std::uint32_t all) {
    std::uint32_t words[2] = {};
    if (all != 0) std::memcpy(words, at, sizeof words);
    a = words[0], b = words[1];
  }
};
template <class Word>
void load_if(Word& word, const void* at, std::uint32_t all) {
  word = 0;
  if (all != 0) std::memcpy(&word, at, sizeof word);
}
template <>
struct Ptx<"{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.u32 %0, [%1];}"> {
  static void run(std::uint32_t& word, const void* at, std::uint32_t all) {
    load_if(word, at, all);
  }
};
template <>
struct Ptx<"{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b16 %0, 0; @p ld.global.nc.u16 %0, [%1];}"> {
  static void run(Half& word, const void* at, std::uint32_t all) { load_if(word, at, all); }
};
template <>
struct Ptx<"{.reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.v4.u32 [%4], {%0, %1, %2, %3};}"> {
  static void run(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d, void* at,
                  std::uint32_t all) {
    const std::uint32_t words[4] = {a, b, c, d};
    if (all != 0) std::memcpy(at, words, sizeof words);
  }
};
template <>
struct Ptx<"{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u64 [%1], %0;}"> {
  static void run(std::uint64_t word, void* at, std::uint32_t all) {
    if (all != 0) std::memcpy(at, &word, sizeof word);
  }
};
template <>
struct Ptx<"{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u32 [%1], %0;}"> {
  static void run(std::uint32_t word, void* at, std::uint32_t all) {
    if (all != 0) std::memcpy(at, &word, sizeof word);
  }
};
template <>
struct Ptx<"ld.shared.u32 %0, [%1];"> {
  static void run(std::uint32_t& word, std::uint32_t at) {
    std::memcpy(&word, dynamic_shared() + at, sizeof word);
  }
};
template <>
struct Ptx<"ld.shared.u64 %0, [%1];"> {
  template <class Word>
  static void run(Word& word, std::uint32_t at) {
    std::memcpy(&word, dynamic_shared() + at, sizeof word);
  }
};

// Four matrices of eight lines of 16 bytes, which lane l names of matrix l / 8.
struct Matrices {
  static void load(std::uint32_t at, bool transposed, std::uint32_t* const (&to)[4]) {
    const unsigned lane = block->running->place.x % kWarp;
    with_lanes(at, [&](const auto& of) {
      for (unsigned m = 0; m < 4; ++m) {
        Half two[2];
        for (unsigned e = 0; e < 2; ++e) {
          const unsigned line = transposed ? lane % 4 * 2 + e : lane / 4;
          const unsigned column = transposed ? lane / 4 : lane % 4 * 2 + e;
          std::memcpy(&two[e], dynamic_shared() + of(m * 8 + line) + column * 2, 2);
        }
        std::memcpy(to[m], two, 4);
      }
    });
  }
};
template <>
struct Ptx<"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"> {
  static void run(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                  std::uint32_t at) {
    Matrices::load(at, false, {&a, &b, &c, &d});
  }
};
template <>
struct Ptx<"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"> {
  static void run(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                  std::uint32_t at) {
    Matrices::load(at, true, {&a, &b, &c, &d});
  }
};

// D[16][8] += A[16][k] B[k][8]. A lane has `kGroups` words of each row and column, of neighbouring
// k.
template <unsigned kGroups, class Elements>
struct Product {
  struct Operands {
    std::uint32_t a[2 * kGroups], b[kGroups];
  };
  static void run(float& d0, float& d1, float& d2, float& d3, const Operands& own) {
    constexpr unsigned kPerGroup = 4 * Elements::kInWord;
    const unsigned lane = block->running->place.x % kWarp;
    float* const sums[4] = {&d0, &d1, &d2, &d3};
    with_lanes(own, [&](const auto& of) {
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
        double sum = 0;
        for (unsigned k = 0; k < kPerGroup * kGroups; ++k) {
          const unsigned quad = k % kPerGroup / Elements::kInWord, part = k % Elements::kInWord;
          const std::uint32_t a = of(row * 4 + quad).a[k / kPerGroup * 2 + i / 2];
          const std::uint32_t b = of(column * 4 + quad).b[k / kPerGroup];
          sum += double{Elements::from(a, part)} * double{Elements::from(b, part)};
        }
        *sums[i] = static_cast<float>(*sums[i] + sum);
      }
    });
  }
};
template <class Elements>
struct ProductOfTwo {
  static void run(float& d0, float& d1, float& d2, float& d3, std::uint32_t a0, std::uint32_t a1,
                  std::uint32_t a2, std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
    Product<2, Elements>::run(d0, d1, d2, d3, {{a0, a1, a2, a3}, {b0, b1}});
  }
};
template <class Elements>
struct ProductOfOne {
  static void run(float& d0, float& d1, float& d2, float& d3, std::uint32_t a0, std::uint32_t a1,
                  std::uint32_t b) {
    Product<1, Elements>::run(d0, d1, d2, d3, {{a0, a1}, {b}});
  }
};
template <float (*kFrom)(Half)>
struct Halves {
  static constexpr unsigned kInWord = 2;
  static float from(std::uint32_t word, unsigned part) {
    return kFrom(static_cast<Half>(word >> (16 * part)));
  }
};
// The low bits of a float are not looked at.
struct Tf32 {
  static constexpr unsigned kInWord = 1;
  static float from(std::uint32_t word, unsigned) {
    return std::bit_cast<float>(word & ~std::uint32_t{0x1fff});
  }
};
template <>
struct Ptx<
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
    "{%8, %9}, {%0, %1, %2, %3};"> : ProductOfTwo<Halves<from_bf16>> {};
template <>
struct Ptx<
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
    "{%8, %9}, {%0, %1, %2, %3};"> : ProductOfTwo<Halves<from_half>> {};
template <>
struct Ptx<
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
    "{%8, %9}, {%0, %1, %2, %3};"> : ProductOfTwo<Tf32> {};
template <>
struct Ptx<
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
    "{%0, %1, %2, %3};"> : ProductOfOne<Halves<from_bf16>> {};
template <>
struct Ptx<
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
    "{%0, %1, %2, %3};"> : ProductOfOne<Halves<from_half>> {};

}  // namespace host
