"""Kinds of matrix products with what follows or precedes them."""
from random_lists import op

from .base import EPS, Case, kind, listed, text, typed

torch = F = None  # load_torch() sets them
INT4_GROUP = 128


def product_text(m, n, k, dtype="bf16"):
    return f"{dtype} {m}x{k} to {n}"


def linear_case(d, activation, dtype="bf16", **attributes):
    m, n, k = d.product(high=2e12 if dtype == "bf16" else 2e11)
    tanh = attributes.get("approximate") == "tanh"
    apply = {"gelu": lambda x: F.gelu(x, **attributes), "silu": lambda x: F.silu(x),
             "relu": lambda x: F.relu(x)}[activation]
    libraries = {}
    if activation == "relu" or tanh:
        libraries["_addmm_activation"] = lambda x, w, b: lambda: torch._addmm_activation(
            b, x, w.t(), use_gelu=tanh)
    return Case(product_text(m, n, k, dtype),
                listed(dtype, {"x": [m, k], "w": [n, k], "b": [n]},
                       [op("linear", ["x", "w", "b"], "h"),
                        op(activation, ["h"], "y", **attributes)], "y"),
                lambda x, w, b: apply(F.linear(x, w, b)), libraries)


@kind("linear + gelu")
def linear_gelu(d):
    return linear_case(d, "gelu")


@kind("linear + gelu, f32")
def linear_gelu_f32(d):
    return linear_case(d, "gelu", dtype="f32")


@kind("linear + gelu, tanh")
def linear_gelu_tanh(d):
    return linear_case(d, "gelu", approximate="tanh")


@kind("linear + silu")
def linear_silu(d):
    return linear_case(d, "silu")


@kind("linear + relu")
def linear_relu(d):
    return linear_case(d, "relu")


@kind("linear + residual")
def linear_residual(d):
    m, n, k = d.product()
    return Case(product_text(m, n, k),
                listed("bf16", {"x": [m, k], "w": [n, k], "r": [m, n]},
                       [op("linear", ["x", "w"], "h"), op("add", ["h", "r"], "y")], "y"),
                lambda x, w, r: F.linear(x, w) + r,
                {"addmm": lambda x, w, r: lambda: torch.addmm(r, x, w.t())})


@kind("swiglu")
def swiglu(d):
    m, n, k = d.product(high=1e12)

    def one_product(x, gate, up):
        both = torch.cat((gate, up))

        def run():
            g, u = F.linear(x, both).chunk(2, -1)
            return F.silu(g) * u
        return run

    return Case(product_text(m, n, k),
                listed("bf16", {"x": [m, k], "g": [n, k], "u": [n, k]},
                       [op("linear", ["x", "g"], "a"), op("linear", ["x", "u"], "b"),
                        op("silu", ["a"], "s"), op("mul", ["s", "b"], "y")], "y"),
                lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u),
                {"one product": one_product})


def experts_case(rows, groups, n, k):
    """The first product of a mixture's experts, whose rows are sorted by expert."""
    def grouped(x, w, ends):
        return torch._grouped_mm(x, w.transpose(-2, -1), offs=ends)

    def run(x, w, ends):
        gate, up = grouped(x, w, ends).chunk(2, -1)
        return F.silu(gate) * up

    return Case(f"bf16 {rows}x{k} to {groups} of {2 * n}",
                listed("bf16", {"x": [rows, k], "w": [groups, 2 * n, k],
                                "ends": typed("i32", groups)},
                       [op("grouped_matmul", ["x", "w", "ends"], "h", transpose_b=True),
                        op("slice_view", ["h"], "gate", axes=[1], starts=[0], ends=[n]),
                        op("slice_view", ["h"], "up", axes=[1], starts=[n], ends=[2 * n]),
                        op("silu", ["gate"], "s"), op("mul", ["s", "up"], "y")], "y"),
                run, highs={"ends": rows})


@kind("experts: swiglu")
def experts(d):
    groups = d.any(8, 16, 32, 64, 128)
    k, n = d.any(1024, 2048, 2880, 4096, 7168), d.any(768, 1408, 2048, 2880, 6400)
    return experts_case(d.within(2048, 32768, 8), groups, n, k)


@kind("experts: swiglu of few tokens")
def experts_few(d):
    groups = d.any(8, 16, 32, 64, 128)
    k, n = d.any(1024, 2048, 2880, 4096), d.any(768, 1408, 2048, 2880, 6400)
    return experts_case(d.within(16, 512, 8), groups, n, k)


