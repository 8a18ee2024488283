#!/usr/bin/env python3
"""Predicted times of the library's kernels beside those that were recorded on an H200.

    recorded_times.py BINARY ROOT [--list N]

ROOT is the repository. A kernel whose ops are those of a recorded one must be predicted within a
factor of 2 of its median, and all of them within 6 % in the mean (of the logarithm). --list prints the
N furthest apart.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

# Why a kernel is further apart: (list, kernel).
APART = {
    ("bert_large_mha", "scores"): "its operands are views, and the library is called for each head",
    ("bert_large_mha", "weighted_values"): "the same",
    ("bert_large_encoder_layer", "scores"): "the same",
    ("bert_large_encoder_layer", "weighted_values"): "the same",
}


def kernels_of(document):
    for plan in ("unfused", "auto"):
        for kernel in document["plans"].get(plan, {}).get("kernels", []):
            yield plan, tuple(kernel["ops"]), kernel


def compared(binary, root):
    for path in sorted((root / "specs/results/h200/library").glob("*.measured.json")):
        name = path.name.removesuffix(".measured.json")
        run = subprocess.run([binary, "analyze", f"@{name}", "-f", "json"], capture_output=True, check=True)
        predicted = {(plan, ops): kernel for plan, ops, kernel in kernels_of(json.loads(run.stdout))}
        for plan, ops, kernel in kernels_of(json.loads(path.read_text(encoding="utf-8"))):
            times = (kernel.get("measured") or {}).get("time_us")
            now = predicted.get((plan, ops))
            if times and now:
                yield name, plan, kernel["name"], times["median"], now["predicted"]["time_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--list", type=int, default=0)
    arguments = parser.parse_args()
    rows = [(math.log(predicted / measured), name, plan, kernel, measured, predicted)
            for name, plan, kernel, measured, predicted in compared(arguments.binary, arguments.root)]
    rows.sort(key=lambda row: -abs(row[0]))
    for ratio, name, plan, kernel, measured, predicted in rows[:arguments.list]:
        print(f"{math.exp(ratio):6.2f}  {name}, {plan}: {kernel}: measured {measured:.1f} us, predicted {predicted:.1f}")
    mean = statistics.mean(abs(row[0]) for row in rows)
    print(f"{len(rows)} kernels, apart by {100 * mean:.1f} % in the mean")
    faults = [f"{row[1]}, {row[2]}: {row[3]} took {row[4]:.1f} us, predicted {row[5]:.1f}"
              for row in rows if abs(row[0]) > math.log(2) and (row[1], row[3]) not in APART]
    if len(rows) < 300 or mean > 0.06:
        faults.append("too few kernels, or too far apart in the mean")
    return "\n".join(faults) or 0


if __name__ == "__main__":
    sys.exit(main())
