"""How scripts/pytorch and scripts/peers time PyTorch's functions, and what they make of the times."""
import math
import statistics
import time

import torch

RUNS = 30
# Before: about as much as fusecalc runs to choose the variants of its kernels.
WARM_UP_S = 0.25
WARM_UP_TURNS = 100

HOLD = """
extern "C" __global__ void hold(const volatile int* open) {
  const long long begin = clock64(), most = 1LL << 31;
  while (*open == 0 && clock64() - begin < most) {}
}
"""


class Gate:
    """The GPU waits before it until what is timed is queued, and no longer; for a second at most."""

    def __init__(self):
        self.is_open = torch.zeros(1, dtype=torch.int32).pin_memory()
        self.hold = torch.cuda._compile_kernel(HOLD, "hold")

    def close(self):
        self.is_open[0] = 0
        self.hold(grid=(1, 1, 1), block=(1, 1, 1), args=[self.is_open])

    def open(self):
        self.is_open[0] = 1


def make_sweep():
    """What is read before each run: twice the L2, as much as fusecalc reads."""
    bytes_of_l2 = torch.cuda.get_device_properties().L2_cache_size
    return torch.randn(2 * bytes_of_l2 // 4, device="cuda")


def run_ms(function, sweep, gate):
    sweep.sum()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    gate.close()
    begin.record()
    function()
    end.record()
    gate.open()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def times_ms(functions, sweep):
    """For each name, the median of RUNS runs, each from an L2 that a read-only sweep has cleaned.

    They take turns, as the plans of `fusecalc measure` do: each finds the code of others in the caches
    of instructions, and all run at the same clocks. Those are lower after a while: at the power limit a
    product of 760 us takes 850 in the end.
    """
    gate = Gate()
    times = {name: [] for name in functions}
    begin, turns = time.perf_counter(), 0
    while turns < WARM_UP_TURNS or time.perf_counter() - begin < WARM_UP_S:
        turns += 1
        for function in functions.values():
            run_ms(function, sweep, gate)
    for _ in range(RUNS):
        for name, function in functions.items():
            times[name].append(run_ms(function, sweep, gate))
    return {name: statistics.median(taken) for name, taken in times.items()}


def time_ms(function, arguments, sweep):
    """That of a single function, without turns."""
    return times_ms({"": lambda: function(*arguments)}, sweep)[""]


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))
