"""How scripts/pytorch and scripts/peers time PyTorch's functions, and what they make of the times."""
import math
import statistics
import time

import torch

RUNS = 30
WARM_UPS = 10
MOST_CYCLES_A_SECOND = 2e9


def make_sweep():
    """What is read before each run: eight times the L2."""
    return torch.randn(1 << 27, device="cuda")


def seconds_to_queue(function):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def times_ms(functions, sweep):
    """For each name, the median of RUNS runs, each from an L2 that a read-only sweep has cleaned.

    They take turns, as the plans of `fusecalc measure` do: each finds the code of others in the caches
    of instructions, and all run at the same clocks. Before a run the GPU waits until it is queued, and
    not for longer: at the power limit a product of 760 us after a rest takes 810 without.
    """
    held = {}
    for name, function in functions.items():
        function()
        seconds = statistics.median(seconds_to_queue(function) for _ in range(5))
        held[name] = int((1.5 * seconds + 50e-6) * MOST_CYCLES_A_SECOND)
    times = {name: [] for name in functions}
    for turn in range(WARM_UPS + RUNS):
        for name, function in functions.items():
            sweep.sum()
            torch.cuda._sleep(held[name])
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            function()
            end.record()
            torch.cuda.synchronize()
            if turn >= WARM_UPS:
                times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(taken) for name, taken in times.items()}


def time_ms(function, arguments, sweep):
    """That of a single function, without turns."""
    return times_ms({"": lambda: function(*arguments)}, sweep)[""]


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))
