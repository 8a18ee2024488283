#!/usr/bin/env python3
"""Holds PyTorch's functions of scripts/peer_cases.py against their op lists, which the oracle's NumPy
computes, in small shapes on the CPU.

    peer_cases_test.py SOURCE_FOLDER

Exits with 77 where PyTorch or NumPy is missing.
"""

import pathlib
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SOURCE = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests/oracle")]
import index_ops  # noqa: E402
import movement_ops  # noqa: E402
import peer_cases  # noqa: E402
import pointwise_ops  # noqa: E402
import product_ops  # noqa: E402
import row_ops  # noqa: E402

OPS = {name: op for family in (pointwise_ops, row_ops, movement_ops, product_ops, index_ops)
       for name, op in family.OPS.items()}
# The gradients' op has no version in NumPy; written out, it has.
WITHOUT_NUMPY = ("layer_norm backward",)
# On the CPU their inputs have one type.
OF_ONE_TYPE = ("layer_norm backward, primitives",)
# They run on GPUs alone.
ON_GPUS = ("_weight_int4pack_mm", "_scaled_mm", "cudnn_convolution_relu", "flash", "cudnn",
           "efficient")
SHAPES = 1  # of a kind


class Small(peer_cases.Drawer):
    def size(self, low, high, multiple=1):
        return multiple * self.random.randint(1, 3)

    within = size

    def any(self, *choices):
        drawn = super().any(*choices)
        return min(choices) if isinstance(drawn, int) else drawn

    def rows_of(self, columns, *_, **__):
        return self.random.randint(1, 3)

    def width(self):
        return 40

    def product(self, columns=None, **_):
        return 8 * self.random.randint(1, 3), columns or 64, 192


def in_numpy(tensor):
    return tensor.double().numpy()


def computed(case, inputs):
    values = {}
    for (name, tensor), value in zip(case.ops["tensors"].items(), inputs):
        if tensor.get("dtype") == "u4":
            halves = torch.stack((value >> 4, value & 15), -1)
            value = halves.view(*tensor["shape"])
        values[name] = in_numpy(value)
    for entry in case.ops["ops"]:
        operands = [values[i] if isinstance(i, str) else i for i in entry["inputs"]]
        entry = {**entry, "mask_dtype": "bf16", "result_dtype": "f64"}
        results = OPS[entry["op"]](entry, *operands)
        results = results if isinstance(results, tuple) else (results,)
        values.update(zip(entry.get("outputs") or [entry["output"]], results))
    return [values[name] for name in case.ops["outputs"]]


def check(kind, what, results, expected):
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected), f"{kind}, {what}: {len(results)} results"
    for result, wanted in zip(results, expected):
        assert tuple(result.shape) == wanted.shape, f"{kind}, {what}: {tuple(result.shape)}"
        error = np.linalg.norm(in_numpy(result) - wanted) / np.linalg.norm(wanted)
        # bf16 has 8 bits, and some functions round in between; fp8 has 4.
        limit = 0.05 if result.dtype == torch.float8_e4m3fn else 0.012
        assert error < limit, f"{kind}, {what}: relative error {error:.3g}"


def main():
    peer_cases.load_torch()
    peer_cases.Drawer = Small
    torch.manual_seed(1)
    compared = 0
    for kind, case in peer_cases.draw(1, SHAPES):
        if kind in WITHOUT_NUMPY:
            continue
        inputs = peer_cases.make_inputs(case, "cpu")
        if kind in OF_ONE_TYPE:
            inputs = [tensor.float() for tensor in inputs]
        expected = computed(case, inputs)
        check(kind, "run", case.run(*inputs), expected)
        for name, prepare in case.libraries.items():
            if name not in ON_GPUS:
                check(kind, name, prepare(*inputs)(), expected)
        compared += 1
    print(f"{compared} cases agree")


if __name__ == "__main__":
    main()
