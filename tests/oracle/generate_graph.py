#!/usr/bin/env python3
"""Large op lists in the graph form, for measuring how analysis scales.

    generate_graph.py KIND OPS [--seed S] > list.json

Kinds: blocks (transformer blocks one after the other), dag (random operands), chain (pointwise ops
in a row), star (every op reads the same tensor), near (random operands, most of them recent).
"""

import argparse
import json
import random
import sys


def blocks(ops, _):
    """A decoder block as 20 ops: norms, projections, attention from primitives with one head
    of 128 elements, feed-forward."""
    tensors = {"x0": {"shape": ["T", "D"]}}
    lines = []
    stream = "x0"

    def op(kind, inputs, **more):
        name = f"t{len(lines)}"
        lines.append({"op": kind, "inputs": inputs, "output": name, **more})
        return name

    def weight(*shape):
        name = f"w{len(tensors)}"
        tensors[name] = {"shape": list(shape)}
        return name

    while len(lines) < ops:
        h = op("rms_norm", [stream, weight("D")])
        q = op("linear", [h, weight("H", "D")])
        k = op("linear", [h, weight("H", "D")])
        v = op("linear", [h, weight("H", "D")])
        s = op("matmul", [q, k], transpose_b=True)
        s = op("mul", [s, 0.125])
        m = op("max", [s], axis=-1, keepdim=True)
        e = op("exp", [op("sub", [s, m])])
        p = op("div", [e, op("sum", [e], axis=-1, keepdim=True)])
        a = op("matmul", [p, v])
        a = op("linear", [a, weight("D", "H")])
        stream = op("add", [stream, a])
        h = op("rms_norm", [stream, weight("D")])
        g = op("silu", [op("linear", [h, weight("F", "D")])])
        u = op("mul", [g, op("linear", [h, weight("F", "D")])])
        stream = op("add", [stream, op("linear", [u, weight("D", "F")])])
    dims = {"T": 2048, "D": 1024, "H": 128, "F": 4096}
    return {"dims": dims, "tensors": tensors, "ops": lines[:ops]}


def random_dag(ops, rng, reach=None):
    tensors = {f"x{i}": {"shape": ["N", "D"]} for i in range(8)}
    names = list(tensors)
    lines = []
    for i in range(ops):
        def pick():
            return names[rng.randrange(max(0, len(names) - reach), len(names))] if reach \
                else rng.choice(names)
        out = f"t{i}"
        kind = rng.randrange(10)
        if kind < 4:
            line = {"op": rng.choice(["relu", "exp", "gelu"]), "inputs": [pick()]}
        elif kind < 8:
            line = {"op": rng.choice(["add", "mul", "sub"]), "inputs": [pick(), pick()]}
        elif kind == 8:
            line = {"op": "softmax", "inputs": [pick()]}
        else:
            weight = f"w{i}"
            tensors[weight] = {"shape": ["D", "D"]}
            line = {"op": "linear", "inputs": [pick(), weight]}
        lines.append({**line, "output": out})
        names.append(out)
    return {"dims": {"N": 1024, "D": 512}, "tensors": tensors, "ops": lines}


def chain(ops, _):
    lines = [{"op": "relu", "inputs": [f"t{i - 1}" if i else "x"], "output": f"t{i}"}
             for i in range(ops)]
    return {"tensors": {"x": {"shape": [1000000]}}, "ops": lines}


def star(ops, _):
    lines = [{"op": "relu", "inputs": ["x"], "output": f"t{i}"} for i in range(ops)]
    return {"tensors": {"x": {"shape": [1000000]}}, "ops": lines}


KINDS = {"blocks": blocks, "dag": random_dag, "chain": chain, "star": star,
         "near": lambda ops, rng: random_dag(ops, rng, reach=30)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("ops", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    graph = KINDS[arguments.kind](arguments.ops, random.Random(arguments.seed))
    json.dump({"format": "fusecalc.ops/1", "name": f"{arguments.kind}-{arguments.ops}", **graph},
              sys.stdout)
    print()


if __name__ == "__main__":
    main()
