"""NumPy's version of ops whose results depend on where their elements are, of scans and of sorts,
and op lists that use them: for reference_oracle.py."""

import numpy as np

from numpy_base import Lists

COMBINING = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def axis_of(op, x, otherwise):
    return op.get("axes", [otherwise])[0] % x.ndim


def pad(op, x):
    before, after = (op.get(name, [0] * x.ndim) for name in ("before", "after"))
    kept = tuple(slice(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, x.shape))
    widths = [(max(0, b), max(0, a)) for b, a in zip(before, after)]
    border = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.get(op.get("border"))
    if border:
        return np.pad(x, widths, mode=border)
    return np.pad(x[kept], widths, constant_values=op.get("value", 0))


def roll(op, x):
    return np.roll(x, op["shifts"], axis=tuple(op["axes"]))


def flip(op, x):
    return np.flip(x, axis=op.get("axes") and tuple(op["axes"]))


def rotary(op, x, cosines, sines):
    turned = op.get("rotated", x.shape[-1])
    head, rest = x[..., :turned], x[..., turned:]
    if op.get("interleaved", False):
        other = np.stack((-head[..., 1::2], head[..., ::2]), -1).reshape(head.shape)
        repeat = lambda angles: np.repeat(angles, turned // angles.shape[-1], -1)
    else:
        other = np.concatenate((-head[..., turned // 2:], head[..., :turned // 2]), -1)
        repeat = lambda angles: np.concatenate([angles] * (turned // angles.shape[-1]), -1)
    return np.concatenate((head * repeat(cosines) + other * repeat(sines), rest), -1)


def one_hot(op, x):
    return (x[..., None] == np.arange(op["classes"])).astype(float)


def iota(op):
    size = int(np.prod(op["shape"]))
    return (op.get("first", 0) + op.get("delta", 1) * np.arange(size)).reshape(op["shape"])


def named(op, x, indices):
    """The places that indices along an axis name, as NumPy indexes them."""
    places = list(np.indices(indices.shape))
    places[axis_of(op, x, 0)] = indices.astype(int)
    return tuple(places)


def gather_elements(op, x, indices):
    return x[named(op, x, indices)]


def scatter_elements(op, x, indices, updates):
    y, places = x.copy(), named(op, x, indices)
    how = op.get("combine", "replace")
    if how == "replace":
        y[places] = updates
    else:
        COMBINING[how].at(y, places, updates)
    return y


def sort(op, x):
    axis = axis_of(op, x, -1)
    descending = op.get("largest", True) if "k" in op else op.get("descending", False)
    order = np.argsort(-x if descending else x, axis=axis, kind="stable")
    order = np.take(order, np.arange(op.get("k", x.shape[axis])), axis=axis)
    return np.take_along_axis(x, order, axis), order


OPS = {
    "pad": pad, "roll": roll, "flip": flip, "rotary": rotary,
    "repeat": lambda op, x: np.tile(x, op["repeats"]), "one_hot": one_hot,
    "tril": lambda op, x: np.tril(x, op.get("diagonal", 0)),
    "triu": lambda op, x: np.triu(x, op.get("diagonal", 0)), "iota": iota,
    "full": lambda op: np.full(op["shape"], op.get("value", 0)),
    "gather_elements": gather_elements, "scatter_elements": scatter_elements,
    "cumsum": lambda op, x: np.cumsum(x, axis=axis_of(op, x, -1)),
    "cumprod": lambda op, x: np.cumprod(x, axis=axis_of(op, x, -1)), "sort": sort, "topk": sort,
}


def fill_place_list(g):
    a, b = g.tensor("a", [3, 4, 5]), g.tensor("b", [6, 8])
    g.op("pad", [a], before=[0, 1, 2], after=[1, 0, 1])
    g.op("pad", [a], before=[-1, 2, -3], after=[0, -1, 2], value=0.5)
    g.op("pad", [a], after=[0, 0, 3], value=-2)
    g.op("pad", [a], before=[0, 1, 2], after=[1, 0, 3], border="reflect")
    g.op("pad", [a], before=[2, 0, 5], after=[1, 3, 0], border="replicate")
    g.op("pad", [a], before=[0, 2, 1], after=[2, 0, 4], border="circular")
    g.op("roll", [a], axes=[1, -1], shifts=[1, -7])
    g.op("roll", [g.op("exp", [a])], axes=[0], shifts=[2])
    g.op("flip", [a])
    g.op("flip", [a], axes=[0, -1])
    g.op("repeat", [a], repeats=[2, 1, 3])
    g.op("repeat", [b], repeats=[2, 3, 1])
    x = g.tensor("x", [2, 3, 4, 12])
    for width in (6, 12):
        tables = [g.tensor(f"{name}{width}", [4, width]) for name in ("cos", "sin")]
        for interleaved in (False, True):
            g.op("rotary", [x, *tables], interleaved=interleaved)
            g.op("rotary", [g.op("exp", [x]), *tables], interleaved=interleaved)
            if width == 6:
                g.op("rotary", [x, *tables], rotated=6, interleaved=interleaved)
    for diagonal in (0, 2, -3):
        g.op("tril", [a], diagonal=diagonal)
        g.op("triu", [g.op("permute_view", [b])], diagonal=diagonal)
    g.op("one_hot", [g.tensor("classes", [3, 4], "i32")], classes=8)
    g.op("one_hot", [g.tensor("bytes", [7], "u8")], classes=5, to="f32")
    g.op("iota", [], shape=[4, 5])
    g.op("iota", [], shape=[9], first=-3, delta=2, to="i32")
    g.op("mul", [g.op("iota", [], shape=[5], first=0.3, delta=-0.1), a])
    g.op("add", [g.op("full", [], shape=[4, 1], value=0.7), a])
    g.op("full", [], shape=[], value=3, to="i64")


def fill_named_list(g):
    x, updates = g.tensor("x", [4, 6, 3]), g.tensor("updates", [3, 5, 3])
    places = g.tensor("places", [3, 5, 3], "i64")
    g.op("gather_elements", [x, g.tensor("picks", [4, 9, 2], "i32")], axes=[1])
    g.op("gather_elements", [g.op("tanh", [x]), places])
    y = g.op("scatter_elements", [g.op("copy", [x]), places, updates], axes=[-2])
    g.op("sum", [y], axes=[0])
    for how in ("add", "mul", "max", "min"):
        # More indices than there are places: some are named several times.
        many = g.tensor(f"many_{how}", [2, 20], "i64")
        base, more = g.tensor(f"base_{how}", [2, 7]), g.tensor(f"more_{how}", [2, 20])
        g.op("scatter_elements", [base, many, more], axes=[1], combine=how)
        rows = g.tensor(f"rows_{how}", [9], "i32")
        table, changes = g.tensor(f"table_{how}", [5, 3]), g.tensor(f"changes_{how}", [9, 3])
        g.op("scatter_update", [table, rows, g.op("exp", [changes])], combine=how)


def fill_whole_row_list(g):
    x = g.tensor("x", [3, 7, 5])
    for y in (x, g.op("permute_view", [g.op("sin", [x])], perm=[2, 0, 1])):
        for axis in (0, 1, -1):
            g.op("cumsum", [y], axes=[axis])
            g.op("cumprod", [y], axes=[axis])
            g.op("sort", [y], 2, axes=[axis], descending=axis == 1)
            g.op("topk", [y], 2, axes=[axis], k=2, largest=axis != 0)
    g.op("cumsum", [g.tensor("counts", [4, 9], "i32")])
    g.op("sort", [g.tensor("keys", [40], "i8")], 2, descending=True)


def list_filled_by(fill):
    def make(dtype):
        g = Lists(dtype)
        fill(g)
        return g
    return make


LISTS = {"places": list_filled_by(fill_place_list), "names": list_filled_by(fill_named_list),
         "whole rows": list_filled_by(fill_whole_row_list)}
