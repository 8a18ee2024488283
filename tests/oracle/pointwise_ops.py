"""NumPy's version of pointwise ops, and op lists that use them: for reference_oracle.py."""

import math

import numpy as np

from numpy_base import INTEGERS, MASK, Lists, dropout_draw, plain


def clamp(op, x, *bounds):
    low = bounds[0] if bounds else op.get("min", -np.inf)
    high = bounds[1] if len(bounds) > 1 else op.get("max", np.inf)
    return np.minimum(np.maximum(x, low), high)


def gelu(op, x):
    if op.get("approximate") == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def softplus(op, x):
    beta = op.get("beta", 1.0)
    return np.where(x * beta > op.get("threshold", 20.0), x, np.log1p(np.exp(x * beta)) / beta)


def nan_to_num(op, x):
    ends = {"f64": np.finfo(np.float64).max, "f32": np.finfo(np.float32).max, "f16": 65504.0,
            "bf16": 255 * 2.0**120}
    end = ends.get(op["result_dtype"], np.inf)
    return np.nan_to_num(x, nan=op.get("value", 0.0), neginf=op.get("min", -end),
                         posinf=op.get("max", end))


def xlogy(a, b):
    with np.errstate(all="ignore"):
        return np.where(np.isnan(b), np.nan, np.where(a == 0, 0, a * np.log(b)))


def huber(op, a, b):
    d, delta = np.abs(a - b), op.get("delta", 1.0)
    return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))


def smooth_l1(op, a, b):
    d, beta = np.abs(a - b), op.get("beta", 1.0)
    return np.where(d < beta, d**2 / (2 * beta) if beta else d, d - beta / 2)


def binary_cross_entropy(p, t):
    with np.errstate(all="ignore"):
        return (t - 1) * np.maximum(np.log1p(-p), -100) - t * np.maximum(np.log(p), -100)


def wrapped(function):
    """Of integers, in the width of the result's type."""
    def apply(op, *inputs):
        result = function(*(np.asarray(x).astype(np.int64) for x in inputs))
        dtype = op["result_dtype"]
        if dtype == "bool":
            return result & 1
        low, high = INTEGERS[dtype]
        return result if dtype == "i64" else (result - low) % (high - low + 1) + low
    return apply


def shift_left(a, b):
    return np.where((b < 0) | (b > 63), 0, a << np.clip(b, 0, 63))


def shift_right(a, b):
    return a >> np.where((b < 0) | (b > 63), 63, b)


def dividing(function):
    """Of integers a division by 0 gives 0, as NumPy's does."""
    def apply(op, *inputs):
        if op["result_dtype"] in INTEGERS:
            inputs = (np.asarray(x).astype(np.int64) for x in inputs)
        return function(*inputs)
    return apply


def dropout(op, x):
    seed = (op.get("seed", 0) + (op["position"] + 1) * 0xd1342543de82ef95) & MASK
    p = op.get("p", 0.5)
    keep = np.array([dropout_draw(seed, i) * 2.0**-24 >= p for i in range(x.size)])
    keep = keep.reshape(x.shape)
    return np.where(keep, x / (1 - p), 0), keep


