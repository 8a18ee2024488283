"""NumPy's version of ops that move elements, and op lists that use them: for reference_oracle.py."""

import numpy as np

from index_ops import COMBINING
from numpy_base import Lists, plain


def slicing(op, x):
    count = max(len(op.get("starts", [])), len(op.get("ends", [])))
    axes = op.get("axes", list(range(count)))
    cut = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        start = op["starts"][i] if "starts" in op else None
        end = op["ends"][i] if "ends" in op else None
        cut[axis] = slice(start, end, op["steps"][i] if "steps" in op else None)
    return x[tuple(cut)]


def splitting(op, x):
    axis = op.get("axes", [0])[0]
    sizes = op.get("sizes", [x.shape[axis] // len(op["outputs"])] * len(op["outputs"]))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def scatter_update(op, x, indices, rows):
    axis = op.get("axes", [0])[0] % x.ndim
    flat = rows.reshape(x.shape[:axis] + (-1,) + x.shape[axis + 1:])
    y = np.moveaxis(x.copy(), axis, 0)
    places, flat = indices.astype(int).ravel(), np.moveaxis(flat, axis, 0)
    if op.get("combine", "replace") == "replace":
        y[places] = flat
    else:
        COMBINING[op["combine"]].at(y, places, flat)
    return np.moveaxis(y, 0, axis)


def embedding(op, table, indices):
    if table.ndim != 2 or op.get("swapped"):
        table, indices = indices, table
    return table[indices.astype(int)]


OPS = {
    "transpose": lambda op, x: np.transpose(x, op.get("perm")),
    "permute_view": lambda op, x: np.transpose(x, op.get("perm")),
    "concat": lambda op, *x: np.concatenate(x, axis=op.get("axes", [0])[0]), "slice": slicing,
    "gather": lambda op, x, i: np.take(x, i.astype(int), axis=op.get("axes", [0])[0]),
    "embedding": embedding, "scatter_update": scatter_update,
    "broadcast_to": lambda op, x: np.broadcast_to(x, op["shape"]), "copy": plain(lambda x: x),
    "slice_view": slicing, "split_view": splitting,
    "expand_view": lambda op, x: np.broadcast_to(x, op["shape"]),
    "reshape": lambda op, x: x.reshape(op["shape"]), "view": lambda op, x: x.reshape(op["shape"]),
}


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


def view_list(dtype):
    """Views with gaps, offsets and repetitions, of one another, under ops of every kind."""
    g = Lists(dtype)
    a = g.tensor("a", [4, 6, 10])
    part = g.op("slice_view", [g.op("exp", [a])], axes=[1, 2], starts=[1, 3], ends=[6, 9],
                steps=[2, 1])
    turned = g.op("permute_view", [part], perm=[2, 0, 1])
    flat = g.op("reshape", [turned], shape=[3, 24])
    g.op("split_view", [flat], 3, axes=[1], sizes=[4, 8, 12])
    left, _, right = g.document["ops"][-1]["outputs"]
    g.op("split_view", [a], 2, axes=[-1])
    gate, up = g.document["ops"][-1]["outputs"]
    g.op("mul", [g.op("silu", [gate]), up])
    narrow = g.op("slice_view", [left], axes=[1], starts=[1], ends=[2])
    wide = g.op("expand_view", [narrow], shape=[2, 3, 5])
    for x in (part, turned, flat, left, right, wide):
        g.op("neg", [x])
        g.op("sum", [x], axes=[-1])
        g.op("softmax", [x], axes=[0])
        g.op("layer_norm", [x])
        g.op("transpose", [x])
        g.op("slice", [x], axes=[0], starts=[1])
    g.op("add", [wide, g.op("slice_view", [wide], axes=[0], starts=[1])])
    g.op("concat", [left, right, flat], axes=[1])
    rows = g.op("slice_view", [g.tensor("rows", [6], "i32")], starts=[1], steps=[2])
    g.op("gather", [flat, g.op("mul", [rows, 0])])
    g.op("linear", [right, g.op("slice_view", [g.tensor("w", [5, 20])], axes=[1], starts=[8])])
    g.op("matmul", [g.op("expand_view", [left], shape=[2, 3, 4]), right], transpose_a=True)
    qkv = g.tensor("qkv", [2, 5, 32])
    g.op("split_view", [qkv], 3, axes=[2], sizes=[16, 8, 8])
    q, k, v = (g.op("permute_view", [g.op("reshape", [x], shape=[2, 5, -1, 4])], perm=[0, 2, 1, 3])
               for x in g.document["ops"][-1]["outputs"])
    y = g.op("attention", [q, k, v])
    k, v = (g.op("reshape", [g.op("expand_view", [g.op("reshape", [x], shape=[2, 2, 1, 5, 4])],
                                  shape=[2, 2, 2, 5, 4])], shape=[2, 4, 5, 4]) for x in (k, v))
    g.op("sub", [y, g.op("attention", [q, k, v])])
    g.op("copy", [g.op("permute_view", [y], perm=[0, 2, 1, 3])])
    return g


LISTS = {"movement": movement_list, "views": view_list}
