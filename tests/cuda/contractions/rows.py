"""Checks and times contractions whose epilogue needs whole rows."""

import struct
import sys

import torch
import torch.nn.functional as F

import cuda
from checks import error_of, report
from products import Problem, operand

NORM = """
struct Tail {
  typedef Moments Rows;
  T* out;
  const T* residual;
  const T* weight;
  const T* bias;
  int m, n;
  template <class Valid>
  __device__ void first(int batch, i64 row, i64 column, float (&v)[8], float (&taken)[8],
                        Valid valid) const {
    float r[8];
    load_columns<8>(residual + (batch * (i64)m + row) * n + column, valid, r);
#pragma unroll
    for (int i = 0; i < 8; ++i) taken[i] = v[i] += r[i];
  }
  template <class Valid>
  __device__ void second(int batch, i64 row, i64 column, float (&v)[8], Valid valid,
                         Moments::State all) const {
    float w[8], b[8];
    load_columns<8>(weight + column, valid, w);
    load_columns<8>(bias + column, valid, b);
    const float scale = rsqrtf(Moments::variance(all) + 1e-5f);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = (v[i] - Moments::mean(all)) * scale * w[i] + b[i];
    store_columns<8>(out + (batch * (i64)m + row) * n + column, valid, v);
  }
};
"""
SOFTMAX = """
struct Tail {
  typedef ExponentialSum Rows;
  T* out;
  int m, n;
  template <class Valid>
  __device__ void first(int, i64, i64, float (&v)[8], float (&taken)[8], Valid) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) taken[i] = v[i] *= 0.125f;
  }
  template <class Valid>
  __device__ void second(int batch, i64 row, i64 column, float (&v)[8], Valid valid,
                         ExponentialSum::State all) const {
    const float inverse = quick_reciprocal(all.part[1]);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = quick_exp(v[i] - all.part[0]) * inverse;
    store_columns<ALIGN>(out + (batch * (i64)m + row) * n + column, valid, v);
  }
};
"""
ENTRY = """
typedef ContractRowsSm90<T, {tile_n}, {cluster}, false, LinesOfB({along_n}), Tail> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, 1) __cluster_dims__({cluster}, 1, 1)
    {name}(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
           const __grid_constant__ ContractShape shape, const __grid_constant__ Tail tail) {{
  Contract::run(a, b, shape, tail);
}}
"""
BLOCKS = ("elements", "quick", "accumulators", "columns", "epilogue", "tile_walk", "hopper", "stages", "contract_rows_sm90")


def source(name, tail, tile_n, cluster, along_n, align=8):
    return (cuda.building_blocks(*BLOCKS) + "typedef bf16 T;\n" + tail.replace("ALIGN", str(align)) +
            ENTRY.format(name=name, tile_n=tile_n, cluster=cluster, along_n=int(along_n)))


