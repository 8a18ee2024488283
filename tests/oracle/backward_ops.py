"""NumPy's version of gradients, and op lists that use them: for reference_oracle.py."""

import numpy as np

from numpy_base import Lists, axes_of
from pointwise_ops import gelu, softplus


def slope(function):
    """The derivative of a function by differences, times dy."""
    def apply(op, dy, x):
        x = x.astype(float)
        h = 1e-3
        wide = (function(op, x + h) - function(op, x - h)) / (2 * h)
        narrow = (function(op, x + h / 2) - function(op, x - h / 2)) / h
        return dy * ((4 * narrow - wide) / 3)
    return apply


def softmax_backward(op, dy, y):
    axis = axes_of(op, y)[0] if "axes" in op else y.ndim - 1
    return y * (dy - (dy * y).sum(axis=axis, keepdims=True))


def log_softmax_backward(op, dy, y):
    axis = axes_of(op, y)[0] if "axes" in op else y.ndim - 1
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def nll_loss_backward(op, dy, x, targets):
    share = 1 / targets.size if op.get("reduction", "mean") == "mean" else 1
    chosen = np.arange(x.shape[-1]) == targets[..., None]
    return np.where(chosen, -np.reshape(dy, np.shape(dy) + (1,)) * share, 0)


OPS = {
    "relu_backward": lambda op, dy, x: np.where(x > 0, dy, 0),
    "leaky_relu_backward": lambda op, dy, x: np.where(
        x > 0, dy, dy * op.get("negative_slope", 0.01)),
    "sigmoid_backward": lambda op, dy, y: dy * y * (1 - y),
    "tanh_backward": lambda op, dy, y: dy * (1 - y * y),
    "silu_backward": slope(lambda op, x: x / (1 + np.exp(-x))), "gelu_backward": slope(gelu),
    "hardsigmoid_backward": slope(lambda op, x: np.clip(x + 3, 0, 6) / 6),
    "hardswish_backward": slope(lambda op, x: x * np.clip(x + 3, 0, 6) / 6),
    "softplus_backward": slope(softplus),
    "dropout_backward": lambda op, dy, mask: np.where(mask != 0, dy * op.get("scale", 1), 0),
    "softmax_backward": softmax_backward, "log_softmax_backward": log_softmax_backward,
    "nll_loss_backward": nll_loss_backward,
}


def backward_list(dtype):
    g = Lists(dtype)
    dy, x = g.tensor("dy", [4, 6, 5]), g.op("mul", [g.tensor("x", [4, 6, 5]), 4])
    for kind in ("relu", "leaky_relu", "silu", "gelu", "hardsigmoid", "hardswish", "softplus"):
        g.op(f"{kind}_backward", [dy, x])
    g.op("leaky_relu_backward", [dy, x], negative_slope=0.25)
    g.op("gelu_backward", [dy, x], approximate="tanh")
    g.op("softplus_backward", [dy, x], beta=2.0, threshold=3.0)
    g.op("tanh_backward", [dy, g.op("tanh", [x])])
    g.op("sigmoid_backward", [dy, g.op("sigmoid", [x])])
    g.op("dropout_backward", [dy, g.op("gt", [x, 0.5])], scale=1.25)
    for axes in ([0], [1], [-1]):
        g.op("softmax_backward", [dy, g.op("softmax", [x], axes=axes)], axes=axes)
        g.op("log_softmax_backward", [dy, g.op("log_softmax", [x], axes=axes)], axes=axes)
    g.op("softmax_backward", [dy, g.op("softmax", [x])])
    targets = g.tensor("targets", [4, 6], "i64")
    each, one = g.tensor("each", [4, 6]), g.tensor("one", [])
    classes = g.op("slice", [x], axes=[2], starts=[0], ends=[5])
    g.op("nll_loss_backward", [each, classes, targets], reduction="none")
    g.op("nll_loss_backward", [one, x, targets])
    g.op("nll_loss_backward", [one, x, targets], reduction="sum")
    g.op("nll_loss_backward", [-0.5, x, targets])
    return g


LISTS = {"gradients": backward_list}
