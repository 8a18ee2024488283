#!/usr/bin/env python3
"""Holds the fp64 reference against NumPy: every element of every tensor of small op lists that
together use every op. The inputs' values come from the reference's own printout; all else is
computed here, once in double precision, which must agree, and once as a device would: in single
precision, with each result rounded to its type, which must lie within the spreads.

    reference_oracle.py DUMP

Exits with 77 where NumPy is missing.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: needs NumPy (Debian: python3-numpy)")
    sys.exit(77)

INTEGERS = {"i64": (-2**63, 2**63 - 1), "i32": (-2**31, 2**31 - 1), "i16": (-2**15, 2**15 - 1),
            "i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}
MASK = 2**64 - 1


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


UNITS = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


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
    if dtype in INTEGERS:
        return np.trunc(np.clip(x, *INTEGERS[dtype]))
    return np.asarray(x, dtype=float)


def axes_of(op, x):
    axes = op.get("axes", op.get("axis"))
    if axes is None:
        return tuple(range(x.ndim))
    return tuple(a % x.ndim for a in (axes if isinstance(axes, list) else [axes]))


def reducing(function):
    def apply(op, x):
        result = function(x, axes_of(op, x))
        return np.expand_dims(result, axes_of(op, x)) if op.get("keepdim") else result
    return apply


def argmax(x, axes):
    kept = [a for a in range(x.ndim) if a not in axes]
    moved = np.transpose(x, kept + list(axes))
    return np.argmax(moved.reshape(moved.shape[:len(kept)] + (-1,)), axis=-1).astype(float)


def logsumexp(x, axes):
    most = np.max(x, axis=axes, keepdims=True)
    return np.squeeze(most, axes) + np.log(np.sum(np.exp(x - most), axis=axes))


def softmax(op, x):
    axis = axes_of(op, x)[0] if "axes" in op or "axis" in op else x.ndim - 1
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def last_axes(op, x, *weights):
    if "axes" in op:
        return tuple(range(min(axes_of(op, x)), x.ndim))
    count = weights[0].ndim if weights else 1
    return tuple(range(x.ndim - count, x.ndim))


def affine(y, weights, shape=None):
    for i, w in enumerate(weights):
        w = w if shape is None else w.reshape(shape)
        y = y * w if i == 0 else y + w
    return y


def layer_norm(op, x, *weights):
    axes = last_axes(op, x, *weights)
    centred = x - x.mean(axis=axes, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + op.get("eps", 1e-5))
    return affine(y, weights)


def rms_norm(op, x, *weights):
    axes = last_axes(op, x, *weights)
    return affine(x / np.sqrt((x**2).mean(axis=axes, keepdims=True) + op.get("eps", 1e-5)), weights)


def batch_norm(op, x, w, b, *given):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    axes = (0,) + tuple(range(2, x.ndim))
    mean, var = given if given else (x.mean(axis=axes), x.var(axis=axes))
    y = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + op.get("eps", 1e-5))
    return affine(y, (w, b), shape), mean, var


def group_norm(op, x, *weights):
    grouped = x.reshape(x.shape[0], op["groups"], -1)
    y = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(
        grouped.var(-1, keepdims=True) + op.get("eps", 1e-5))
    return affine(y.reshape(x.shape), weights, (1, -1) + (1,) * (x.ndim - 2))


def collapse(op, losses):
    return {"none": lambda: losses, "mean": losses.mean, "sum": losses.sum}[
        op.get("reduction", "mean")]()


def cross_entropy(op, x, targets):
    normaliser = logsumexp(x, (x.ndim - 1,))
    picked = np.take_along_axis(x, targets.astype(int)[..., None], -1)[..., 0]
    return collapse(op, normaliser - picked), normaliser


def nll_loss(op, x, targets):
    return collapse(op, -np.take_along_axis(x, targets.astype(int)[..., None], -1)[..., 0])


def dropout(op, x):
    seed = (op.get("seed", 0) + (op["position"] + 1) * 0xd1342543de82ef95) & MASK
    p = op.get("p", 0.5)
    keep = np.array([dropout_draw(seed, i) * 2.0**-24 >= p for i in range(x.size)])
    keep = keep.reshape(x.shape)
    return np.where(keep, x / (1 - p), 0), keep


def slicing(op, x):
    count = max(len(op.get("starts", [])), len(op.get("ends", [])))
    axes = op.get("axes", list(range(count)))
    cut = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        start = op["starts"][i] if "starts" in op else None
        end = op["ends"][i] if "ends" in op else None
        cut[axis] = slice(start, end, op["steps"][i] if "steps" in op else None)
    return x[tuple(cut)]


def scatter_update(op, x, indices, rows):
    axis = op.get("axes", [0])[0] % x.ndim
    flat = rows.reshape(x.shape[:axis] + (-1,) + x.shape[axis + 1:])
    y = np.moveaxis(x.copy(), axis, 0)
    y[indices.astype(int).ravel()] = np.moveaxis(flat, axis, 0)
    return np.moveaxis(y, 0, axis)


def embedding(op, table, indices):
    if table.ndim != 2 or op.get("swapped"):
        table, indices = indices, table
    return table[indices.astype(int)]


def matmul(op, a, b):
    if op.get("transpose_a"):
        a = np.swapaxes(a, -1, -2)
    if op.get("transpose_b"):
        b = np.swapaxes(b, -1, -2)
    return a @ b


def linear(op, x, w, *bias):
    return x @ w.T + (bias[0] if bias else 0)


def conv2d(op, x, w, *bias):
    pair = lambda name, default: [op.get(name, default)] * 2 if isinstance(
        op.get(name, default), int) else op[name]
    (sh, sw), (ph, pw), (dh, dw) = pair("stride", 1), pair("padding", 0), pair("dilation", 1)
    groups = op.get("groups", 1)
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    n, _, height, width = x.shape
    out, per_group, kh, kw = w.shape
    rows = (height - dh * (kh - 1) - 1) // sh + 1
    cols = (width - dw * (kw - 1) - 1) // sw + 1
    y = np.zeros((n, out, rows, cols))
    for o in range(out):
        first = o // (out // groups) * per_group
        for r in range(rows):
            for c in range(cols):
                window = x[:, first:first + per_group, r * sh:r * sh + dh * kh:dh,
                           c * sw:c * sw + dw * kw:dw][:, :, :kh, :kw]
                y[:, o, r, c] = (window * w[o]).sum(axis=(1, 2, 3))
    return y + (bias[0].reshape(1, -1, 1, 1) if bias else 0)


def attention(op, q, k, v, *mask):
    repeat = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, repeat, axis=-3), np.repeat(v, repeat, axis=-3)
    scores = q @ np.swapaxes(k, -1, -2) * op.get("scale", 1 / math.sqrt(q.shape[-1]))
    if mask and op["mask_dtype"] == "bool":
        scores = np.where(mask[0] != 0, scores, -np.inf)
    elif mask:
        scores = scores + mask[0]
    if op.get("causal"):
        rows, cols = scores.shape[-2:]
        allowed = np.arange(cols)[None, :] <= np.arange(rows)[:, None] + cols - rows
        scores = np.where(allowed, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    e = np.where(np.isinf(most), 0, np.exp(scores - np.where(np.isinf(most), 0, most)))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def clamp(op, x, *bounds):
    low = bounds[0] if bounds else op.get("min", -np.inf)
    high = bounds[1] if len(bounds) > 1 else op.get("max", np.inf)
    return np.minimum(np.maximum(x, low), high)


def gelu(op, x):
    if op.get("approximate") == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def softplus(op, x):
    beta = op.get("beta", 1.0)
    return np.where(x * beta > op.get("threshold", 20.0), x, np.log1p(np.exp(x * beta)) / beta)


def wrapped(function):
    """Of integers, in the width of the result's type."""
    def apply(op, *inputs):
        result = function(*(np.asarray(x).astype(np.int64) for x in inputs))
        dtype = op["result_dtype"]
        if dtype == "bool":
            return result & 1
        low, high = INTEGERS[dtype]
        return result if dtype == "i64" else (result - low) % (high - low + 1) + low
    return apply


