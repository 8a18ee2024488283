#!/usr/bin/env python3
"""Random op lists in the sizes form: the real binary against the formulas in Python's integers.

    sizes_oracle.py BINARY [--lists N] [--seed S] [--first I]

List I of a seed is the same in every run, so a failure is repeated with --seed S --first I --lists 1.
"""

import argparse
import concurrent.futures
import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

from sizes_lists import random_list

HEADER = ["name", "plan", "unfused_bytes", "fused_bytes", "savings_bytes", "savings_pct",
          "speedup_estimate"]
MOST = 2**63 - 1


def expected_figures(sizes, dtype_bytes):
    """What the five keys hold, as the text of their numbers; None where the bytes pass 2^63 - 1."""
    unfused = (sum(i for i, _ in sizes) + sum(o for _, o in sizes)) * dtype_bytes
    if unfused > MOST:
        return None
    fused = (sizes[0][0] + sizes[-1][1]) * dtype_bytes if sizes else 0
    savings = unfused - fused
    figures = {
        "unfused_bytes": str(unfused),
        "fused_bytes": str(fused),
        "savings_bytes": str(savings),
        "savings_pct": repr(round(savings / unfused * 100, 2)) if unfused else "0.0",
    }
    if sizes:
        figures["speedup_estimate"] = repr(round(unfused / fused, 2)) if fused else "0.0"
    return figures


def check_refused(run):
    lines = run.stderr.decode().splitlines()
    if run.returncode != 2 or run.stdout or len(lines) != 1:
        return f"more than 2^63 - 1 bytes, yet exit {run.returncode}, {run.stdout}, {lines}"
    if "add up to more than" not in lines[0] and "are more than" not in lines[0]:
        return f"refused for another reason: {lines[0]}"
    return None


# How a formula starts, in spreadsheets.
FORMULAS = tuple("=+-@\t\r")


def shown(name):
    """A name in CSV: what would control a terminal, is invisible or no character is escaped."""
    def escape(c):
        code = ord(c)
        unsafe = c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") or
                                      code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF)
        return (f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}") if unsafe else c
    return "".join(map(escape, name))


def check_accepted(run, case, figures, csv_text):
    if run.returncode != 0 or run.stderr:
        return f"exit {run.returncode}: {run.stderr.decode()}"
    # Numbers stay the text that they are.
    found = json.loads(run.stdout, parse_int=str, parse_float=str)
    wanted = {"schema": "fusecalc.analysis/1", "name": case.name or "stdin", "plan": "auto",
              **figures, "dtype_bytes": str(case.dtype_bytes)}
    if list(found.items()) != list(wanted.items()):
        return f"json differs:\n  wanted {wanted}\n  found  {found}"
    rows = list(csv.reader(io.StringIO(csv_text, newline="")))
    row = [wanted.get(column, "") for column in HEADER]
    row[0] = shown(row[0])
    if row[0][:1] in FORMULAS:
        row[0] = "'" + row[0]
    if rows != [HEADER, row]:
        return f"csv differs:\n  wanted {row}\n  found  {rows}"
    return None


def check(binary, folder, seed, index):
    """None, or what is wrong with list `index`."""
    case = random_list(random.Random(f"{seed}/{index}"))
    csv_path = os.path.join(folder, f"{index}.csv")
    command = [binary, "analyze", "-", "--format", "json", "-o", csv_path, *case.options]
    run = subprocess.run(command, input=case.text.encode(), capture_output=True, check=False)
    figures = expected_figures(case.sizes, case.dtype_bytes)
    if figures is None:
        fault = check_refused(run)
    else:
        csv_text = ""
        if os.path.exists(csv_path):
            with open(csv_path, encoding="utf-8", newline="") as file:
                csv_text = file.read()
            os.unlink(csv_path)
        fault = check_accepted(run, case, figures, csv_text)
    if fault is None:
        return None
    again = f"--seed {seed} --first {index} --lists 1"
    return f"list {index} ({again}), options {case.options}:\n{case.text[:2000]}\n{fault}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--lists", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=20240229)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    indices = range(options.first, options.first + options.lists)
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = pool.map(lambda i: check(options.binary, folder, options.seed, i), indices)
        faults = [fault for fault in faults if fault is not None]
        left = os.listdir(folder)
    for fault in faults[:5]:
        print(fault, end="\n\n")
    if left:
        print(f"files left behind: {left[:5]}")
    print(f"seed {options.seed}: {options.lists} lists, {len(faults)} wrong")
    return 1 if faults or left else 0


if __name__ == "__main__":
    sys.exit(main())
