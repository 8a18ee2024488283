"""Kinds of attention."""
from random_lists import op

from .base import Case, kind, listed, text, typed

torch = F = None  # load_torch() sets them


BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION",
            "efficient": "EFFICIENT_ATTENTION"}


def backends(*names, **how):
    """The libraries behind scaled_dot_product_attention, each by itself."""
    def library(name):
        def prepare(*operands):
            from torch.nn.attention import SDPBackend, sdpa_kernel

            def run():
                with sdpa_kernel(getattr(SDPBackend, BACKENDS[name])):
                    return F.scaled_dot_product_attention(*operands, **how)
            return run
        return prepare
    return {name: library(name) for name in names}


def attention_shape(d, most_batches=16):
    """Batches, heads, length and head size."""
    heads, head, length = d.any(8, 12, 16, 32), d.any(64, 64, 128), d.within(512, 8192, 64)
    most = max(1, int(1e12 / (4 * heads * length * length * head)))
    return d.size(1, min(most_batches, most)), heads, length, head


def attention_case(b, h, g, length, p, dtype="bf16", libraries=("flash", "cudnn"), **how):
    return Case(text(dtype, b, f"{h}/{g}" if g != h else h, length, p),
                listed(dtype, {"q": [b, h, length, p], "k": [b, g, length, p],
                               "v": [b, g, length, p]},
                       [op("attention", ["q", "k", "v"], "y",
                           causal=how.get("is_causal", False))], "y"),
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **how),
                backends(*libraries, **how))


@kind("attention, causal")
def attention_causal(d):
    b, h, length, p = attention_shape(d)
    return attention_case(b, h, h, length, p, is_causal=True)


@kind("attention, f32")
def attention_f32(d):
    h, p, length = d.any(8, 12, 16), d.any(64, 64, 128), d.within(128, 4096, 8)
    b = d.size(1, max(1, min(16, int(2e11 / (4 * h * length * length * p)))))
    return attention_case(b, h, h, length, p, dtype="f32", libraries=("efficient",),
                          is_causal=d.any(False, True))


@kind("attention, grouped heads")
def attention_grouped(d):
    b, h, length, p = attention_shape(d)
    return attention_case(b, h, h // d.any(2, 4), length, p, is_causal=True, enable_gqa=True)


@kind("attention, one query")
def attention_one_query(d):
    h, p, length = d.any(16, 32, 64), d.any(64, 128), d.size(2048, 65536, 64)
    g = h // d.any(2, 4, 8)
    b = max(1, d.within(16 << 20, 1 << 30) // (4 * g * length * p))

    def grouped(q, k, v):
        """Heads that share keys, as rows of one head."""
        rows = q.view(b, g, h // g, p)
        return lambda: F.scaled_dot_product_attention(rows, k, v).view(b, h, 1, p)

    how = {"enable_gqa": True}
    return Case(f"{text('bf16', b, f'{h}/{g}', length, p)}",
                listed("bf16", {"q": [b, h, 1, p], "k": [b, g, length, p], "v": [b, g, length, p]},
                       [op("attention", ["q", "k", "v"], "y")], "y"),
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **how),
                backends("flash", "cudnn", **how) | {"grouped": grouped})


@kind("attention in pages, one query")
def attention_in_pages(d):
    """Keys and values in pages of 16 rows, which a table names, twice as many as one sequence has."""
    h, p, g = d.any(16, 32), 128, d.any(2, 4, 8)
    b = d.size(1, 32)
    count = max(8, d.within(16 << 20, 512 << 20) // (4 * b * g * p * 16))  # of a sequence
    pages = 2 * b * count

    def run(q, keys, values, table):
        k, v = (cache[table].view(b, count * 16, g, p).transpose(1, 2) for cache in (keys, values))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    ops = []
    for name, of in (("k", "keys"), ("v", "values")):
        ops += [op("gather", [of, "table"], f"{name}_pages"),
                op("view", [f"{name}_pages"], f"{name}_rows", shape=[b, count * 16, g, p]),
                op("permute_view", [f"{name}_rows"], name, perm=[0, 2, 1, 3])]
    return Case(f"{text('bf16', b, f'{h}/{g}', count * 16, p)}",
                listed("bf16", {"q": [b, h, 1, p], "keys": [pages, 16, g, p],
                                "values": [pages, 16, g, p], "table": typed("i64", b, count)},
                       ops + [op("attention", ["q", "k", "v"], "y")], "y"),
                run, highs={"table": pages})


@kind("attention, masked")
def attention_masked(d):
    b, h, length, p = attention_shape(d, most_batches=4)
    return Case(text("bf16", b, h, length, p),
                listed("bf16", {"q": [b, h, length, p], "k": [b, h, length, p],
                                "v": [b, h, length, p], "mask": [b, 1, length, length]},
                       [op("attention", ["q", "k", "v", "mask"], "y")], "y"),
                lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
                backends("efficient", "cudnn"))
