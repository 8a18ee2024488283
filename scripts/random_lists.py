"""Op lists drawn by seed, on which scripts/accuracy judges predictions.

draw(seed, count) yields (kind, op list): products plain and with epilogues, batched and skinny;
chains, forks, reductions, movements, attention, whole rows behind a product, and blocks of models,
from 1 MiB to 1 GiB a tensor. The same seed gives the same lists.
"""
import random

MOST_FLOPS = 3e12
BYTES = {"f32": 4, "bf16": 2, "f16": 2}
# How many of a hundred lists are of each kind.
SHARES = {"product": 16, "epilogue": 15, "batched": 5, "skinny": 7, "chain": 16, "fork": 8,
          "reduction": 14, "movement": 5, "attention": 5, "whole_rows": 4, "block": 5}


class Drawer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def size(self, low, high, multiple=1):
        """Log-uniform, a multiple of `multiple`."""
        value = low * (high / low) ** self.random.random()
        return max(multiple, round(value / multiple) * multiple)

    def any(self, *choices):
        return self.random.choice(choices)

    def matrix(self, dtype, low=1 << 20, high=1 << 30):
        """Rows and columns of a tensor of so many bytes."""
        elements = self.size(low, high) // BYTES[dtype]
        columns = self.any(512, 768, 1000, 1024, 2048, 4096, 5120, 8192, 11008, 16384)
        return max(1, elements // columns), columns


def graph(dtype, tensors, ops):
    return {"format": "fusecalc.ops/1", "dtype": dtype,
            "tensors": {name: value if isinstance(value, dict) else {"shape": value}
                        for name, value in tensors.items()},
            "ops": ops}


def op(kind, inputs, output, **attributes):
    return {"op": kind, "inputs": list(inputs), "output": output, **attributes}


def product_shape(d, low=256):
    while True:
        m, n, k = (d.size(low, 32768, d.any(8, 64, 128)) for _ in range(3))
        if 2 * m * n * k <= MOST_FLOPS and 2 * (m * n + n * k + m * k) <= 3 << 30:
            return m, n, k


def product(d):
    m, n, k = product_shape(d)
    dtype = d.any("bf16", "bf16", "f16")
    if d.random.random() < 0.6:
        return graph(dtype, {"x": [m, k], "w": [n, k]}, [op("linear", ["x", "w"], "y")])
    return graph(dtype, {"x": [m, k], "w": [k, n]}, [op("matmul", ["x", "w"], "y")])


def epilogue(d):
    m, n, k = product_shape(d)
    dtype = d.any("bf16", "bf16", "f16")
    tensors = {"x": [m, k], "w": [n, k], "b": [n]}
    ops = [op("linear", ["x", "w", "b"], "h")]
    last = "h"
    for i in range(d.any(1, 1, 2)):
        kind = d.any("relu", "gelu", "gelu", "silu", "add", "mul")
        new = f"h{i}"
        if kind in ("add", "mul"):
            tensors[f"r{i}"] = [m, n]
            ops.append(op(kind, [last, f"r{i}"], new))
        elif kind == "gelu":
            ops.append(op(kind, [last], new, approximate=d.any("none", "tanh")))
        else:
            ops.append(op(kind, [last], new))
        last = new
    return graph(dtype, tensors, ops)


def batched(d):
    while True:
        b, m, n, k = d.size(4, 256), d.size(64, 4096, 8), d.size(64, 4096, 8), d.size(64, 4096, 8)
        if 2 * b * m * n * k <= MOST_FLOPS and 2 * b * (m * n + n * k + m * k) <= 2 << 30:
            break
    ops = [op("matmul", ["x", "y"], "p")]
    if d.random.random() < 0.5:
        ops.append(op("mul", ["p", 0.125], "scaled"))
    return graph("bf16", {"x": [b, m, k], "y": [b, k, n]}, ops)


def skinny(d):
    m, n, k = d.any(1, 2, 4, 8, 16, 32, 64), d.size(1024, 32768, 64), d.size(1024, 16384, 64)
    ops = [op("linear", ["x", "w", "b"], "h")]
    if d.random.random() < 0.5:
        ops.append(op(d.any("relu", "gelu", "silu"), ["h"], "y"))
    return graph("bf16", {"x": [m, k], "w": [n, k], "b": [n]}, ops)


UNARY = ("relu", "exp", "tanh", "sigmoid", "silu", "gelu", "square", "neg", "sin", "abs", "sqrt")
BINARY = ("add", "mul", "sub", "maximum")


def chain(d):
    dtype = d.any("f32", "bf16", "bf16")
    shape = list(d.matrix(dtype))
    tensors, ops, last = {"x": shape}, [], "x"
    for i in range(d.random.randint(2, 6)):
        if d.random.random() < 0.3:
            tensors[f"a{i}"] = d.any(shape, shape, [shape[1]])
            ops.append(op(d.any(*BINARY), [last, f"a{i}"], f"t{i}"))
        else:
            ops.append(op(d.any(*UNARY), [last], f"t{i}"))
        last = f"t{i}"
    return graph(dtype, tensors, ops)


def fork(d):
    dtype = d.any("f32", "bf16")
    shape = list(d.matrix(dtype, high=1 << 29))
    ops = [op("relu", ["x"], "h")]
    ends = []
    for branch in range(d.random.randint(2, 4)):
        last = "h"
        for i in range(d.random.randint(1, 2)):
            new = f"b{branch}_{i}"
            ops.append(op(d.any(*UNARY), [last], new))
            last = new
        ends.append(last)
    if d.random.random() < 0.6:
        joined = ends[0]
        for i, end in enumerate(ends[1:]):
            ops.append(op(d.any(*BINARY), [joined, end], f"j{i}"))
            joined = f"j{i}"
    return graph(dtype, {"x": shape}, ops)


def reduction(d):
    dtype = d.any("f32", "bf16", "bf16")
    rows, columns = d.matrix(dtype)
    tensors, before = {"x": [rows, columns]}, "x"
    ops = []
    if d.random.random() < 0.4:
        tensors["r"] = [rows, columns]
        ops.append(op("add", ["x", "r"], "h"))
        before = "h"
    kind = d.any("softmax", "layer_norm", "rms_norm", "sum", "columns", "cross_entropy",
                 "softmax_primitives", "log_softmax")
    if kind in ("layer_norm", "rms_norm"):
        tensors["w"] = [columns]
        inputs = [before, "w"]
        if kind == "layer_norm":
            tensors["c"] = [columns]
            inputs.append("c")
        ops.append(op(kind, inputs, "y"))
    elif kind == "sum":
        ops.append(op(d.any("sum", "mean", "max"), [before], "y", axes=[-1]))
    elif kind == "columns":
        ops.append(op(d.any("sum", "mean"), [before], "y", axes=[0]))
    elif kind == "cross_entropy":
        tensors["t"] = {"shape": [rows], "dtype": "i64"}
        ops.append(op(kind, [before, "t"], "y"))
    elif kind == "softmax_primitives":
        ops += [op("max", [before], "m", axes=[-1], keepdim=True), op("sub", [before, "m"], "s"),
                op("exp", ["s"], "e"), op("sum", ["e"], "z", axes=[-1], keepdim=True),
                op("div", ["e", "z"], "y")]
    else:
        ops.append(op(kind, [before], "y"))
    if kind in ("layer_norm", "rms_norm", "softmax") and d.random.random() < 0.3:
        ops.append(op(d.any("gelu", "silu", "tanh"), ["y"], "z2"))
    return graph(dtype, tensors, ops)


def movement(d):
    dtype = d.any("f32", "bf16")
    rows, columns = d.matrix(dtype, high=1 << 29)
    kind = d.any("transpose", "concat", "slice", "embedding")
    if kind == "transpose":
        return graph(dtype, {"x": [rows, columns]},
                     [op("relu", ["x"], "h"), op("transpose", ["h"], "y", perm=[1, 0])])
    if kind == "concat":
        return graph(dtype, {"x": [rows, columns], "y": [rows, columns]},
                     [op("concat", ["x", "y"], "c", axis=1), op("tanh", ["c"], "z")])
    if kind == "slice":
        return graph(dtype, {"x": [rows, columns]},
                     [op("slice", ["x"], "s", axis=1, start=0, end=columns // 2),
                      op("exp", ["s"], "y")])
    return graph(dtype, {"table": [d.size(1024, 100000), columns],
                         "ids": {"shape": [rows], "dtype": "i64"}, "p": [rows, columns]},
                 [op("embedding", ["table", "ids"], "e"), op("add", ["e", "p"], "y")])


def attention(d):
    while True:
        b, h, length, p = d.size(1, 16), d.any(8, 16, 32), d.size(128, 8192, 64), d.any(64, 64, 128)
        if 4 * b * h * length * length * p <= MOST_FLOPS and b * h * length * length <= 1 << 29:
            break
    q, causal = [b, h, length, p], d.any(True, False)
    tensors = {"q": q, "k": q, "v": q}
    if d.random.random() < 0.6:
        return graph("bf16", tensors, [op("attention", ["q", "k", "v"], "o", causal=causal)])
    return graph("bf16", tensors, [
        {"op": "matmul", "inputs": ["q", "k"], "output": "s", "transpose_b": True},
        op("mul", ["s", 0.125], "t"), op("softmax", ["t"], "w"), op("matmul", ["w", "v"], "o")])


def whole_rows(d):
    m, n, k = d.size(128, 32768, 64), d.any(256, 384, 512, 768, 1024), d.size(256, 4096, 64)
    return graph("bf16", {"x": [m, k], "w": [n, k], "b": [n], "r": [m, n], "g": [n], "c": [n]},
                 [op("linear", ["x", "w", "b"], "h"), op("add", ["h", "r"], "s"),
                  op("layer_norm", ["s", "g", "c"], "y")])


def block(d):
    """Feed-forward, or attention with its projections, of a transformer."""
    width, tokens = d.any(512, 768, 1024, 2048, 4096), d.size(256, 16384, 128)
    inner = d.any(2, 4) * width
    if d.random.random() < 0.5:
        return graph("bf16", {"x": [tokens, width], "u": [inner, width], "v": [inner, width],
                              "w": [width, inner], "g": [width]},
                     [op("rms_norm", ["x", "g"], "n"), op("linear", ["n", "u"], "a"),
                      op("linear", ["n", "v"], "b"), op("silu", ["a"], "s"),
                      op("mul", ["s", "b"], "m"), op("linear", ["m", "w"], "o"),
                      op("add", ["o", "x"], "y")])
    return graph("bf16", {"x": [tokens, width], "u": [inner, width], "bu": [inner],
                          "w": [width, inner], "bw": [width], "g": [width], "c": [width]},
                 [op("linear", ["x", "u", "bu"], "a"), op("gelu", ["a"], "e"),
                  op("linear", ["e", "w", "bw"], "o"), op("add", ["o", "x"], "s"),
                  op("layer_norm", ["s", "g", "c"], "y")])


def draw(seed, count):
    d = Drawer(seed)
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    for i in range(count):
        kind = kinds[(i * 37) % len(kinds)]
        drawn = globals()[kind](d)
        drawn["name"] = f"{i:03}-{kind}"
        yield kind, drawn