OPS = {
    "add": plain(np.add), "sub": plain(np.subtract), "mul": plain(np.multiply),
    "div": plain(np.divide), "maximum": plain(np.maximum), "minimum": plain(np.minimum),
    "pow": plain(np.power), "neg": plain(np.negative), "abs": plain(np.abs), "exp": plain(np.exp),
    "log": plain(np.log), "log1p": plain(np.log1p), "sqrt": plain(np.sqrt),
    "rsqrt": plain(lambda x: 1 / np.sqrt(x)), "reciprocal": plain(lambda x: 1 / x),
    "sin": plain(np.sin), "cos": plain(np.cos), "tanh": plain(np.tanh),
    "sigmoid": plain(lambda x: 1 / (1 + np.exp(-x))), "relu": plain(lambda x: np.maximum(x, 0)),
    "gelu": gelu, "silu": plain(lambda x: x / (1 + np.exp(-x))), "square": plain(np.square),
    "clamp": clamp, "cast": plain(lambda x: x),
    "where": plain(lambda c, a, b: np.where(c != 0, a, b)), "fma": plain(lambda a, b, c: a * b + c),
    "lerp": plain(lambda a, b, w: a + w * (b - a)), "addcmul": plain(lambda a, b, c, s: a + s * b * c),
    "addcdiv": plain(lambda a, b, c, s: a + s * b / c),
    "lt": plain(np.less), "le": plain(np.less_equal), "gt": plain(np.greater),
    "ge": plain(np.greater_equal), "eq": plain(np.equal), "ne": plain(np.not_equal),
    "isnan": plain(np.isnan), "isinf": plain(np.isinf), "logical_and": plain(np.logical_and),
    "logical_or": plain(np.logical_or), "logical_xor": plain(np.logical_xor),
    "logical_not": plain(np.logical_not), "bitwise_and": wrapped(np.bitwise_and),
    "bitwise_or": wrapped(np.bitwise_or), "bitwise_xor": wrapped(np.bitwise_xor),
    "bitwise_not": wrapped(np.bitwise_not), "bitwise_left_shift": wrapped(shift_left),
    "bitwise_right_shift": wrapped(shift_right),
    "erf": plain(np.vectorize(math.erf, otypes=[float])), "tan": plain(np.tan),
    "asin": plain(np.arcsin), "acos": plain(np.arccos), "atan": plain(np.arctan),
    "atan2": plain(np.arctan2), "sinh": plain(np.sinh), "cosh": plain(np.cosh),
    "asinh": plain(np.arcsinh), "acosh": plain(np.arccosh), "atanh": plain(np.arctanh),
    "copysign": plain(np.copysign), "hypot": plain(np.hypot), "log10": plain(np.log10),
    "erfc": plain(np.vectorize(math.erfc, otypes=[float])), "logaddexp": plain(np.logaddexp),
    "xlogy": plain(xlogy), "logit": plain(lambda x: np.log(x / (1 - x))),
    "frac": plain(lambda x: x - np.trunc(x)), "gate": plain(lambda a, b: a / (1 + np.exp(-b))),
    "nan_to_num": nan_to_num, "squared_difference": plain(lambda a, b: (a - b)**2),
    "huber": huber, "smooth_l1": smooth_l1, "binary_cross_entropy": plain(binary_cross_entropy),
    "exp2": plain(np.exp2), "expm1": plain(np.expm1), "log2": plain(np.log2),
    "floor": plain(np.floor), "ceil": plain(np.ceil), "round": plain(np.round),
    "trunc": plain(np.trunc), "sign": plain(lambda x: np.nan_to_num(np.sign(x))),
    "fmod": dividing(np.fmod), "remainder": dividing(np.remainder),
    "floor_divide": dividing(np.floor_divide), "softplus": softplus,
    "mish": lambda op, x: x * np.tanh(softplus({}, x)),
    "leaky_relu": lambda op, x: np.where(x < 0, x * op.get("negative_slope", 0.01), x),
    "prelu": plain(lambda x, slope: np.where(x < 0, x * slope, x)),
    "elu": lambda op, x: np.where(x > 0, x, op.get("alpha", 1.0) * np.expm1(x)),
    "selu": plain(lambda x: 1.0507009873554805 * np.where(
        x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "hardsigmoid": plain(lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": plain(lambda x: x * np.clip(x + 3, 0, 6) / 6), "dropout": dropout,
}


def pointwise_list(dtype):
    g = Lists(dtype)
    a, b, c = g.tensor("a", [3, 4, 5]), g.tensor("b", [4, 1]), g.tensor("c", [5])
    d = g.tensor("d", [3, 1, 5])
    for kind in ("add", "sub", "mul", "maximum", "minimum", "lt", "le", "gt", "ge", "eq", "ne",
                 "fmod", "remainder", "floor_divide", "atan2", "copysign", "hypot", "logaddexp",
                 "gate", "squared_difference", "huber", "smooth_l1"):
        g.op(kind, [a, b])
        g.op(kind, [d, b])
    positive = g.op("add", [g.op("abs", [a]), 0.125])
    g.op("div", [b, positive])
    g.op("pow", [positive, c])
    wide = g.op("mul", [a, 6])
    for kind in ("floor", "ceil", "round", "trunc", "sign", "softplus", "mish", "leaky_relu",
                 "elu", "selu", "hardsigmoid", "hardswish", "exp2", "expm1", "erf", "tan", "sinh",
                 "cosh", "asinh", "atan", "isnan", "erfc", "frac", "nan_to_num"):
        g.op(kind, [wide])
    g.op("round", [g.op("add", [g.op("floor", [wide]), 0.5])])
    g.op("softplus", [wide], beta=2.0, threshold=3.0)
    g.op("elu", [wide], alpha=0.25)
    g.op("leaky_relu", [wide], negative_slope=0.5)
    g.op("prelu", [wide, b])
    g.op("prelu", [wide, 0.25])
    for kind in ("asin", "acos", "atanh"):
        g.op(kind, [a])
    g.op("acosh", [g.op("add", [positive, 1])])
    small = g.op("trunc", [wide])
    for kind in ("logical_and", "logical_or", "logical_xor"):
        g.op(kind, [small, c])
        g.op(kind, [small, 0])
    g.op("logical_not", [small])
    g.op("log2", [positive])
    g.op("log10", [positive])
    g.op("xlogy", [small, positive])
    g.op("huber", [wide, b], delta=0.5)
    g.op("smooth_l1", [wide, b], beta=0.5)
    g.op("smooth_l1", [wide, b], beta=0)
    share = g.op("sigmoid", [a])
    g.op("logit", [share])
    g.op("binary_cross_entropy", [share, g.op("sigmoid", [c])])
    g.op("binary_cross_entropy", [share, 1])
    for kind in ("log", "log1p", "sqrt", "rsqrt", "reciprocal"):
        g.op(kind, [positive])
    for kind in ("neg", "abs", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "gelu", "silu",
                 "square", "copy"):
        g.op(kind, [a])
    g.op("gelu", [a], approximate="tanh")
    g.op("clamp", [a], min=-0.5, max=0.25)
    g.op("clamp", [a, b])
    g.op("clamp", [a, b, 0.75])
    g.op("fma", [a, b, c])
    g.op("fma", [a, 2, c])
    g.op("lerp", [a, b, c])
    g.op("addcmul", [a, b, c, 0.5])
    g.op("addcdiv", [a, b, 4, c])
    mask = g.op("gt", [a, 0])
    g.op("where", [mask, b, c])
    g.op("where", [mask, a, -1])
    g.op("cast", [g.op("mul", [a, 10])], to="i32")
    g.op("cast", [g.op("mul", [a, 300])], to="i8")
    g.op("cast", [a], to="bool")
    g.op("dropout", [a], p=0.3, seed=5)
    g.op("dropout", [a], 2, p=0.7, save_mask=True)
    return g


def integer_list(dtype):
    g = Lists(dtype)
    for kind in ("i64", "i32", "i16", "i8", "u8", "bool"):
        x, y = g.tensor(f"x_{kind}", [5, 7], kind), g.tensor(f"y_{kind}", [7], kind)
        for op in ("and", "or", "xor"):
            g.op(f"bitwise_{op}", [x, y])
        g.op("bitwise_not", [x])
        if kind == "bool":
            continue
        g.op("bitwise_and", [x, 6])
        for n in (y, 0, 3, 7, 15, 40):
            g.op("bitwise_left_shift", [x, n])
            g.op("bitwise_right_shift", [x, n])
        # The inputs hold zeros: a division by one gives 0.
        for op in ("fmod", "remainder", "floor_divide"):
            g.op(op, [x, y])
            g.op(op, [x, -3 if kind != "u8" else 3])
        for op in ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "logical_not",
                   "frac", "nan_to_num"):
            g.op(op, [x])
        g.op("squared_difference", [x, y])
    return g


def special_list(dtype):
    """Ops on infinities, NaN and zeros."""
    g = Lists(dtype)
    a = g.tensor("a", [6, 8])
    zero = g.op("mul", [a, 0])
    nan = g.op("div", [zero, zero])
    infinite = g.op("div", [a, zero])
    mixed = g.op("concat", [a, zero, nan, infinite])
    turned = g.op("reshape", [g.op("concat", [infinite, a, zero, nan])], shape=[24, 8])
    for kind in ("ne", "eq", "lt", "fmod", "remainder", "floor_divide", "atan2", "maximum",
                 "minimum", "logical_and", "logical_or", "logical_xor", "hypot", "logaddexp", "xlogy",
                 "huber", "smooth_l1", "squared_difference"):
        g.op(kind, [mixed, turned])
    g.op("logaddexp", [mixed, mixed])
    g.op("nan_to_num", [mixed], value=3.0, max=7.0)
    for kind in ("isnan", "isinf", "logical_not", "sign", "floor", "ceil", "round", "trunc",
                 "relu", "leaky_relu", "elu", "selu", "hardsigmoid", "hardswish", "softplus",
                 "expm1", "exp2", "erf", "atan", "erfc", "frac", "nan_to_num"):
        g.op(kind, [mixed])
    return g


LISTS = {"pointwise": pointwise_list, "integers": integer_list, "special": special_list}
