#!/usr/bin/env python3
"""Sweeping beside a plain loop: 10,000 points on two cores, from the command to the document.

    bench.py BUILD_FOLDER [POINTS]

The loop is tests/bench/sweep/analysis_loop.cpp, as two processes of 5,000 points each, which analyse
and write every result like a sweep does, and gather nothing. Both take turns, and the fastest of
each counts. Target: the sweep runs at 90 % of the loop's rate or more. Exit code 1 if it does not.
Reading the results again for the document takes about 0.1 ms a point, in one process: little for a
block of a model, which takes 20 ms, but much for a single operation, which takes 0.2 ms.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

NAME = "llama_block"
ROUNDS = 2
TARGET = 0.9


def loop(build, folder, points):
    runs = [subprocess.Popen([build / "tests/bench/bench_analysis_loop", NAME, str(first),
                              str(points), "2", folder]) for first in (1, 2)]
    assert all(run.wait() == 0 for run in runs)


def sweep(build, folder, points):
    subprocess.run([build / "fusecalc", "sweep", f"@{NAME}", "--dim", f"T=1..{points}", "--jobs", "2",
                    "--dir", folder, "-f", "json"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def seconds_of(work, build, base, points):
    with tempfile.TemporaryDirectory(dir=base) as folder:
        start = time.monotonic()
        work(build, folder, points)
        return time.monotonic() - start


def main(build, points):
    # In memory where that is possible, so that a disk does not decide.
    base = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    best = {}
    for _ in range(ROUNDS):
        for work in (loop, sweep):
            seconds = seconds_of(work, build, base, points)
            best[work] = min(seconds, best.get(work, seconds))
            print(f"{work.__name__:5}  {seconds:7.2f} s  {points / seconds:8.0f} points/s", flush=True)
    ratio = best[loop] / best[sweep]
    print(f"sweep runs at {100 * ratio:.1f} % of the loop's rate (target: {100 * TARGET:.0f} %)")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve() / "release",
                  int(sys.argv[2]) if len(sys.argv) > 2 else 10_000))
