"""How scripts/pytorch and scripts/peers time PyTorch's functions, and what they make of the times."""
import math
import statistics

import torch

RUNS = 30
HELD_CYCLES = 3_000_000  # more than a millisecond, in which the launches are queued


def make_sweep():
    """What time_ms reads before each run: eight times the L2."""
    return torch.randn(1 << 27, device="cuda")


def time_ms(function, arguments, sweep):
    """The median of RUNS runs, each from an L2 that a read-only sweep has cleaned."""
    for _ in range(5):
        function(*arguments)
    times = []
    for _ in range(RUNS):
        sweep.sum()
        torch.cuda._sleep(HELD_CYCLES)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function(*arguments)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))
