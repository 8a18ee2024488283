// Every function of CUPTI that src/cuda takes, doing nothing. cupti.cpp has those that do
// something.
#include "cuda/cupti.hpp"

#define FAKE(name)                                                                    \
  extern "C" CUptiResult fake_##name() __asm__(#name);                                \
  extern "C" __attribute__((weak, visibility("default"))) CUptiResult fake_##name() { \
    return CUPTI_SUCCESS;                                                             \
  }

FUSECALC_CUPTI_FUNCTIONS(FAKE)
