#!/usr/bin/env python3
"""Holds the fp64 reference against NumPy: every element of every tensor of small op lists that
together use every op. The inputs' values come from the reference's own printout; all else is
computed here, once in double precision, which must agree, and once as a device would: in single
precision, with each result rounded to its type, which must lie within the spreads.

    reference_oracle.py DUMP

Exits with 77 where NumPy is missing.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: needs NumPy (Debian: python3-numpy)")
    sys.exit(77)

import backward_ops
import index_ops
import movement_ops
import pointwise_ops
import product_ops
import row_ops
import window_ops
from numpy_base import UNITS, stored

FAMILIES = (pointwise_ops, row_ops, movement_ops, product_ops, index_ops, window_ops, backward_ops)
OPS = {name: op for family in FAMILIES for name, op in family.OPS.items()}
LISTS = {title: make for family in FAMILIES for title, make in family.LISTS.items()}


def compute(document, known, precision):
    """All tensors by name, from the inputs' values in `known`: {name: (dtype, values, spreads)}."""
    values = {}
    for name, entry in document["tensors"].items():
        values[name] = known[name][1].reshape(entry["shape"]).astype(precision)
    for position, op in enumerate(document["ops"]):
        if op["op"] == "attention" and len(op["inputs"]) == 4:
            op = {**op, "mask_dtype": known[op["inputs"][3]][0]}
        inputs = [values[i] if isinstance(i, str) else precision(i) for i in op["inputs"]]
        extra = {"position": position, "result_dtype": known[op["outputs"][0]][0]}
        results = OPS[op["op"]]({**op, **extra}, *inputs)
        results = results if isinstance(results, tuple) else (results,)
        for name, result in zip(op["outputs"], results):
            dtype = known[name][0]
            result = np.asarray(result, dtype=precision)
            if precision is float and dtype in UNITS:
                dtype = "f64"
            values[name] = stored(dtype, result).astype(precision)
    return values


def read_dump(text):
    known = {}
    for line in text.splitlines():
        kind, name, rest = line.split(" ", 2)
        if kind == "failed":
            sys.exit(f"{name}: {rest}")
        dtype, _, numbers = rest.partition(" ")
        numbers = np.array([float(n) for n in numbers.split()])
        known[name] = (dtype, numbers[0::2], numbers[1::2])
    return known


def dumped(dump, title, document):
    document = json.loads(json.dumps(document))
    for op in document["ops"]:
        op.pop("swapped", None)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "list.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        run = subprocess.run([dump, str(path)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{title}: {run.stderr}")
    return read_dump(run.stdout)


def fail_at(title, name, wrong, actual, expected):
    worst = np.unravel_index(np.argmax(wrong), expected.shape)
    sys.exit(f"{title}: {name}{[int(i) for i in worst]} is {actual[worst]}, not {expected[worst]}")


def check_exact(title, document, known):
    compared = 0
    for name, expected in compute(document, known, float).items():
        actual = known[name][1].reshape(expected.shape)
        if not np.allclose(actual, expected, rtol=1e-10, atol=1e-11, equal_nan=True):
            fail_at(title, name, np.abs(actual - expected), actual, expected)
        compared += expected.size
    return compared


def check_rounded(title, document, known):
    """How near the limits a device would come, at worst."""
    nearest = 0
    for name, actual in compute(document, known, np.float32).items():
        dtype, expected, spreads = known[name]
        expected, spreads = expected.reshape(actual.shape), spreads.reshape(actual.shape)
        if dtype in UNITS:
            finite = spreads[np.isfinite(spreads)]
            typical = np.median(finite) / 2 if finite.size else 0
            allowed = np.maximum(3 * np.maximum(spreads, typical),
                                 2 * UNITS[dtype] * np.abs(expected))
            allowed += 2.0**-20 * np.sqrt(np.mean(expected**2)) + 1e-30
        else:
            allowed = np.maximum(3 * spreads, 0.5)
        excess = np.abs(actual - expected) / allowed
        if not np.all(excess <= 1):
            fail_at(title, name, excess, actual, expected)
        nearest = max(nearest, np.max(excess))
    return nearest


def main():
    np.seterr(all="ignore")
    used = set()
    for title, make in LISTS.items():
        document = make("f64").document
        used |= {op["op"] for op in document["ops"]}
        known = dumped(sys.argv[1], title, document)
        print(f"{title}: {check_exact(title, document, known)} elements agree")
        for dtype in () if title in ("integers", "special") else ("f32", "f16", "bf16"):
            document = make(dtype).document
            known = dumped(sys.argv[1], title, document)
            nearest = check_rounded(f"{title}, {dtype}", document, known)
            print(f"{title}, {dtype}: rounded results reach {nearest:.2f} of what is allowed")
    missing = set(OPS) - used
    if missing:
        sys.exit(f"no list uses {sorted(missing)}")


main()
