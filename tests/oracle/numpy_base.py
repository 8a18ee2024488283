"""What NumPy's versions of the ops have in common: values as types store them, random numbers, and op
lists under construction."""

import numpy as np

INTEGERS = {"i64": (-2**63, 2**63 - 1), "i32": (-2**31, 2**31 - 1), "i16": (-2**15, 2**15 - 1),
            "i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}
MASK = 2**64 - 1
UNITS = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


def random_bits(seed, i):
    z = (seed + (i + 1) * 0x9e3779b97f4a7c15) & MASK
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
    return z ^ (z >> 31)


def dropout_draw(seed, i):
    key, low, high = random_bits(seed, 0), i & 0xffffffff, i >> 32
    x = (low * 0x9e3779b9 + high * 0x85ebca6b + key) & 0xffffffff
    x = ((x ^ x >> 16) * 0x21f0aaad ^ (key >> 32) + high) & 0xffffffff
    x = ((x ^ x >> 15) * 0xd35a2d97) & 0xffffffff
    return (x ^ x >> 15) >> 8


def stored(dtype, x):
    if dtype == "f32":
        return np.asarray(x, dtype=np.float32)
    if dtype == "f16":
        return np.asarray(x).astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = np.atleast_1d(np.asarray(x, dtype=np.float32)).view(np.uint32)
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
        return rounded.astype(np.uint32).view(np.float32).reshape(np.shape(x))
    if dtype == "bool":
        return (np.asarray(x) != 0).astype(float)
    if dtype == "i64":
        return np.trunc(np.clip(x, *INTEGERS[dtype]))
    if dtype in INTEGERS:  # the low bits of an i32
        lowest, highest = INTEGERS[dtype]
        return (np.trunc(np.clip(x, *INTEGERS["i32"])) - lowest) % (highest - lowest + 1) + lowest
    return np.asarray(x, dtype=float)


def axes_of(op, x):
    axes = op.get("axes", op.get("axis"))
    if axes is None:
        return tuple(range(x.ndim))
    return tuple(a % x.ndim for a in (axes if isinstance(axes, list) else [axes]))


def plain(function):
    return lambda op, *inputs: function(*inputs)


class Lists:
    """Op lists under construction: op(NAME, inputs, attributes) adds one op, tensor() an input."""

    def __init__(self, dtype="f64"):
        self.document = {"format": "fusecalc.ops/1", "dtype": dtype, "tensors": {}, "ops": []}

    def tensor(self, name, shape, dtype=None):
        self.document["tensors"][name] = {"shape": shape, **({"dtype": dtype} if dtype else {})}
        return name

    def op(self, kind, inputs, outputs=1, **attributes):
        names = [f"{kind}_{len(self.document['ops'])}_{i}" for i in range(outputs)]
        self.document["ops"].append({"op": kind, "inputs": inputs, "outputs": names, **attributes})
        return names[0]
