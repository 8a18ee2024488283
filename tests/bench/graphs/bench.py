"""How `fusecalc analyze` scales with the operations of a graph; see scripts/bench."""

import subprocess
import sys
from pathlib import Path

BUILD = Path(sys.argv[1])
GENERATOR = Path(__file__).parents[2] / "oracle/generate_graph.py"
FUSECALC = BUILD / "release/fusecalc"
SPAWN = BUILD / "release/tests/bench/bench_spawn"
SIZES = [1_000, 10_000, 100_000]
ROUNDS = 3
MOST_SECONDS = 3
MOST_MIB = 1024
# Ten times the operations: ten times the work, and some for sorting and for caches left behind.
MOST_GROWTH = 15
KINDS = {"blocks": "transformer blocks", "chain": "a chain", "star": "a star",
         "near": "random, recent operands", "dag": "random, any operands"}


def op_list(kind, count):
    path = BUILD / f"bench/{kind}-{count}.json"
    if not path.exists():
        partial = path.with_suffix(".partial")
        with partial.open("w") as file:
            subprocess.run([sys.executable, "-B", GENERATOR, kind, str(count)], check=True,
                           stdout=file)
        partial.rename(path)
    return path


def spawn(*command):
    """The seconds on a core and the peak bytes of one run."""
    _, peak, seconds = subprocess.run([SPAWN, *command], check=True, capture_output=True,
                                      text=True).stdout.split()
    return float(seconds), int(peak)


def best(kind, count):
    """The least seconds and the peak MiB of a few runs."""
    runs = [spawn(FUSECALC, "analyze", op_list(kind, count)) for _ in range(ROUNDS)]
    return min(seconds for seconds, _ in runs), max(peak for _, peak in runs) / 2**20


def main():
    print(f"fusecalc analyze: seconds on one core for graphs of {', '.join(f'{n:,}' for n in SIZES)} "
          f"operations, best of {ROUNDS}\n")
    missed = 0
    for kind, what in KINDS.items():
        figures = [best(kind, count) for count in SIZES]
        times = [seconds for seconds, _ in figures]
        peak = figures[-1][1]
        growth = times[-1] / times[-2]
        ok = times[-1] <= MOST_SECONDS and peak <= MOST_MIB and growth <= MOST_GROWTH
        missed += not ok
        print(f"  {what:<26}" + "".join(f"{seconds:>9.3f}" for seconds in times) +
              f"  <= {MOST_SECONDS} s   x{growth:>5.1f} <= {MOST_GROWTH}   "
              f"{peak:>4.0f} MiB <= {MOST_MIB}   {'ok' if ok else 'MISSED'}")
    return 1 if missed else 0


sys.exit(main())
