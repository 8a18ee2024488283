// Every function of the driver that src/cuda takes, doing nothing: libcuda.so.1 for tests without a
// GPU. driver.cpp has those that do something.
#include "cuda/driver.hpp"

#define FAKE_TEXT(name) #name
#define FAKE_SYMBOL(name) FAKE_TEXT(name)
#define FAKE(name)                                                                 \
  extern "C" CUresult fake_##name() __asm__(FAKE_SYMBOL(name));                    \
  extern "C" __attribute__((weak, visibility("default"))) CUresult fake_##name() { \
    return CUDA_SUCCESS;                                                           \
  }

FUSECALC_DRIVER_FUNCTIONS(FAKE)
