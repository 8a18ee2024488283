"""NumPy's version of pooling and upsampling, and op lists that use them: for reference_oracle.py."""

import math

import numpy as np

from numpy_base import Lists
from product_ops import per_axis


def over_windows(x, spatial, sizes, window_of, reduce):
    """reduce(window, places in the plane, result's place) for each result of the last axes."""
    planes = x.reshape((-1,) + x.shape[x.ndim - spatial:])
    numbers = np.arange(planes[0].size).reshape(planes.shape[1:])
    results = []
    for plane in planes:
        for at in np.ndindex(*sizes):
            cut = np.ix_(*(window_of(i, o) for i, o in enumerate(at)))
            results.append(reduce(plane[cut].ravel(), numbers[cut].ravel(), at))
    results = np.array(results)
    shape = x.shape[:x.ndim - spatial] + tuple(sizes)
    return tuple(results[:, i].reshape(shape) for i in range(results.shape[1]))


def largest(window, places, _):
    return window.max(), places[np.argmax(window)]


def pooling(average):
    def apply(op, x):
        spatial = len(op["kernel"]) if isinstance(op["kernel"], list) else x.ndim - 2
        kernel = per_axis(op, "kernel", spatial, 1)
        stride = per_axis(op, "stride", spatial, kernel)
        padding = per_axis(op, "padding", spatial, 0)
        dilation = per_axis(op, "dilation", spatial, 1)
        extents = x.shape[x.ndim - spatial:]
        sizes = []
        for n, k, s, p, d in zip(extents, kernel, stride, padding, dilation):
            room = n + 2 * p - d * (k - 1) - 1
            size = (math.ceil(room / s) if op.get("ceil_mode") else room // s) + 1
            sizes.append(size - 1 if (size - 1) * s >= n + p else size)

        def window_of(i, o):
            first = o * stride[i] - padding[i]
            taps = range(first, first + kernel[i] * dilation[i], dilation[i])
            return [t for t in taps if 0 <= t < extents[i]]

        def mean(window, _, at):
            count = len(window)
            if op.get("count_include_pad", True):
                count = math.prod(
                    min(o * s + k, n + 2 * p) - o * s
                    for o, s, k, n, p in zip(at, stride, kernel, extents, padding))
            return (window.sum() / count,)
        return over_windows(x, spatial, sizes, window_of, mean if average else largest)
    return apply


def adaptive_pooling(average):
    def apply(op, x):
        spatial = len(op["size"]) if isinstance(op["size"], list) else x.ndim - 2
        sizes = per_axis(op, "size", spatial, 1)
        extents = x.shape[x.ndim - spatial:]

        def window_of(i, o):
            return range(o * extents[i] // sizes[i], -(-(o + 1) * extents[i] // sizes[i]))
        return over_windows(x, spatial, sizes, window_of, (
            lambda window, places, at: (window.mean(),)) if average else largest)
    return apply


def stretched(op, x):
    """The spatial axes, and their new extents."""
    if "scale" in op:
        return [(i, math.floor(x.shape[i] * op["scale"])) for i in range(2, x.ndim)]
    count = len(op["size"]) if isinstance(op["size"], list) else x.ndim - 2
    return list(zip(range(x.ndim - count, x.ndim), per_axis(op, "size", count, 1)))


def upsample_nearest(op, x):
    for axis, size in stretched(op, x):
        x = np.take(x, np.arange(size) * x.shape[axis] // size, axis=axis)
    return x


def upsample_linear(op, x):
    for axis, size in stretched(op, x):
        extent = x.shape[axis]
        if op.get("align_corners"):
            places = np.linspace(0, extent - 1, size) if size > 1 else np.zeros(1)
        else:
            places = np.maximum((np.arange(size) + 0.5) * extent / size - 0.5, 0)
        low = np.minimum(np.floor(places + 1e-9).astype(int), extent - 1)
        part = (places - low).reshape([-1] + [1] * (x.ndim - 1 - axis)).astype(x.dtype)
        high = np.minimum(low + 1, extent - 1)
        x = np.take(x, low, axis=axis) * (1 - part) + np.take(x, high, axis=axis) * part
    return x


OPS = {
    "max_pool": pooling(False), "avg_pool": pooling(True),
    "adaptive_max_pool": adaptive_pooling(False), "adaptive_avg_pool": adaptive_pooling(True),
    "upsample_nearest": upsample_nearest, "upsample_linear": upsample_linear,
}


def window_list(dtype):
    g = Lists(dtype)
    a = g.tensor("a", [2, 3, 7, 10])
    x = g.op("add", [a, 0])
    g.op("max_pool", [x], kernel=3, stride=2, padding=1)
    g.op("max_pool", [a], 2, kernel=[3, 2], stride=[2, 1], dilation=[1, 3])
    g.op("max_pool", [x], 2, kernel=2, ceil_mode=True)
    g.op("avg_pool", [x], kernel=3, stride=2, padding=1)
    g.op("avg_pool", [x], kernel=3, stride=2, padding=1, ceil_mode=True)
    g.op("avg_pool", [a], kernel=[2, 3], padding=[1, 1], count_include_pad=False, ceil_mode=True)
    g.op("adaptive_avg_pool", [x], size=1)
    g.op("adaptive_avg_pool", [a], size=[3, 4])
    g.op("adaptive_max_pool", [x], 2, size=[5, 3])
    lines, volumes = g.tensor("lines", [3, 4, 11]), g.tensor("volumes", [2, 4, 5, 6])
    g.op("max_pool", [lines], 2, kernel=3, stride=2)
    g.op("avg_pool", [lines], kernel=4)
    g.op("max_pool", [volumes], kernel=[2, 3, 2])
    g.op("avg_pool", [volumes], kernel=[2, 2, 2], padding=[0, 1, 1])
    moved = g.op("permute_view", [x], perm=[1, 0, 3, 2])
    g.op("max_pool", [moved], kernel=2)
    for kind in ("upsample_nearest", "upsample_linear"):
        g.op(kind, [x], scale=2)
        g.op(kind, [a], size=[9, 4])
        g.op(kind, [lines], size=17)
        g.op(kind, [volumes], size=[7, 8, 9])
    g.op("upsample_linear", [x], size=[13, 21], align_corners=True)
    g.op("upsample_linear", [lines], size=1, align_corners=True)
    return g


LISTS = {"windows": window_list}