class RowsProblem(Problem):
    def __init__(self, a, b, tile_n, cluster, along_n, parts):
        super().__init__(a, b, tb=along_n, tile_n=tile_n, cluster=1)
        stages = {256: 4, 192: 5}.get(tile_n, 6)
        self.shared = stages * (128 + tile_n) * 128 + 2 * cluster * 128 * parts * 4 + 256
        self.cluster = cluster
        self.units = -(-self.m // 128) * self.outer * self.inner

    def run(self, kernel, tail):
        if not hasattr(kernel, "resident"):
            kernel.resident = kernel.resident_clusters(self.cluster, 384, self.shared)
        kernel.launch(min(kernel.resident, self.units) * self.cluster, 384, self.shared, self.map_a, self.map_b, self.shape, tail)


def check():
    cases = {}
    for tile_n, cluster, n in ((256, 3, 768), (192, 4, 768), (256, 1, 256), (256, 2, 504),
                               (128, 8, 1000), (256, 4, 1024)):
        cases[f"norm_{tile_n}_{cluster}_{n}"] = (tile_n, cluster, n)
    kernels = cuda.load(
        {name: source(name, NORM, t, c, True) for name, (t, c, _) in cases.items()} |
        {name.replace("norm", "softmax"): source(name.replace("norm", "softmax"), SOFTMAX, t, c,
                                                 False, 1) for name, (t, c, _) in cases.items()})
    for name, (tile_n, cluster, n) in cases.items():
        worst_norm = worst_softmax = 0
        for m, k, batches in ((1, 64, 1), (300, 264, 3), (129, 2048, 2), (4097, 136, 1),
                              (512, 64, 100)):
            a, b = operand(1, batches, m, k, torch.bfloat16), operand(1, batches, k, n, torch.bfloat16)
            residual = torch.randn(batches, m, n, device="cuda").bfloat16()
            weight, bias = (torch.randn(n, device="cuda").bfloat16() for _ in range(2))
            out = torch.full((batches, m, n), float("nan"), device="cuda").bfloat16()
            RowsProblem(a, b, tile_n, cluster, True, 3).run(
                kernels[name], cuda.pointer(out) + cuda.pointer(residual) + cuda.pointer(weight) +
                cuda.pointer(bias) + struct.pack("2i", m, n))
            want = F.layer_norm(a[0].double() @ b[0].double() + residual.double(), (n,),
                                weight.double(), bias.double())
            worst_norm = max(worst_norm, error_of(out, want), key=lambda x: (x != x, x))
            n2 = n - 3
            b = operand(1, batches, n2, k, torch.bfloat16)
            out = torch.full((batches, m, n2), float("nan"), device="cuda").bfloat16()
            RowsProblem(a, b, tile_n, cluster, False, 2).run(
                kernels[name.replace("norm", "softmax")],
                cuda.pointer(out) + struct.pack("2i", m, n2))
            want = torch.softmax(a[0].double() @ b[0].double().transpose(1, 2) * 0.125, -1)
            worst_softmax = max(worst_softmax, error_of(out, want), key=lambda x: (x != x, x))
        report(worst_norm < 4e-3, f"{name}: {worst_norm:.2e}; {kernels[name].resident} clusters; {kernels[name].report}")
        report(worst_softmax < 4e-3, f"{name.replace('norm', 'softmax')}: {worst_softmax:.2e}")


def time():
    batches, m, n = 32, 2048, 768
    kernels = cuda.load({f"t{t}": source(f"t{t}", NORM, t, 768 // t, True) for t in (256, 192)})
    a, b = operand(1, batches, m, m, torch.bfloat16), operand(1, batches, m, n, torch.bfloat16)
    residual = torch.randn(batches, m, n, device="cuda").bfloat16()
    weight, bias = (torch.randn(n, device="cuda").bfloat16() for _ in range(2))
    out = torch.empty(batches, m, n, device="cuda").bfloat16()
    tail = (cuda.pointer(out) + cuda.pointer(residual) + cuda.pointer(weight) + cuda.pointer(bias) +
            struct.pack("2i", m, n))

    def plain(a, b, r, w, c):
        return F.layer_norm(a @ b + r, (n,), w, c)

    compiled = torch.compile(plain)
    work = {}
    for t in (256, 192):
        problem = RowsProblem(a, b, t, 768 // t, True, 3)
        work[f"rows of {t}"] = lambda p=problem, f=kernels[f"t{t}"]: p.run(f, tail)
    work["torch.compile"] = lambda: compiled(a[0], b[0], residual, weight, bias)
    work["eager"] = lambda: plain(a[0], b[0], residual, weight, bias)
    work["bare matmul"] = lambda: a[0] @ b[0]
    print("weights v + residual -> layer_norm, 32 x 2048 x 2048 x 768: " + ", ".join(
        f"{name} {ms:.3f} ms" for name, ms in cuda.medians_ms(work).items()))


if __name__ == "__main__":
    torch.manual_seed(1)
    for what in sys.argv[1:] or ("check", "time"):
        globals()[what]()
    sys.exit(report.failures > 0)
