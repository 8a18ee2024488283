"""Kinds of gradients."""
from random_lists import op

from .base import Case, kind, listed, text, typed

torch = F = None  # load_torch() sets them


def backward_inputs(rows, columns):
    return {"dy": [rows, columns], "x": [rows, columns], "mean": typed("f32", rows, 1),
            "rstd": typed("f32", rows, 1), "w": [columns]}


def backward_run(columns):
    return lambda dy, x, mean, rstd, w: torch.ops.aten.native_layer_norm_backward(
        dy, x, [columns], mean, rstd, w, w, [True, True, True])


@kind("layer_norm backward")
def layer_norm_backward(d):
    columns = d.width()
    rows = d.rows_of(columns)
    return Case(text("bf16", rows, columns),
                listed("bf16", backward_inputs(rows, columns),
                       [{"op": "layer_norm_backward", "inputs": ["dy", "x", "mean", "rstd", "w"],
                         "outputs": ["dx", "dw", "db"]}], "dx", "dw", "db"),
                backward_run(columns))


@kind("layer_norm backward, primitives")
def layer_norm_backward_primitives(d):
    columns = d.width()
    rows = d.rows_of(columns)

    def mean_of(name, output):
        return op("mean", [name], output, axes=[-1], keepdim=True)

    return Case(text("bf16", rows, columns),
                listed("bf16", backward_inputs(rows, columns),
                       [op("sub", ["x", "mean"], "c"), op("mul", ["c", "rstd"], "n"),
                        op("mul", ["dy", "w"], "g"), op("cast", ["g"], "gw", to="f32"),
                        op("mul", ["gw", "n"], "gn"), mean_of("gw", "m1"), mean_of("gn", "m2"),
                        op("sub", ["gw", "m1"], "a"), op("mul", ["n", "m2"], "b"),
                        op("sub", ["a", "b"], "e"), op("mul", ["e", "rstd"], "f"),
                        op("cast", ["f"], "dx", to="bf16"), op("mul", ["dy", "n"], "dn"),
                        op("sum", ["dn"], "dw32", axes=[0]), op("cast", ["dw32"], "dw", to="bf16"),
                        op("sum", ["dy"], "db", axes=[0])], "dx", "dw", "db"),
                backward_run(columns))
