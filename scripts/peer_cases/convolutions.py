"""Kinds of convolutions in inference, with batch_norm's own mean and variance."""
from random_lists import op

from .base import EPS, Case, kind, listed, text, typed

torch = F = None  # load_torch() sets them


def convolution(n, c, out, side, window, stride=1, groups=1, dtype="bf16"):
    padding = window // 2

    def run(x, f, w, b, mean, var):
        h = F.conv2d(x, f, None, stride, padding, 1, groups)
        return F.relu(F.batch_norm(h, mean, var, w, b, False, 0.1, EPS))

    def folded(x, f, w, b, mean, var):
        """batch_norm as part of the filter and a bias."""
        scale = w * torch.rsqrt(var + EPS)
        return ((f.float() * scale[:, None, None, None]).to(f.dtype),
                (b - mean * scale).to(f.dtype))

    def folded_convolution(*inputs):
        f, b = folded(*inputs)
        return lambda: F.relu(F.conv2d(inputs[0], f, b, stride, padding, 1, groups))

    def cudnn(*inputs):
        f, b = folded(*inputs)
        return lambda: torch.cudnn_convolution_relu(inputs[0], f, b, [stride] * 2, [padding] * 2,
                                                    [1, 1], groups)

    tensors = {"x": [n, c, side, side], "f": [out, c // groups, window, window]}
    parameters = ["w", "b", "mean", "var"]
    tensors |= {name: typed("f32", out) for name in parameters}
    return Case(f"{text(dtype, n, c, side, side)} to {out}",
                listed(dtype, tensors,
                       [op("conv2d", ["x", "f"], "h", stride=stride, padding=padding, groups=groups),
                        op("batch_norm", ["h", *parameters], "t", mode="inference"),
                        op("relu", ["t"], "y")], "y"),
                run, {"folded": folded_convolution, "cudnn_convolution_relu": cudnn},
                lows={"var": 0.5})


def samples(d, channels, side, low=8 << 20, high=256 << 20):
    return min(256, d.rows_of(channels * side * side, low=low, high=high))


@kind("conv 3x3 + bn + relu")
def conv_3x3(d):
    side, c = d.any((56, 64), (28, 128), (14, 256), (7, 512))
    return convolution(samples(d, c, side), c, c * d.any(1, 2), side, 3)


@kind("conv 1x1 + bn + relu")
def conv_1x1(d):
    side, c = d.any((56, 64), (56, 256), (28, 512), (14, 1024))
    return convolution(samples(d, c, side), c, d.any(64, 128, 256, 512), side, 1)


@kind("conv 3x3 + bn + relu, f32")
def conv_3x3_f32(d):
    side, c = d.any((56, 64), (28, 128), (14, 256), (7, 512))
    return convolution(samples(d, c, side, 1 << 16, 32 << 20), c, c * d.any(1, 2), side, 3,
                       dtype="f32")


@kind("conv 1x1 + bn + relu, f32")
def conv_1x1_f32(d):
    side, c = d.any((56, 64), (56, 256), (28, 512), (14, 1024))
    return convolution(samples(d, c, side, 1 << 16, 32 << 20), c, d.any(64, 128, 256, 512), side, 1,
                       dtype="f32")


@kind("conv depthwise + bn + relu")
def conv_depthwise(d):
    side, c = d.any((112, 32), (56, 128), (28, 192), (14, 512))
    return convolution(samples(d, c, side), c, c, side, 3, groups=c)


@kind("conv stem + bn + relu")
def conv_stem(d):
    window, out = d.any((7, 64), (3, 32))
    return convolution(d.within(8, 128), 3, out, d.any(224, 256), window, stride=2)