def shift_left(a, b):
    return np.where((b < 0) | (b > 63), 0, a << np.clip(b, 0, 63))


def shift_right(a, b):
    return a >> np.where((b < 0) | (b > 63), 63, b)


def dividing(function):
    """Of integers a division by 0 gives 0, as NumPy's does."""
    def apply(op, *inputs):
        if op["result_dtype"] in INTEGERS:
            inputs = (np.asarray(x).astype(np.int64) for x in inputs)
        return function(*inputs)
    return apply


def plain(function):
    return lambda op, *inputs: function(*inputs)


OPS = {
    "add": plain(np.add), "sub": plain(np.subtract), "mul": plain(np.multiply),
    "div": plain(np.divide), "maximum": plain(np.maximum), "minimum": plain(np.minimum),
    "pow": plain(np.power), "neg": plain(np.negative), "abs": plain(np.abs), "exp": plain(np.exp),
    "log": plain(np.log), "log1p": plain(np.log1p), "sqrt": plain(np.sqrt),
    "rsqrt": plain(lambda x: 1 / np.sqrt(x)), "reciprocal": plain(lambda x: 1 / x),
    "sin": plain(np.sin), "cos": plain(np.cos), "tanh": plain(np.tanh),
    "sigmoid": plain(lambda x: 1 / (1 + np.exp(-x))), "relu": plain(lambda x: np.maximum(x, 0)),
    "gelu": gelu, "silu": plain(lambda x: x / (1 + np.exp(-x))), "square": plain(np.square),
    "clamp": clamp, "cast": plain(lambda x: x),
    "where": plain(lambda c, a, b: np.where(c != 0, a, b)), "fma": plain(lambda a, b, c: a * b + c),
    "lt": plain(np.less), "le": plain(np.less_equal), "gt": plain(np.greater),
    "ge": plain(np.greater_equal), "eq": plain(np.equal), "ne": plain(np.not_equal),
    "isnan": plain(np.isnan), "isinf": plain(np.isinf), "logical_and": plain(np.logical_and),
    "logical_or": plain(np.logical_or), "logical_xor": plain(np.logical_xor),
    "logical_not": plain(np.logical_not), "bitwise_and": wrapped(np.bitwise_and),
    "bitwise_or": wrapped(np.bitwise_or), "bitwise_xor": wrapped(np.bitwise_xor),
    "bitwise_not": wrapped(np.bitwise_not), "bitwise_left_shift": wrapped(shift_left),
    "bitwise_right_shift": wrapped(shift_right),
    "erf": plain(np.vectorize(math.erf, otypes=[float])), "tan": plain(np.tan),
    "asin": plain(np.arcsin), "acos": plain(np.arccos), "atan": plain(np.arctan),
    "atan2": plain(np.arctan2), "sinh": plain(np.sinh), "cosh": plain(np.cosh),
    "exp2": plain(np.exp2), "expm1": plain(np.expm1), "log2": plain(np.log2),
    "floor": plain(np.floor), "ceil": plain(np.ceil), "round": plain(np.round),
    "trunc": plain(np.trunc), "sign": plain(lambda x: np.nan_to_num(np.sign(x))),
    "fmod": dividing(np.fmod), "remainder": dividing(np.remainder),
    "floor_divide": dividing(np.floor_divide), "softplus": softplus,
    "mish": lambda op, x: x * np.tanh(softplus({}, x)),
    "leaky_relu": lambda op, x: np.where(x < 0, x * op.get("negative_slope", 0.01), x),
    "elu": lambda op, x: np.where(x > 0, x, op.get("alpha", 1.0) * np.expm1(x)),
    "selu": plain(lambda x: 1.0507009873554805 * np.where(
        x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "hardsigmoid": plain(lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": plain(lambda x: x * np.clip(x + 3, 0, 6) / 6), "dropout": dropout,
    "sum": reducing(lambda x, a: x.sum(axis=a)), "mean": reducing(lambda x, a: x.mean(axis=a)),
    "max": reducing(lambda x, a: x.max(axis=a)), "min": reducing(lambda x, a: x.min(axis=a)),
    "amax_abs": reducing(lambda x, a: np.abs(x).max(axis=a)),
    "var": reducing(lambda x, a: x.var(axis=a)), "argmax": reducing(argmax),
    "logsumexp": reducing(logsumexp), "softmax": softmax,
    "log_softmax": lambda op, x: np.log(softmax(op, x)), "layer_norm": layer_norm,
    "rms_norm": rms_norm, "batch_norm": batch_norm, "group_norm": group_norm,
    "cross_entropy": cross_entropy, "nll_loss": nll_loss,
    "transpose": lambda op, x: np.transpose(x, op.get("perm")),
    "permute_view": lambda op, x: np.transpose(x, op.get("perm")),
    "concat": lambda op, *x: np.concatenate(x, axis=op.get("axes", [0])[0]), "slice": slicing,
    "gather": lambda op, x, i: np.take(x, i.astype(int), axis=op.get("axes", [0])[0]),
    "embedding": embedding, "scatter_update": scatter_update,
    "broadcast_to": lambda op, x: np.broadcast_to(x, op["shape"]), "copy": plain(lambda x: x),
    "reshape": lambda op, x: x.reshape(op["shape"]), "view": lambda op, x: x.reshape(op["shape"]),
    "matmul": matmul, "linear": linear, "conv2d": conv2d, "attention": attention,
}


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


def pointwise_list(dtype):
    g = Lists(dtype)
    a, b, c = g.tensor("a", [3, 4, 5]), g.tensor("b", [4, 1]), g.tensor("c", [5])
    d = g.tensor("d", [3, 1, 5])
    for kind in ("add", "sub", "mul", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne",
                 "fmod", "remainder", "floor_divide", "atan2"):
        g.op(kind, [a, b])
        g.op(kind, [d, b])
    positive = g.op("add", [g.op("abs", [a]), 0.125])
    g.op("div", [b, positive])
    g.op("pow", [positive, c])
    wide = g.op("mul", [a, 6])
    for kind in ("floor", "ceil", "round", "trunc", "sign", "softplus", "mish", "leaky_relu",
                 "elu", "selu", "hardsigmoid", "hardswish", "exp2", "expm1", "erf", "tan", "sinh",
                 "cosh", "atan", "isnan"):
        g.op(kind, [wide])
    g.op("round", [g.op("add", [g.op("floor", [wide]), 0.5])])
    g.op("softplus", [wide], beta=2.0, threshold=3.0)
    g.op("elu", [wide], alpha=0.25)
    g.op("leaky_relu", [wide], negative_slope=0.5)
    for kind in ("asin", "acos"):
        g.op(kind, [a])
    small = g.op("trunc", [wide])
    for kind in ("logical_and", "logical_or", "logical_xor"):
        g.op(kind, [small, c])
        g.op(kind, [small, 0])
    g.op("logical_not", [small])
    g.op("log2", [positive])
    for kind in ("log", "log1p", "sqrt", "rsqrt", "reciprocal"):
        g.op(kind, [positive])
    for kind in ("neg", "abs", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "gelu", "silu",
                 "square", "copy"):
        g.op(kind, [a])
    g.op("gelu", [a], approximate="tanh")
    g.op("clamp", [a], min=-0.5, max=0.25)
    g.op("clamp", [a, b])
    g.op("clamp", [a, b, 0.75])
    g.op("fma", [a, b, c])
    g.op("fma", [a, 2, c])
    mask = g.op("gt", [a, 0])
    g.op("where", [mask, b, c])
    g.op("where", [mask, a, -1])
    g.op("cast", [g.op("mul", [a, 10])], to="i32")
    g.op("cast", [g.op("mul", [a, 300])], to="i8")
    g.op("cast", [a], to="bool")
    g.op("dropout", [a], p=0.3, seed=5)
    g.op("dropout", [a], 2, p=0.7, save_mask=True)
    return g


def integer_list(dtype):
    g = Lists(dtype)
    for kind in ("i64", "i32", "i16", "i8", "u8", "bool"):
        x, y = g.tensor(f"x_{kind}", [5, 7], kind), g.tensor(f"y_{kind}", [7], kind)
        for op in ("and", "or", "xor"):
            g.op(f"bitwise_{op}", [x, y])
        g.op("bitwise_not", [x])
        if kind == "bool":
            continue
        g.op("bitwise_and", [x, 6])
        for n in (y, 0, 3, 7, 15, 40):
            g.op("bitwise_left_shift", [x, n])
            g.op("bitwise_right_shift", [x, n])
        # The inputs hold zeros: a division by one gives 0.
        for op in ("fmod", "remainder", "floor_divide"):
            g.op(op, [x, y])
            g.op(op, [x, -3 if kind != "u8" else 3])
        for op in ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "logical_not"):
            g.op(op, [x])
    return g


def special_list(dtype):
    """Ops on infinities, NaN and zeros."""
    g = Lists(dtype)
    a = g.tensor("a", [6, 8])
    zero = g.op("mul", [a, 0])
    nan = g.op("div", [zero, zero])
    infinite = g.op("div", [a, zero])
    mixed = g.op("concat", [a, zero, nan, infinite])
    turned = g.op("reshape", [g.op("concat", [infinite, a, zero, nan])], shape=[24, 8])
    for kind in ("ne", "eq", "lt", "fmod", "remainder", "floor_divide", "atan2", "maximum",
                 "minimum", "logical_and", "logical_or", "logical_xor"):
        g.op(kind, [mixed, turned])
    for kind in ("isnan", "isinf", "logical_not", "sign", "floor", "ceil", "round", "trunc",
                 "relu", "leaky_relu", "elu", "selu", "hardsigmoid", "hardswish", "softplus",
                 "expm1", "exp2", "erf", "atan"):
        g.op(kind, [mixed])
    return g


def reduction_list(dtype):
    g = Lists(dtype)
    a = g.tensor("a", [3, 4, 5, 2])
    view = g.op("permute_view", [g.op("exp", [a])], perm=[2, 0, 3, 1])
    for x in (a, view):
        for kind in ("sum", "mean", "max", "min", "amax_abs", "var", "argmax", "logsumexp"):
            for axes in ([0], [1, 2], [-1], [0, 3], [1, 3], None):
                attributes = {} if axes is None else {"axes": axes}
                g.op(kind, [x], keepdim=axes in ([0], [1, 3]), **attributes)
    g.op("sum", [g.op("gt", [a, 0])], axes=[1])
    return g


def normalise_list(dtype):
    g = Lists(dtype)
    x = g.tensor("x", [3, 4, 6, 2])
    moved = g.op("permute_view", [x], perm=[1, 0, 3, 2])
    for y in (x, moved):
        for axis in (0, 1, -1):
            g.op("softmax", [y], axes=[axis])
            g.op("log_softmax", [y], axes=[axis])
    w, b, w2, b2 = (g.tensor(n, s) for n, s in (("w", [2]), ("b", [2]), ("w2", [6, 2]),
                                               ("b2", [6, 2])))
    g.op("layer_norm", [x])
    g.op("layer_norm", [x, w, b], eps=0.01)
    g.op("layer_norm", [x, w2, b2])
    g.op("layer_norm", [moved], axes=[2, 3])
    g.op("rms_norm", [x])
    g.op("rms_norm", [x, w2])
    cw, cb, cm = g.tensor("cw", [4]), g.tensor("cb", [4]), g.tensor("cm", [4])
    cv = g.op("add", [g.op("square", [g.tensor("cs", [4])]), 0.5])
    g.op("batch_norm", [x, cw, cb], 3, mode="training")
    g.op("batch_norm", [x, cw, cb, cm, cv])
    g.op("group_norm", [x, cw, cb], groups=2)
    g.op("group_norm", [x], groups=4)
    targets = g.tensor("targets", [3, 4], "i32")
    logits = g.tensor("logits", [3, 4, 7])
    for reduction in ("none", "mean", "sum"):
        g.op("cross_entropy", [logits, targets], 2, reduction=reduction)
        g.op("nll_loss", [g.op("log_softmax", [logits]), targets], reduction=reduction)
    return g


def movement_list(dtype):
    g = Lists(dtype)
    a, b = g.tensor("a", [3, 4, 5]), g.tensor("b", [3, 2, 5])
    g.op("transpose", [a])
    t = g.op("transpose", [a], perm=[1, -1, 0])
    g.op("concat", [a, b, a], axes=[1])
    g.op("concat", [a, a])
    g.op("slice", [a], axes=[1, -1], starts=[1, 0], ends=[3, 5], steps=[1, 2])
    g.op("slice", [t], starts=[-2], ends=[4])
    rows, cols = g.tensor("rows", [2, 3], "i64"), g.tensor("cols", [4], "i32")
    g.op("gather", [a, rows])
    g.op("gather", [t, cols], axes=[1])
    g.op("gather", [a, g.op("cast", [cols], to="i64")], axes=[-1])
    table = g.tensor("table", [9, 5])
    g.op("embedding", [table, rows])
    g.op("embedding", [rows, table], swapped=True)
    base, places = g.tensor("base", [3, 8, 5]), g.tensor("places", [4], "i64")
    stored_rows = g.op("scatter_update", [base, places, a], axes=[1])
    g.op("sum", [stored_rows], axes=[0])
    g.op("broadcast_to", [b], shape=[2, 3, 2, 5])
    v = g.op("view", [a], shape=[6, 10])
    p = g.op("permute_view", [v])
    r = g.op("reshape", [g.op("copy", [p])], shape=[5, 12])
    g.op("add", [r, g.op("reshape", [p], shape=[5, 12])])
    g.op("softmax", [p], axes=[0])
    return g


def contraction_list(dtype):
    g = Lists(dtype)
    a, b = g.tensor("a", [2, 1, 3, 4]), g.tensor("b", [5, 4, 6])
    m, v = g.tensor("m", [3, 4]), g.tensor("v", [4])
    g.op("matmul", [a, b])
    g.op("matmul", [a, b, ][::1], transpose_a=False)
    g.op("matmul", [g.op("permute_view", [a], perm=[0, 1, 3, 2]), b], transpose_a=True)
    g.op("matmul", [m, m], transpose_b=True)
    g.op("matmul", [m, m], transpose_a=True)
    g.op("matmul", [m, v])
    g.op("matmul", [v, b])
    g.op("matmul", [v, v])
    w, bias = g.tensor("w", [6, 4]), g.tensor("bias", [6])
    y = g.op("linear", [g.op("tanh", [a]), w, bias])
    g.op("linear", [m, w])
    g.op("softmax", [y])
    x, k = g.tensor("x", [2, 4, 7, 6]), g.tensor("k", [6, 2, 3, 2])
    g.op("conv2d", [x, k, bias], groups=2, stride=[2, 1], padding=[1, 2], dilation=[2, 1])
    g.op("conv2d", [x, g.tensor("k1", [3, 4, 3, 3])], padding=1)
    q, kk = g.tensor("q", [2, 4, 5, 3]), g.tensor("kk", [2, 2, 6, 3])
    vv = g.tensor("vv", [2, 2, 6, 4])
    g.op("attention", [q, kk, vv])
    g.op("attention", [q, kk, vv], causal=True, scale=0.75)
    short = g.op("slice", [kk], axes=[2], starts=[0], ends=[3])
    g.op("attention", [q, short, g.op("slice", [vv], axes=[2], starts=[3])], causal=True)
    g.op("attention", [q, kk, vv, g.tensor("flags", [5, 6], "bool")], mask_dtype="bool")
    g.op("attention", [q, kk, vv, g.tensor("added", [2, 1, 5, 6])], mask_dtype="f64")
    for op in g.document["ops"]:
        op.pop("mask_dtype", None)
    return g


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
    lists = {"pointwise": pointwise_list, "integers": integer_list, "special": special_list,
             "reductions": reduction_list,
             "normalisations": normalise_list, "movement": movement_list,
             "contractions": contraction_list}
    used = set()
    for title, make in lists.items():
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
