"""NumPy's version of reductions, normalisations and losses, and op lists that use them: for reference_oracle.py."""

import numpy as np

from numpy_base import Lists, axes_of


def reducing(function):
    def apply(op, x):
        result = function(x, axes_of(op, x))
        return np.expand_dims(result, axes_of(op, x)) if op.get("keepdim") else result
    return apply


def place_of(function):
    def apply(x, axes):
        kept = [a for a in range(x.ndim) if a not in axes]
        moved = np.transpose(x, kept + list(axes))
        return function(moved.reshape(moved.shape[:len(kept)] + (-1,)), axis=-1).astype(float)
    return apply


argmax, argmin = place_of(np.argmax), place_of(np.argmin)


def with_place(function, place):
    def apply(op, x):
        return reducing(function)(op, x), reducing(place)(op, x)
    return apply


def variance(op, x):
    return reducing(lambda x, a: x.var(axis=a, ddof=op.get("correction", 0)))(op, x)


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
    deviation = np.sqrt((centred**2).mean(axis=axes, keepdims=True) + op.get("eps", 1e-5))
    return affine(centred / deviation, weights), x.mean(axis=axes, keepdims=True), 1 / deviation


def rms_norm(op, x, *weights):
    axes = last_axes(op, x, *weights)
    deviation = np.sqrt((x**2).mean(axis=axes, keepdims=True) + op.get("eps", 1e-5))
    return affine(x / deviation, weights), 1 / deviation


def batch_norm(op, x, w, b, *given):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    axes = (0,) + tuple(range(2, x.ndim))
    training = op.get("mode") == "training"
    mean, var = (x.mean(axis=axes), x.var(axis=axes)) if training else given
    deviation = np.sqrt(var.reshape(shape) + op.get("eps", 1e-5))
    y = affine((x - mean.reshape(shape)) / deviation, (w, b), shape)
    if not training or not given:
        return y, mean, var
    m = op.get("momentum", 0.1)
    return (y, mean, 1 / deviation.ravel(), (1 - m) * given[0] + m * mean,
            (1 - m) * given[1] + m * x.var(axis=axes, ddof=1))


def group_norm(op, x, *weights):
    grouped = x.reshape(x.shape[0], op["groups"], -1)
    mean = grouped.mean(-1, keepdims=True)
    deviation = np.sqrt(grouped.var(-1, keepdims=True) + op.get("eps", 1e-5))
    y = ((grouped - mean) / deviation).reshape(x.shape)
    return affine(y, weights, (1, -1) + (1,) * (x.ndim - 2)), mean[..., 0], 1 / deviation[..., 0]


def collapse(op, losses):
    return {"none": lambda: losses, "mean": losses.mean, "sum": losses.sum}[
        op.get("reduction", "mean")]()


def cross_entropy(op, x, targets):
    normaliser = logsumexp(x, (x.ndim - 1,))
    picked = np.take_along_axis(x, targets.astype(int)[..., None], -1)[..., 0]
    return collapse(op, normaliser - picked), normaliser


def nll_loss(op, x, targets):
    return collapse(op, -np.take_along_axis(x, targets.astype(int)[..., None], -1)[..., 0])


OPS = {
    "sum": reducing(lambda x, a: x.sum(axis=a)), "mean": reducing(lambda x, a: x.mean(axis=a)),
    "max": reducing(lambda x, a: x.max(axis=a)), "min": reducing(lambda x, a: x.min(axis=a)),
    "amax_abs": reducing(lambda x, a: np.abs(x).max(axis=a)),
    "l2_norm": reducing(lambda x, a: np.sqrt(np.square(x).sum(axis=a))),
    "var": variance, "std": lambda op, x: np.sqrt(variance(op, x)),
    "prod": reducing(lambda x, a: x.prod(axis=a)),
    "any": reducing(lambda x, a: (x != 0).any(axis=a)),
    "all": reducing(lambda x, a: (x != 0).all(axis=a)), "argmax": reducing(argmax),
    "argmin": reducing(argmin),
    "max_with_index": with_place(lambda x, a: x.max(axis=a), argmax),
    "min_with_index": with_place(lambda x, a: x.min(axis=a), argmin),
    "logsumexp": reducing(logsumexp), "softmax": softmax,
    "log_softmax": lambda op, x: np.log(softmax(op, x)), "layer_norm": layer_norm,
    "rms_norm": rms_norm, "batch_norm": batch_norm, "group_norm": group_norm,
    "cross_entropy": cross_entropy, "nll_loss": nll_loss,
}


def reduction_list(dtype):
    g = Lists(dtype)
    a = g.tensor("a", [3, 4, 5, 2])
    view = g.op("permute_view", [g.op("exp", [a])], perm=[2, 0, 3, 1])
    for x in (a, view):
        for kind in ("sum", "mean", "max", "min", "amax_abs", "l2_norm", "var", "std", "prod", "argmax",
                     "argmin", "logsumexp"):
            for axes in ([0], [1, 2], [-1], [0, 3], [1, 3], None):
                attributes = {} if axes is None else {"axes": axes}
                g.op(kind, [x], keepdim=axes in ([0], [1, 3]), **attributes)
        for kind in ("max_with_index", "min_with_index"):
            g.op(kind, [x], 2, axes=[2])
            g.op(kind, [x], 2, axes=[0, 1], keepdim=True)
        for kind in ("var", "std"):
            g.op(kind, [x], axes=[1, 2], correction=1)
            g.op(kind, [x], correction=2.5)
    for kind in ("any", "all"):
        for least in (-1, 0, 0.875):
            g.op(kind, [g.op("gt", [a, least])], axes=[0, 2])
            g.op(kind, [g.op("relu", [g.op("sub", [a, least])])], axes=[-1], keepdim=True)
    g.op("sum", [g.op("gt", [a, 0])], axes=[1])
    g.op("prod", [g.tensor("whole", [3, 4], "i32")], axes=[1])
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
    g.op("layer_norm", [x, w2, b2], 3)
    g.op("layer_norm", [x, w], 2)
    g.op("layer_norm", [moved], axes=[2, 3])
    g.op("rms_norm", [x])
    g.op("rms_norm", [x, w2], 2)
    cw, cb, cm = g.tensor("cw", [4]), g.tensor("cb", [4]), g.tensor("cm", [4])
    cv = g.op("add", [g.op("square", [g.tensor("cs", [4])]), 0.5])
    g.op("batch_norm", [x, cw, cb], 3, mode="training")
    g.op("batch_norm", [x, cw, cb, cm, cv], 5, mode="training", momentum=0.25)
    g.op("batch_norm", [x, cw, cb, cm, cv])
    g.op("group_norm", [x, cw, cb], 3, groups=2)
    g.op("group_norm", [x], groups=4)
    targets = g.tensor("targets", [3, 4], "i32")
    logits = g.tensor("logits", [3, 4, 7])
    for reduction in ("none", "mean", "sum"):
        g.op("cross_entropy", [logits, targets], 2, reduction=reduction)
        g.op("nll_loss", [g.op("log_softmax", [logits]), targets], reduction=reduction)
    return g


LISTS = {"reductions": reduction_list, "normalisations": normalise_list}
