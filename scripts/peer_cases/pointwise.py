"""Kinds of pointwise operations."""
from random_lists import op

from .base import Case, kind, listed, text

torch = F = None  # load_torch() sets them

UNARY = {"relu": lambda x: F.relu(x), "tanh": lambda x: torch.tanh(x),
         "sigmoid": lambda x: torch.sigmoid(x), "silu": lambda x: F.silu(x),
         "gelu": lambda x: F.gelu(x), "square": lambda x: torch.square(x),
         "abs": lambda x: torch.abs(x), "sin": lambda x: torch.sin(x)}
BINARY = {"add": lambda x, y: x + y, "mul": lambda x, y: x * y, "sub": lambda x, y: x - y,
          "maximum": lambda x, y: torch.maximum(x, y)}


@kind("pointwise chain")
def pointwise_chain(d):
    dtype, columns = d.any("f32", "bf16"), d.width()
    rows = d.rows_of(columns, dtype)
    tensors, ops, steps, last = {"x": [rows, columns]}, [], [], "x"
    for i in range(d.random.randint(3, 6)):
        if d.random.random() < 0.3:
            name = d.any(*BINARY)
            tensors[f"a{i}"] = d.any([rows, columns], [columns])
            ops.append(op(name, [last, f"a{i}"], f"t{i}"))
            steps.append((BINARY[name], True))
        else:
            name = d.any(*UNARY)
            ops.append(op(name, [last], f"t{i}"))
            steps.append((UNARY[name], False))
        last = f"t{i}"

    def run(x, *others):
        others = list(others)
        for function, binary in steps:
            x = function(x, others.pop(0)) if binary else function(x)
        return x

    names = ", ".join(entry["op"] for entry in ops)
    return Case(f"{text(dtype, rows, columns)} {names}", listed(dtype, tensors, ops, last), run)


@kind("add + gelu")
def add_gelu(d):
    columns = d.width()
    rows = d.rows_of(columns)
    return Case(text("bf16", rows, columns),
                listed("bf16", {"x": [rows, columns], "b": [columns]},
                       [op("add", ["x", "b"], "s"),
                        op("gelu", ["s"], "y", approximate="tanh")], "y"),
                lambda x, b: F.gelu(x + b, approximate="tanh"))


@kind("silu * mul")
def silu_mul(d):
    columns = d.width()
    rows = d.rows_of(columns)
    return Case(text("bf16", rows, columns),
                listed("bf16", {"g": [rows, columns], "u": [rows, columns]},
                       [op("silu", ["g"], "s"), op("mul", ["s", "u"], "y")], "y"),
                lambda g, u: F.silu(g) * u)
