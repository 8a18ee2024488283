"""NumPy's version of matrix products, convolutions and attention, and op lists that use them: for reference_oracle.py."""

import math

import numpy as np

from numpy_base import Lists


def matmul(op, a, b):
    if op.get("transpose_a"):
        a = np.swapaxes(a, -1, -2)
    if op.get("transpose_b"):
        b = np.swapaxes(b, -1, -2)
    return a @ b


def linear(op, x, w, *bias):
    return x @ w.T + (bias[0] if bias else 0)


def grouped_matmul(op, a, b, ends):
    """Each group at once; rows behind the last end are 0."""
    if op.get("transpose_b"):
        b = np.swapaxes(b, -1, -2)
    y = np.zeros([len(a), b.shape[-1]], dtype=a.dtype)
    begin = 0
    for matrix, end in zip(b, ends.astype(int)):
        y[begin:end] = a[begin:end] @ matrix
        begin = max(begin, end)
    return y


def scaled_matmul(op, a, b, scales_a, scales_b, *bias):
    if op.get("transpose_b"):
        b = b.T

    def scaled(x, scales):
        scales = scales.reshape(scales.shape if scales.size > 1 else [1, 1])
        for axis in (0, 1):
            scales = np.repeat(scales, x.shape[axis] // scales.shape[axis], axis=axis)
        return x * scales

    return scaled(a, scales_a) @ scaled(b, scales_b) + (bias[0] if bias else 0)


def per_axis(op, name, count, default):
    value = op.get(name, default)
    value = [value] if isinstance(value, int) else value
    return value * count if len(value) == 1 else value


def convolution(op, x, w, *bias):
    """A sum over taps: each multiplies a strided part of the padded input by one matrix."""
    axes = x.ndim - 2
    stride, padding, dilation = (per_axis(op, n, axes, d) for n, d in (
        ("stride", 1), ("padding", 0), ("dilation", 1)))
    groups = op.get("groups", 1)
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    out = [(x.shape[i + 2] - dilation[i] * (w.shape[i + 2] - 1) - 1) // stride[i] + 1
           for i in range(axes)]
    y = np.zeros([x.shape[0], w.shape[0]] + out, dtype=x.dtype)
    for tap in np.ndindex(*w.shape[2:]):
        part = x[(slice(None), slice(None)) + tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, out, stride))]
        for g, (a, b) in enumerate(zip(np.split(part, groups, axis=1), np.split(w, groups))):
            rows = slice(g * len(b), (g + 1) * len(b))
            y[:, rows] += np.einsum("nc...,oc->no...", a, b[(slice(None), slice(None)) + tap])
    return y + (bias[0].reshape([1, -1] + [1] * axes) if bias else 0)


def transposed_convolution(op, x, w, *bias):
    """Scatters what each element contributes to the taps."""
    axes = x.ndim - 2
    stride, padding, dilation, more = (per_axis(op, n, axes, d) for n, d in (
        ("stride", 1), ("padding", 0), ("dilation", 1), ("output_padding", 0)))
    groups = op.get("groups", 1)
    full = [(x.shape[i + 2] - 1) * stride[i] + dilation[i] * (w.shape[i + 2] - 1) + 1 + more[i]
            for i in range(axes)]
    per_group = w.shape[1]
    y = np.zeros([x.shape[0], per_group * groups] + full, dtype=x.dtype)
    for tap in np.ndindex(*w.shape[2:]):
        where = tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                      for t, d, n, s in zip(tap, dilation, x.shape[2:], stride))
        for g, (a, b) in enumerate(zip(np.split(x, groups, axis=1), np.split(w, groups))):
            rows = slice(g * per_group, (g + 1) * per_group)
            y[(slice(None), rows) + where] += np.einsum(
                "nc...,co->no...", a, b[(slice(None), slice(None)) + tap])
    y = y[(slice(None), slice(None)) + tuple(
        slice(p, n - p) for p, n in zip(padding, full))]
    return y + (bias[0].reshape([1, -1] + [1] * axes) if bias else 0)


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
        before = np.arange(rows)[:, None] + cols - rows - np.arange(cols)[None, :]
        allowed = (before >= 0) & (before < op.get("window", cols + rows))
        scores = np.where(allowed, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    e = np.where(np.isinf(most), 0, np.exp(scores - np.where(np.isinf(most), 0, most)))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v, (most + np.log(total))[..., 0]


OPS = {
    "matmul": matmul, "linear": linear, "grouped_matmul": grouped_matmul,
    "scaled_matmul": scaled_matmul, "attention": attention,
    **{f"conv{n}d": convolution for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": transposed_convolution for n in (1, 2, 3)},
}


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
    rows, ends = g.tensor("rows", [9, 4]), g.tensor("ends", [5], "i32")
    g.op("grouped_matmul", [rows, b, ends])
    g.op("grouped_matmul", [g.op("tanh", [rows]), g.tensor("b2", [5, 6, 4]), g.op("cumsum", [g.op(
        "ne", [ends, 0])])], transpose_b=True)
    one, blocks_a = g.tensor("one", [1]), g.tensor("blocks_a", [3, 2])
    g.op("scaled_matmul", [rows, g.tensor("b3", [4, 6]), one, g.tensor("scalar", [])])
    g.op("scaled_matmul", [g.op("tanh", [rows]), w, blocks_a, g.tensor("blocks_b", [4, 3]), bias], transpose_b=True)
    x, k = g.tensor("x", [2, 4, 7, 6]), g.tensor("k", [6, 2, 3, 2])
    g.op("conv2d", [x, k, bias], groups=2, stride=[2, 1], padding=[1, 2], dilation=[2, 1])
    g.op("conv2d", [x, g.tensor("k1", [3, 4, 3, 3])], padding=1)
    lines, volumes = g.tensor("lines", [2, 4, 9]), g.tensor("volumes", [1, 4, 4, 5, 6])
    k3 = g.tensor("k3", [4, 3, 2, 3, 3])
    g.op("conv1d", [lines, g.tensor("k5", [6, 4, 3]), bias], stride=2, padding=1)
    g.op("conv3d", [volumes, g.tensor("k6", [6, 2, 2, 3, 1])], groups=2, padding=[0, 1, 0])
    g.op("conv_transpose1d", [lines, g.tensor("k7", [4, 3, 3])], stride=2, output_padding=1)
    g.op("conv_transpose2d", [x, g.tensor("k8", [4, 3, 3, 2]), bias], groups=2, stride=[2, 3],
         padding=[1, 0], dilation=[2, 1])
    g.op("conv_transpose3d", [volumes, k3], padding=1, stride=2)
    q, kk = g.tensor("q", [2, 4, 5, 3]), g.tensor("kk", [2, 2, 6, 3])
    vv = g.tensor("vv", [2, 2, 6, 4])
    g.op("attention", [q, kk, vv])
    g.op("attention", [q, kk, vv], 2, causal=True, scale=0.75)
    g.op("attention", [q, kk, vv], 2, causal=True, window=3)
    short = g.op("slice", [kk], axes=[2], starts=[0], ends=[3])
    g.op("attention", [q, short, g.op("slice", [vv], axes=[2], starts=[3])], causal=True, window=1)
    g.op("attention", [q, short, g.op("slice", [vv], axes=[2], starts=[3])], causal=True)
    g.op("attention", [q, kk, vv, g.tensor("flags", [5, 6], "bool")], mask_dtype="bool")
    g.op("attention", [q, kk, vv, g.tensor("added", [2, 1, 5, 6])], mask_dtype="f64")
    for op in g.document["ops"]:
        op.pop("mask_dtype", None)
    return g


LISTS = {"contractions": contraction_list}