@kind("swiglu, one weight")
def swiglu_of_halves(d):
    m, n, k = d.product(high=1e12)

    def run(x, w):
        gate, up = F.linear(x, w).chunk(2, -1)
        return F.silu(gate) * up

    return Case(product_text(m, 2 * n, k),
                listed("bf16", {"x": [m, k], "w": [2 * n, k]},
                       [op("linear", ["x", "w"], "h"),
                        op("slice_view", ["h"], "a", axes=[1], starts=[0], ends=[n]),
                        op("slice_view", ["h"], "b", axes=[1], starts=[n], ends=[2 * n]),
                        op("silu", ["a"], "s"), op("mul", ["s", "b"], "y")], "y"), run)


@kind("keys and values")
def keys_and_values(d):
    m, n, k = d.product(high=1e12)

    def one_product(x, keys, values):
        both = torch.cat((keys, values))
        return lambda: F.linear(x, both).split(n, -1)

    return Case(product_text(m, n, k),
                listed("bf16", {"x": [m, k], "g": [n, k], "u": [n, k]},
                       [op("linear", ["x", "g"], "a"), op("linear", ["x", "u"], "b")], "a", "b"),
                lambda x, keys, values: (F.linear(x, keys), F.linear(x, values)),
                {"one product": one_product})


