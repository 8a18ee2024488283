#pragma once

#include <cuda.h>

// The fake driver calls it before a launch and after it.
using FakeCallback = void (*)(bool before, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, CUstream stream);
// The same around cuCtxSynchronize.
using FakeSynchronization = void (*)(bool before);
