"""Kinds that move elements."""
from random_lists import op

from .base import EPS, Case, kind, listed, text, typed

torch = F = None  # load_torch() sets them


@kind("embedding + layer_norm")
def embedding_layer_norm(d):
    width, length = d.any(512, 768, 1024, 2048), d.any(128, 512, 1024)
    words = d.any(30522, 50257)
    b = max(1, d.rows_of(width) // length)
    return Case(f"{text('bf16', b, length, width)} of {words}",
                listed("bf16", {"t": typed("i64", b, length), "e": [words, width],
                                "p": [length, width], "w": [width], "b": [width]},
                       [op("embedding", ["e", "t"], "h"), op("add", ["h", "p"], "s"),
                        op("layer_norm", ["s", "w", "b"], "y")], "y"),
                lambda t, e, p, w, b: F.layer_norm(F.embedding(t, e) + p, (width,), w, b, EPS),
                highs={"t": words})


@kind("rotary")
def rotary(d):
    heads, head, length = d.any(8, 16, 32), d.any(64, 128), d.any(512, 2048, 4096)
    b = max(1, d.rows_of(heads * head) // length)
    half = head // 2

    def run(x, cos, sin):
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * cos + turned * sin

    return Case(text("bf16", b, length, heads, head),
                listed("bf16", {"x": [b, length, heads, head], "cos": [length, 1, head],
                                "sin": [length, 1, head]},
                       [op("slice", ["x"], "x1", axes=[-1], starts=[0], ends=[half]),
                        op("slice", ["x"], "x2", axes=[-1], starts=[half], ends=[head]),
                        op("neg", ["x2"], "n"), op("concat", ["n", "x1"], "t", axes=[-1]),
                        op("mul", ["x", "cos"], "c"), op("mul", ["t", "sin"], "s"),
                        op("add", ["c", "s"], "y")], "y"), run)


@kind("transpose")
def transpose(d):
    dtype = d.any("f32", "bf16")
    if d.random.random() < 0.5:
        columns = d.size(500, 16384)
        shape, perm = [d.rows_of(columns, dtype), columns], [1, 0]
    else:
        heads, head, length = d.any(8, 16, 32), d.any(64, 128), d.any(512, 1024, 2048)
        shape = [max(1, d.rows_of(heads * head, dtype) // length), length, heads, head]
        perm = d.any([0, 2, 1, 3], [0, 2, 3, 1])
    return Case(f"{text(dtype, *shape)} to {''.join(map(str, perm))}",
                listed(dtype, {"x": shape}, [op("transpose", ["x"], "y", perm=perm)], "y"),
                lambda x: x.permute(perm).contiguous())
