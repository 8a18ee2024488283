"""Kinds with reductions over rows and over planes of channels."""
from random_lists import op

from .base import EPS, Case, kind, listed, text, typed

torch = F = None  # load_torch() sets them
FP8_MOST = 448.0


@kind("softmax")
def softmax(d):
    dtype, columns = d.any("f32", "bf16"), d.width()
    rows = d.rows_of(columns, dtype)
    return Case(text(dtype, rows, columns),
                listed(dtype, {"x": [rows, columns]}, [op("softmax", ["x"], "y")], "y"),
                lambda x: torch.softmax(x, -1))


@kind("softmax, primitives")
def softmax_primitives(d):
    columns = d.width()
    rows = d.rows_of(columns, "f32")

    def run(x):
        shifted = torch.exp(x - x.amax(-1, keepdim=True))
        return shifted / shifted.sum(-1, keepdim=True)

    return Case(text("f32", rows, columns),
                listed("f32", {"x": [rows, columns]},
                       [op("max", ["x"], "m", axes=[-1], keepdim=True), op("sub", ["x", "m"], "s"),
                        op("exp", ["s"], "e"), op("sum", ["e"], "z", axes=[-1], keepdim=True),
                        op("div", ["e", "z"], "y")], "y"), run)


def norm_case(dtype, rows, columns):
    return Case(text(dtype, rows, columns),
                listed(dtype, {"x": [rows, columns], "w": [columns], "b": [columns]},
                       [op("layer_norm", ["x", "w", "b"], "y")], "y"),
                lambda x, w, b: F.layer_norm(x, (columns,), w, b, EPS))


@kind("layer_norm")
def layer_norm(d):
    dtype, columns = d.any("f32", "bf16", "bf16"), d.width()
    return norm_case(dtype, d.rows_of(columns, dtype), columns)


@kind("rms_norm")
def rms_norm(d):
    columns = d.width()
    rows = d.rows_of(columns)

    def primitives(x, w):
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)
        return (wide * scale).to(x.dtype) * w

    return Case(text("bf16", rows, columns),
                listed("bf16", {"x": [rows, columns], "w": [columns]},
                       [op("rms_norm", ["x", "w"], "y")], "y"),
                primitives,
                {"F.rms_norm": lambda x, w: lambda: F.rms_norm(x, (columns,), w, EPS)})


@kind("add + layer_norm")
def add_layer_norm(d):
    columns = d.width()
    rows = d.rows_of(columns)

    def run(x, r, w, b):
        total = x + r
        return total, F.layer_norm(total, (columns,), w, b, EPS)

    return Case(text("bf16", rows, columns),
                listed("bf16", {"x": [rows, columns], "r": [rows, columns], "w": [columns],
                                "b": [columns]},
                       [op("add", ["x", "r"], "h"), op("layer_norm", ["h", "w", "b"], "y")],
                       "h", "y"), run)


@kind("odd rows")
def odd_rows(d):
    dtype, columns = d.any("f32", "bf16"), d.size(257, 50000) | 1
    rows = d.rows_of(columns, dtype)
    if d.random.random() < 0.5:
        case = norm_case(dtype, rows, columns)
        return case._replace(shape=f"layer_norm {case.shape}")
    return Case(f"softmax {text(dtype, rows, columns)}",
                listed(dtype, {"x": [rows, columns]}, [op("softmax", ["x"], "y")], "y"),
                lambda x: torch.softmax(x, -1))


@kind("cross_entropy")
def cross_entropy(d):
    classes = d.any(10000, 30522, 32000, 50257, 128256)
    rows = d.rows_of(classes, low=16 << 20)
    return Case(text("bf16", rows, classes),
                listed("bf16", {"x": [rows, classes], "t": typed("i64", rows)},
                       [op("cross_entropy", ["x", "t"], "y", reduction="mean")], "y"),
                lambda x, t: F.cross_entropy(x, t), highs={"t": classes})


@kind("fp8 rows")
def fp8_rows(d):
    """Each row's largest magnitude, its scale, and the row in fp8."""
    columns = d.width()
    rows = d.rows_of(columns)

    def run(x):
        scale = x.abs().amax(-1, keepdim=True).float() * (1 / FP8_MOST)
        scaled = (x / scale).clamp(-FP8_MOST, FP8_MOST)
        return scaled.to(torch.float8_e4m3fn), scale

    return Case(text("bf16", rows, columns),
                listed("bf16", {"x": [rows, columns]},
                       [op("amax_abs", ["x"], "a", axes=[-1], keepdim=True),
                        op("cast", ["a"], "c", to="f32"), op("mul", ["c", 1 / FP8_MOST], "s"),
                        op("div", ["x", "s"], "q"),
                        op("clamp", ["q"], "k", min=-FP8_MOST, max=FP8_MOST),
                        op("cast", ["k"], "y", to="fp8_e4m3")], "y", "s"), run)


def image(d, dtype):
    channels, side = d.any(64, 128, 256, 320, 512), d.any(14, 28, 32, 56, 64)
    samples = d.rows_of(channels * side * side, dtype)
    return samples, channels, side


@kind("batch_norm")
def batch_norm(d):
    """In training: the statistics are those of the batch."""
    dtype = d.any("f32", "bf16")
    n, c, side = image(d, dtype)
    return Case(text(dtype, n, c, side, side),
                listed(dtype, {"x": [n, c, side, side], "w": typed("f32", c), "b": typed("f32", c)},
                       [op("batch_norm", ["x", "w", "b"], "y", mode="training")], "y"),
                lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, EPS))


@kind("group_norm")
def group_norm(d):
    n, c, side = image(d, "bf16")
    groups = d.any(8, 16, 32)
    return Case(f"{text('bf16', n, c, side, side)}, {groups} groups",
                listed("bf16", {"x": [n, c, side, side], "w": [c], "b": [c]},
                       [op("group_norm", ["x", "w", "b"], "y", groups=groups)], "y"),
                lambda x, w, b: F.group_norm(x, groups, w, b, EPS))


def first_of(rows, columns, k):
    return Case(f"{text('f32', rows, columns)}, k = {k}",
                listed("f32", {"x": [rows, columns]},
                       [{"op": "topk", "inputs": ["x"], "outputs": ["v", "i"], "k": k}], "v", "i"),
                lambda x: tuple(torch.topk(x, k, -1)))


@kind("topk of experts")
def topk_of_experts(d):
    experts, k = d.any((64, 6), (128, 8), (256, 8))
    return first_of(d.within(1024, 32768), experts, k)


@kind("topk of logits")
def topk_of_logits(d):
    vocabulary, k = d.any(32000, 50257, 128256, 151936), d.any(20, 50, 64)
    return first_of(d.within(1, 64), vocabulary, k)


@kind("sort of rows")
def sort_of_rows(d):
    columns = d.any(512, 1000, 2048, 4096, 8192)
    rows = d.rows_of(columns, "f32", 4 << 20, 128 << 20)
    return Case(text("f32", rows, columns),
                listed("f32", {"x": [rows, columns]},
                       [{"op": "sort", "inputs": ["x"], "outputs": ["v", "i"]}], "v", "i"),
                lambda x: tuple(torch.sort(x, -1)))