@kind("queries, keys and values")
def queries_keys_values(d):
    """Of grouped heads: a quarter as many keys and values."""
    m, n, k = d.product(d.size(1024, 8192, 512), high=1e12)

    def one_product(x, *weights):
        together = torch.cat(weights)
        return lambda: F.linear(x, together).split((n, n // 4, n // 4), -1)

    return Case(f"bf16 {m}x{k} to {n}, {n // 4} and {n // 4}",
                listed("bf16", {"x": [m, k], "q": [n, k], "k": [n // 4, k], "v": [n // 4, k]},
                       [op("linear", ["x", name], f"of_{name}") for name in "qkv"],
                       "of_q", "of_k", "of_v"),
                lambda x, *weights: tuple(F.linear(x, weight) for weight in weights),
                {"one product": one_product})


@kind("cast + linear")
def cast_linear(d):
    m, n, k = d.product(d.size(256, 4096, 64))
    return Case(f"f32 {m}x{k} to bf16 {n}",
                listed("bf16", {"x": typed("f32", m, k), "w": [n, k]},
                       [op("cast", ["x"], "c", to="bf16"), op("linear", ["c", "w"], "y")], "y"),
                lambda x, w: F.linear(x.bfloat16(), w))


@kind("silu * up + linear")
def gated_linear(d):
    m, n, k = d.product(d.size(256, 4096, 64))
    return Case(product_text(m, n, k),
                listed("bf16", {"g": [m, k], "u": [m, k], "w": [n, k]},
                       [op("silu", ["g"], "s"), op("mul", ["s", "u"], "h"),
                        op("linear", ["h", "w"], "y")], "y"),
                lambda g, u, w: F.linear(F.silu(g) * u, w))


@kind("linear + softmax")
def linear_softmax(d):
    m, n, k = d.product(d.any(256, 384, 512, 768, 1024), high=4e11)
    return Case(product_text(m, n, k),
                listed("bf16", {"x": [m, k], "w": [n, k]},
                       [op("linear", ["x", "w"], "h"), op("softmax", ["h"], "y")], "y"),
                lambda x, w: torch.softmax(F.linear(x, w), -1))


@kind("linear + add + layer_norm")
def linear_add_layer_norm(d):
    m, n, k = d.product(d.any(256, 384, 512, 768, 1024), high=4e11)
    return Case(product_text(m, n, k),
                listed("bf16", {"x": [m, k], "w": [n, k], "b": [n], "r": [m, n], "g": [n], "c": [n]},
                       [op("linear", ["x", "w", "b"], "h"), op("add", ["h", "r"], "s"),
                        op("layer_norm", ["s", "g", "c"], "y")], "y"),
                lambda x, w, b, r, g, c: F.layer_norm(F.linear(x, w, b) + r, (n,), g, c, EPS))


@kind("skinny linear")
def skinny_linear(d):
    m, n, k = d.random.randint(1, 32), d.within(1024, 28672, 64), d.size(1024, 16384, 64)
    libraries = {"addmm": lambda x, w, b: lambda: torch.addmm(b, x, w.t())}
    if m == 1:
        libraries["addmv"] = lambda x, w, b: lambda: torch.addmv(b, w, x[0])[None]
    return Case(product_text(m, n, k),
                listed("bf16", {"x": [m, k], "w": [n, k], "b": [n]},
                       [op("linear", ["x", "w", "b"], "y")], "y"),
                lambda x, w, b: F.linear(x, w, b), libraries)


def int4_linear(d, m):
    n, k = d.within(2048, 28672, 128), d.size(2048, 8192, 1024)
    groups = k // INT4_GROUP

    def run(x, packed, zero, scale):
        q = torch.stack((packed >> 4, packed & 15), -1).view(n, groups, INT4_GROUP)
        return F.linear(x, ((q.to(x.dtype) - zero) * scale).view(n, k))

    def library(x, packed, zero, scale):
        weight = torch._convert_weight_to_int4pack(packed, 8)
        # Its weights are (q - 8) * scale + zero.
        shifted = (8 - zero) * scale
        both = torch.cat((scale, shifted), -1).transpose(0, 1).contiguous()
        return lambda: torch._weight_int4pack_mm(x, weight, INT4_GROUP, both)

    return Case(f"{product_text(m, n, k)}, groups of {INT4_GROUP}",
                listed("bf16", {"x": [m, k], "q": typed("u4", n, k), "zero": [n, groups, 1],
                                "scale": [n, groups, 1]},
                       [op("view", ["q"], "p", shape=[n, groups, INT4_GROUP]),
                        op("sub", ["p", "zero"], "c"), op("mul", ["c", "scale"], "v"),
                        op("view", ["v"], "w", shape=[n, k]), op("linear", ["x", "w"], "y")], "y"),
                run, {"_weight_int4pack_mm": library})


@kind("int4 linear, 1 row")
def int4_one_row(d):
    return int4_linear(d, 1)


@kind("int4 linear, 16 rows")
def int4_rows(d):
    return int4_linear(d, 16)


def scaled_by_ops(x, w, row, column):
    return (F.linear(x.bfloat16(), w.bfloat16()) * row * column).bfloat16()


def scaled_by_library(x, w, row, column):
    return lambda: torch._scaled_mm(x, w.t(), scale_a=row, scale_b=column.view(1, -1),
                                    out_dtype=torch.bfloat16, use_fast_accum=True)


@kind("fp8 product, scaled")
def fp8_scaled(d):
    """With a scale for each row of both operands, as one op."""
    m, n, k = d.product(low=8e9, high=3e12)

    return Case(product_text(m, n, k).replace("bf16", "fp8_e4m3"),
                listed("bf16", {"x": typed("fp8_e4m3", m, k), "w": typed("fp8_e4m3", n, k),
                                "row": typed("f32", m, 1), "column": typed("f32", 1, n)},
                       [op("scaled_matmul", ["x", "w", "row", "column"], "y", transpose_b=True)],
                       "y"),
                scaled_by_ops, {"_scaled_mm": scaled_by_library})


@kind("fp8 product, scaled in blocks, silu")
def fp8_blocks(d):
    """With a scale for each 128 of a row and each 128 x 128 of the weights."""
    m, n, k = d.product(low=8e9, high=3e12)
    m, n = (128 * max(1, size // 128) for size in (m, n))
    k = 512 * max(1, k // 512)  # the library takes four of a row's scales at a time
    rows, columns = k // 128, n // 128

    def run(x, w, of_x, of_w):
        wide = x.float().view(m, rows, -1) * of_x[:, :, None]
        weights = (w.float().view(columns, -1, rows, k // rows) *
                   of_w.t()[:, None, :, None]).view(n, k)
        return F.silu(F.linear(wide.view(m, k), weights).bfloat16())

    def library(x, w, of_x, of_w):
        # Its scales of rows lie with the rows next to each other.
        of_rows = of_x.t().contiguous().t()
        of_blocks = of_w.t().contiguous().t()

        def product():
            return F.silu(torch._scaled_mm(x, w.t(), scale_a=of_rows, scale_b=of_blocks,
                                           out_dtype=torch.bfloat16))
        return product

    return Case(product_text(m, n, k).replace("bf16", "fp8_e4m3"),
                listed("bf16", {"x": typed("fp8_e4m3", m, k), "w": typed("fp8_e4m3", n, k),
                                "of_x": typed("f32", m, rows), "of_w": typed("f32", rows, columns)},
                       [op("scaled_matmul", ["x", "w", "of_x", "of_w"], "h", transpose_b=True),
                        op("silu", ["h"], "y")], "y"),
                run, {"_scaled_mm": library})


@kind("fp8 linear")
def fp8_linear(d):
    """With a scale for each row of both operands."""
    m, n, k = d.product(low=8e9, high=3e12)

    return Case(product_text(m, n, k).replace("bf16", "fp8_e4m3"),
                listed("bf16", {"x": typed("fp8_e4m3", m, k), "w": typed("fp8_e4m3", n, k),
                                "row": typed("f32", m, 1), "column": typed("f32", n)},
                       [op("linear", ["x", "w"], "h"), op("mul", ["h", "row"], "r"),
                        op("mul", ["r", "column"], "s"), op("cast", ["s"], "y", to="bf16")], "y"),
                scaled_by_ops, {"_scaled_mm": scaled_by_library})
