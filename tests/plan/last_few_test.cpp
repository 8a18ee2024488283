#include "plan/last_few.hpp"

#include <doctest/doctest.h>

namespace fusecalc {
namespace {

ConvolutionSize size_of(std::uint64_t channels, std::uint64_t filters) {
  return {.images = 64,
          .channels = channels,
          .filters = filters,
          .taps = 9,
          .in = 3136,
          .out = 3136,
          .channels_last = true};
}

TEST_CASE("windows of few channels that lie last: so many pixels as registers hold sums of") {
  const Device& h100 = device_named("h100");
  const auto narrow = last_few(size_of(24, 24), h100);
  REQUIRE(narrow);
  CHECK(narrow->rows() == 32);
  CHECK(narrow->columns() == 32);
  CHECK(narrow->steps == 7);  // of 216 elements
  CHECK(narrow->shared_bytes() == 7 * 2048);
  CHECK(narrow->blocks == 264);
  const auto wide = last_few(size_of(24, 40), h100);
  REQUIRE(wide);
  CHECK(wide->rows() == 16);
  CHECK(wide->columns() == 64);
  // A block has eight times 32 pixels.
  ConvolutionSize few = size_of(24, 24);
  few.images = 1;
  CHECK(last_few(few, h100)->blocks == 13);
}

TEST_CASE("other windows have other kernels") {
  const Device& h100 = device_named("h100");
  CHECK(!last_few(size_of(48, 24), h100));
  CHECK(!last_few(size_of(20, 24), h100));
  CHECK(!last_few(size_of(24, 72), h100));
  CHECK(!last_few(size_of(24, 4), h100));
  ConvolutionSize size = size_of(24, 24);
  size.channels_last = false;
  CHECK(!last_few(size, h100));
  size = size_of(24, 24), size.groups = 2;
  CHECK(!last_few(size, h100));
  size = size_of(24, 24), size.taps = 49;
  CHECK(!last_few(size, h100));
  // 25 taps of 40 channels of 64 filters do not fit beside others.
  size = size_of(40, 64), size.taps = 25;
  CHECK(!last_few(size, h100));
  Device old = h100;
  old.capability = {7, 5};
  CHECK(!last_few(size_of(24, 24), old));
}

}  // namespace
}  // namespace fusecalc
