"""What scripts/peers times: kinds of case, each an op list and PyTorch's functions for the same.

draw(seed, shapes) yields (kind, Case): each kind in so many shapes, from small to large. The same seed
gives the same cases. PyTorch is imported by load_torch(), and needed by the functions alone.
"""
import math

from . import pointwise, rows, places, products, attention, convolutions, gradients
from .base import KINDS, Drawer

torch = None


def load_torch():
    """PyTorch, which the functions of all kinds then use."""
    global torch
    import torch
    for module in (pointwise, rows, places, products, attention, convolutions, gradients):
        module.torch, module.F = torch, torch.nn.functional
    return torch


def draw(seed, shapes=3, only=()):
    """Of the kinds whose names contain one of `only`; of all where there is none."""
    for name, function in KINDS.items():
        if only and not any(text in name for text in only):
            continue
        for part in range(shapes):
            case = function(Drawer(seed, name, part, shapes))
            case.ops["name"] = f"{name}, {case.shape}"
            yield name, case


DTYPES = {"f32": "float32", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn"}


def group_ends(rows, groups):
    """Where groups of rows end, up to a quarter of a group from even places; the last has all rows."""
    even = torch.arange(1, groups + 1) * rows // groups
    quarter = rows // groups // 4
    off = torch.randint(-quarter, quarter + 1, (groups,))
    off[-1] = 0
    return (even + off).to(torch.int32)


def make_inputs(case, device):
    """Random tensors for the list's inputs, in their order."""
    made = []
    for name, tensor in case.ops["tensors"].items():
        shape, dtype = tensor["shape"], tensor.get("dtype", case.ops["dtype"])
        if dtype == "u4":  # two to a byte, the first in the upper half
            made.append(torch.randint(256, (*shape[:-1], shape[-1] // 2), dtype=torch.uint8,
                                      device=device))
        elif dtype == "i64":
            made.append(torch.randint(case.highs[name], shape, device=device))
        elif dtype == "i32":
            made.append(group_ends(case.highs[name], shape[0]).to(device))
        else:
            # Values that add up to about 1 over a product's terms.
            values = torch.empty(shape, device=device).uniform_(case.lows.get(name, -1), 1)
            if dtype == "fp8_e4m3":
                values *= 4 / math.sqrt(shape[-1]) if len(shape) > 1 else 1
            made.append(values.to(getattr(torch, DTYPES[dtype])))
    return made


def ways_of(case, inputs):
    """By name, what prepares a way to run the case: a function that takes nothing."""
    def compiled():
        function = torch.compile(case.run, dynamic=False)
        return lambda: function(*inputs)

    ways = {"eager": lambda: lambda: case.run(*inputs), "compile": compiled}
    for name, prepare in case.libraries.items():
        ways[name] = lambda prepare=prepare: prepare(*inputs)
    return ways
