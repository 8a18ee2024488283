"""Checks the attention kernels against float64 and times them against PyTorch."""

import struct
import sys

import torch
import torch.nn.functional as F

import cuda
from checks import error_of, report

STORE = """
struct Store {
  static constexpr bool kSums = false;
  T* out;
  int heads, queries;
  __device__ void operator()(int batch, int head, i64 query, i64 column, float (&v)[8],
                             Eight valid) const {
    store_columns<8>(out + ((batch * (i64)heads + head) * queries + query) * HEAD + column, valid, v);
  }
};
struct Mask {
  static constexpr bool kActive = true, kWeighs = false;
  static constexpr int kTogether = 1;  // keys may be odd
  static constexpr bool kEights = false;
  const T* mask;
  int queries, keys;
  template <int kCount>
  __device__ auto operator()(int batch, int head, i64 query, i64 key) const {
    const T x = load_input(mask + ((i64)batch * queries + query) * keys + key);
    return [=](float (&v)[kCount]) { v[0] += to_compute(x); };
  }
};
"""
ENTRY_90 = """
typedef {kernel}, {causal}, {scores}, Store> Attention;
extern "C" __global__ void __launch_bounds__(Attention::kThreads, Attention::kBlocksPerSm)
    {name}(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
           const __grid_constant__ TensorMap v, const __grid_constant__ AttentionShape shape,
           const __grid_constant__ Store store, const __grid_constant__ {scores} scores) {{
  Attention::run(q, k, v, shape, scores, store);
}}
"""
ENTRY_80 = """
typedef AttentionSm80<T, HEAD, {causal}, {scores}, Store> Attention;
extern "C" __global__ void __launch_bounds__(Attention::kThreads)
    {name}(const T* q, const T* k, const T* v, AttentionShape shape, AttentionStrides strides,
           Store store, {scores} scores) {{
  Attention::run(q, k, v, shape, strides, scores, store);
}}
"""
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def consumers_of(head, masked):
    """As many as there are registers for."""
    return 3 if head == 64 and not masked else 2


def is_alone(head, masked, consumers):
    return consumers == 1 and head == 64 and not masked


def source(name, head, causal=False, masked=False, element="bf16", sm=90, consumers=None):
    consumers = consumers or consumers_of(head, masked)
    alone = is_alone(head, masked, consumers)
    blocks = (("elements", "quick", "accumulators", "columns", "epilogue", "attention", "hopper", "attention_sm90",
               "attention_alone_sm90") if sm == 90 else
              ("elements", "quick", "accumulators", "columns", "epilogue", "attention", "mma", "attention_sm80"))
    return (cuda.building_blocks(*blocks) + f"typedef {element} T;\n#define HEAD {head}\n" + STORE +
            (ENTRY_90 if sm == 90 else ENTRY_80).format(
                name=name, causal=str(causal).lower(), scores="Mask" if masked else "PlainScores",
                kernel=("AttentionAloneSm90<T, 128" if alone else
                        f"AttentionSm90<T, HEAD, {consumers}, kMostTileKeys<HEAD>")))


