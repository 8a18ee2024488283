"""The speed, memory and start-up of `fusecalc analyze` on lists of sizes; see scripts/bench."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

BUILD = Path(sys.argv[1])
HERE = Path(__file__).parent
FUSECALC = BUILD / "release/fusecalc"
SPAWN = BUILD / "release/tests/bench/bench_spawn"
SAX_PASS = [BUILD / "release/tests/bench/bench_sax_pass"]
JSON_MODULE = [sys.executable, HERE / "json_module.py"]
ROUNDS = 5
STARTS = 50
MIB = 2**20
CUDA_LIBRARY = re.compile(r"lib(cuda|cudart|cupti|cublas|nvrtc|nvidia|nvperf|nvJitLink)")


def size(i):
    return 1000 + i * 7919 % 16_000_000


def op_list(count):
    """A list of `count` operations in a chain, as json.dump would write it."""
    path = BUILD / f"bench/ops-{count}.json"
    if not path.exists():
        operation = '{"name": "layers.%d.linear", "input_size": %d, "output_size": %d}'
        partial = path.with_suffix(".partial")
        with partial.open("w") as file:
            file.write("[")
            for start in range(0, count, 100_000):
                file.write(", " if start else "")
                file.write(", ".join(operation % (i, size(i), size(i + 1))
                                     for i in range(start, min(start + 100_000, count))))
            file.write("]")
        partial.rename(path)
    return path


def spawn(*command):
    """The seconds and the peak bytes of one run."""
    seconds, peak, _ = subprocess.run([SPAWN, *command], check=True, capture_output=True,
                                   text=True).stdout.split()
    return float(seconds), int(peak)


def best_times(rounds, *commands):
    """The least seconds of each command; the rounds alternate, so that all see the same machine."""
    times = [[spawn(*command)[0] for command in commands] for _ in range(rounds)]
    return [min(column) for column in zip(*times)]


def answer(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def cuda_libraries(*command):
    loader = subprocess.run(command, check=True, capture_output=True, text=True,
                            env={**os.environ, "LD_DEBUG": "files"}).stderr
    files = set(re.findall(r"file=(\S+)", loader))
    assert any("libc.so" in file for file in files), "the loader's log names no C library"
    return sorted(file for file in files if CUDA_LIBRARY.search(file))


def main():
    ten, million, ten_million = (op_list(count) for count in (10, 1_000_000, 10_000_000))
    analyze = [FUSECALC, "analyze"]
    expected = answer(*JSON_MODULE, million)
    assert expected.items() <= answer(*analyze, million).items(), "the answers differ"

    ours, sax, python = best_times(ROUNDS, [*analyze, million], [*SAX_PASS, million],
                                   [*JSON_MODULE, million])
    help_start, ten_start = best_times(STARTS, [FUSECALC, "--help"], [*analyze, ten])
    peak, large_peak = (spawn(*analyze, path)[1] for path in (million, ten_million))
    cuda = cuda_libraries(FUSECALC, "--help") + cuda_libraries(*analyze, ten)

    rows = [  # what, figure, the most it may be, unit, digits
        (f"1,000,000 operations: time / Python json's ({python:.3f} s)", ours / python, 0.2, "", 3),
        (f"1,000,000 operations: time / bare SAX pass's ({sax:.3f} s)", ours / sax, 1.5, "", 3),
        ("1,000,000 operations: peak memory", peak / MIB, 16, "MiB", 2),
        ("10,000,000 operations: peak memory", large_peak / MIB, 16, "MiB", 2),
        ("between the two", abs(large_peak - peak) / MIB, 2, "MiB", 2),
        ("fusecalc --help", help_start * 1e3, 5, "ms", 2),
        ("fusecalc analyze, 10 operations", ten_start * 1e3, 5, "ms", 2),
        (" ".join(["CUDA libraries mapped", *cuda]), len(cuda), 0, "", 0),
    ]
    print(f"fusecalc analyze: 1,000,000 operations ({million.stat().st_size / 1e6:.0f} MB) in "
          f"{ours:.3f} s; best of {ROUNDS}, starts of {STARTS}; "
          f"Python {platform.python_version()}\n")
    missed = 0
    for what, figure, most, unit, digits in rows:
        ok = figure <= most
        missed += not ok
        verdict = "ok" if ok else "MISSED"
        print(f"  {what:<60}{figure:>8.{digits}f} {unit:<4} <= {most:<4} {verdict}")
    return 1 if missed else 0


sys.exit(main())