class Problem:
    def __init__(self, q, k, v, diagonal=0, mask=None, sm=90, causal=False, consumers=None):
        batches, heads, queries, head = q.shape
        keys = k.shape[2]
        self.out = torch.full(q.shape, float("nan"), device="cuda", dtype=q.dtype)
        self.shape = struct.pack("7if2i", batches, heads, k.shape[1], queries, keys,
                                 diagonal, 1 << 29, head**-0.5, head, v.shape[3])
        self.store = cuda.pointer(self.out) + struct.pack("2i", heads, queries)
        self.scores = (b"\0" if mask is None else
                       cuda.pointer(mask) + struct.pack("2i", queries, keys))
        if sm == 90:
            rows = 64 * (consumers or consumers_of(head, mask is not None))
            self.threads = 128 if is_alone(head, mask is not None, rows // 64) else 128 + rows * 2
            keys_box = 128 if head <= 128 else 96 if head <= 192 else 80
            self.shared = (rows + 4 * keys_box) * -(-head // 64) * 128 + 128
            self.operands = [cuda.tensor_map(t, list(reversed(t.shape)),
                                             [t.stride(2), t.stride(1), t.stride(0)],
                                             [64, box, 1, 1])
                             for t, box in ((q, rows), (k, keys_box), (v, keys_box))]
            self.extra = []
        else:
            rows = 128 if head <= 128 else 64
            self.threads = rows * 2
            self.shared = (rows + (128 if head <= 128 else 64)) * head * 2
            self.operands = [q, k, v]
            self.extra = [struct.pack("9q", *[t.stride(d) for t in (q, k, v) for d in (2, 1, 0)])]
        tiles = -(-queries // rows)
        self.grid = (heads * batches, tiles, 1) if causal and sm == 90 else (tiles, heads, batches)

    def launch(self, kernel):
        kernel.launch(self.grid, self.threads, self.shared, *self.operands, self.shape, *self.extra,
                      self.store, self.scores)


def reference(q, k, v, causal, diagonal, mask):
    group = q.shape[1] // k.shape[1]
    k, v = (t.double().repeat_interleave(group, 1) for t in (k, v))
    s = q.double() @ k.transpose(2, 3) * q.shape[3]**-0.5
    if mask is not None:
        s = s + mask.double()[:, None]
    if causal:
        i = torch.arange(s.shape[2], device="cuda")[:, None]
        j = torch.arange(s.shape[3], device="cuda")
        s = s.masked_fill(j > i + diagonal, float("-inf"))
    return torch.softmax(s, -1).nan_to_num(0) @ v


def check():
    cases = {}
    for sm, heads in ((90, (64, 96, 128, 192, 256)), (80, (32, 64, 96, 128, 192, 256))):
        for head in heads:
            for causal in (False, True):
                cases[f"a{sm}_{head}_{int(causal)}"] = dict(head=head, causal=causal, sm=sm)
                if sm == 90:
                    cases[f"a90_{head}_{int(causal)}_64_rows"] = dict(head=head, causal=causal,
                                                                      consumers=1)
        cases[f"a{sm}_64_mask"] = dict(head=64, masked=True, sm=sm)
        cases[f"a{sm}_128_mask"] = dict(head=128, masked=True, sm=sm, causal=True)
        cases[f"a{sm}_f16"] = dict(head=64, element="f16", sm=sm)
    kernels = cuda.load({name: source(name, **case) for name, case in cases.items()})
    for name, case in cases.items():
        worst, where = 0, None
        dtype, head = DTYPES[case.get("element", "bf16")], case["head"]
        sm = case.get("sm", 90)
        causal = case.get("causal", False)
        for batches, heads, key_heads, queries, keys, diagonal in (
                (1, 1, 1, 1, 1, 0), (2, 3, 3, 31, 129, 0), (1, 4, 2, 129, 31, 0),
                (2, 2, 1, 300, 300, 0), (1, 2, 2, 257, 1000, 743), (1, 2, 2, 200, 150, -50),
                (1, 1, 1, 4097, 4097, 0)):
            def operand(h, n):  # as a framework has it: [batch][row][head][column]
                return torch.randn(batches, n, h, head, device="cuda").to(dtype).transpose(1, 2)

            q, k, v = operand(heads, queries), operand(key_heads, keys), operand(key_heads, keys)
            mask = None
            if case.get("masked"):
                mask = torch.randn(batches, queries, keys, device="cuda")
                mask[:, :, keys // 2:] = float("-inf")
                mask[:, queries // 3] = float("-inf")
                mask = mask.to(dtype)
            problem = Problem(q, k, v, diagonal, mask, sm, causal, case.get("consumers"))
            problem.launch(kernels[name])
            error = error_of(problem.out, reference(q, k, v, causal, diagonal, mask))
            if not error <= worst:
                worst, where = error, (batches, heads, key_heads, queries, keys, diagonal)
        report(worst < 6e-3, f"{name}: worst error {worst:.2e} at {where}; {kernels[name].report}")


def time():
    kernels = cuda.load({f"t{sm}_{head}_{int(causal)}": source(f"t{sm}_{head}_{int(causal)}", head,
                                                              causal, sm=sm)
                         for sm in (90, 80) for head in (64, 96, 128, 192, 256)
                         for causal in (False, True)})
    for batches, heads, key_heads, length, head in ((4, 16, 16, 2048, 64), (8, 16, 16, 4096, 64),
                                                    (2, 16, 16, 4096, 128), (2, 32, 8, 4096, 128),
                                                    (2, 16, 16, 4096, 96), (2, 8, 8, 4096, 192),
                                                    (2, 8, 8, 4096, 256)):
        q = torch.randn(batches, heads, length, head, device="cuda").bfloat16()
        k, v = (torch.randn(batches, key_heads, length, head, device="cuda").bfloat16()
                for _ in range(2))
        for causal in (False, True):
            work = {}
            for sm in (90, 80):
                if f"t{sm}_{head}_{int(causal)}" in kernels:
                    problem = Problem(q, k, v, sm=sm, causal=causal)
                    work[f"sm_{sm}"] = lambda p=problem, f=kernels[
                        f"t{sm}_{head}_{int(causal)}"]: p.launch(f)
            work["sdpa"] = lambda: F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=heads != key_heads)
            flops = 4 * batches * heads * length * length * head / (2 if causal else 1)
            print(f"{batches}x{heads}/{key_heads}x{length}x{head} causal={int(causal)}: " + ", ".join(
                f"{name} {ms:.3f} ms {flops / ms * 1e-9:.0f} TFLOP/s"
                for name, ms in cuda.medians_ms(work, 11).items()), flush=True)


def once():
    """For a profiler: one launch of the size whose traffic is to be read."""
    kernel = cuda.load({"once": source("once", 64)})["once"]
    q, k, v = (torch.randn(8, 16, 4096, 64, device="cuda").bfloat16() for _ in range(3))
    Problem(q, k, v).launch(kernel)
    torch.cuda.synchronize()


if __name__ == "__main__":
    torch.manual_seed(1)
    for what in sys.argv[1:] or ("check", "time"):
        globals()[what]()
    sys.exit(report.failures > 0)
