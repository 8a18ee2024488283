"""Times the contraction kernels against PyTorch (cuBLASLt)."""

import struct

import torch

import cuda
from epilogues import BIAS_GELU, BIAS_GELU_EXACT, BIAS_RELU, BIAS_RESIDUAL, STORE
from products import (Problem, Problem80, ProblemSkinny90, operand, source_80, source_90,
                      source_skinny_90, source_vector, tflops)

SHAPES = ((8192, 8192, 8192), (8192, 16384, 4096), (4096, 4096, 4096), (16384, 4096, 1024),
          (16384, 16384, 2048), (8192, 4096, 4096), (8192, 14336, 4096), (8192, 4096, 14336),
          (16384, 8192, 2048), (16384, 2048, 8192), (16384, 2048, 2048))


def group_of(k):
    """As src/codegen/contraction.cpp has it, for clusters of two."""
    return min(64, max(8, (16 << 20) // (512 * k)))


def time_plain(pause_cycles=3000000):
    """Alternating, with pauses: a single product runs on a cooler GPU than one among many."""
    specs = {f"{name} {tile_n}": dict(epilogue=epilogue, tile_n=tile_n, tb=2)
             for name, epilogue in (("store", STORE), ("relu", BIAS_RELU), ("gelu tanh", BIAS_GELU),
                                    ("gelu", BIAS_GELU_EXACT), ("residual", BIAS_RESIDUAL))
             for tile_n in (128, 160, 256)}
    kernels = cuda.load({name.replace(" ", "_"): source_90(name.replace(" ", "_"), **s)
                         for name, s in specs.items()})
    for m, n, k in SHAPES:
        a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
        bias = torch.randn(n, device="cuda").bfloat16()
        residual = torch.randn(m, n, device="cuda").bfloat16()
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        work = {"cublas": lambda: torch.mm(a[0, 0], b[0, 0].t(), out=out)}
        for name, spec in specs.items():
            problem = Problem(a, b, tb=2, group=group_of(k), tile_n=spec["tile_n"])
            tail = cuda.pointer(out) + struct.pack("2i", m, n)
            if not name.startswith("store"):
                tail += cuda.pointer(bias)
            if name.startswith("residual"):
                tail += cuda.pointer(residual)
            work[name] = lambda p=problem, f=kernels[name.replace(" ", "_")], t=tail: p.launch(f, t)
        row = cuda.medians_ms(work, 9, pause_cycles=pause_cycles)
        whole = row.pop("cublas")
        print(f"{m} x {n} x {k}: cublas {whole * 1e3:.0f} us {tflops(m, n, k, whole):.0f} TFLOP/s; " +
              ", ".join(f"{name} {(ms / whole - 1) * 100:+.1f}%" for name, ms in row.items()),
              flush=True)


def time_hot():
    """The same without pauses: all candidates share the clock that all of them come to."""
    time_plain(0)


def time_sm80():
    specs = {"bf16": dict(), "bf16_2": dict(align_a=2, align_b=2), "bf16_1": dict(align_a=1, align_b=1),
             "tf32": dict(element="f32", align_a=4, align_b=4),
             "exact": dict(element="f32", product="exact_f32", align_a=4, align_b=4)}
    kernels = cuda.load({f"t80_{name}": source_80(f"t80_{name}", STORE, **s)
                         for name, s in specs.items()})
    n = 4096
    out16, out32 = (torch.empty(n, n, device="cuda", dtype=t) for t in (torch.bfloat16, torch.float32))
    work = {}
    for name, spec in specs.items():
        dtype = torch.float32 if spec.get("element") == "f32" else torch.bfloat16
        a, b = operand(1, 1, n, n, dtype), operand(1, 1, n, n, dtype)
        problem = Problem80(a, b, aligns=(spec.get("align_a", 8), spec.get("align_b", 8)))
        out = out32 if dtype == torch.float32 else out16
        work[name] = lambda p=problem, f=kernels[f"t80_{name}"], o=out: p.launch(
            f, cuda.pointer(o) + struct.pack("2i", n, n))
    for name, dtype in (("cublas bf16", torch.bfloat16), ("cublas f32", torch.float32)):
        a, b = operand(1, 1, n, n, dtype)[0, 0], operand(1, 1, n, n, dtype)[0, 0]
        work[name] = lambda a=a, b=b: torch.mm(a, b.t())
    print("sm_80 path, 4096^3: " + ", ".join(f"{name} {ms:.3f} ms {tflops(n, n, n, ms):.0f} TFLOP/s"
                                             for name, ms in cuda.medians_ms(work, 7).items()))


def time_skinny():
    cases = {}
    for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (1024, 4096), (32000, 4096)):
        split = 1
        while split < 8 and -(-n // 64) * split * 2 <= 132 and k // (2 * split) >= 256:
            split *= 2
        for m in (1, 16, 32, 64):
            cases[m, n, k] = (max(16, m), split)
    kernels = cuda.load({"skinny_%d_%d" % c: source_skinny_90("skinny_%d_%d" % c, STORE, *c)
                         for c in set(cases.values())})
    for (m, n, k), case in cases.items():
        a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        problem = ProblemSkinny90(a, b, *case)
        work = {"ours": lambda: problem.launch(kernels["skinny_%d_%d" % case],
                                               cuda.pointer(out) + struct.pack("2i", m, n)),
                "cublas": lambda: torch.mm(a[0, 0], b[0, 0].t(), out=out),
                "silu alone": lambda: torch.nn.functional.silu(out)}
        print(f"skinny {m} x {n} x {k}: " + ", ".join(
            f"{name} {ms * 1e3:.1f} us" for name, ms in
            cuda.medians_ms(work, 15, pause_cycles=60000).items()), flush=True)


def time_vector():
    for m, k, element in ((1, 1 << 27, "f32"), (8, 1 << 20, "f32"), (16384, 16384, "bf16"),
                          (4096, 4096, "bf16"), (1000000, 64, "bf16"), (300000, 256, "bf16")):
        dtype = dict(bf16=torch.bfloat16, f32=torch.float32)[element]
        packs = k * dtype.itemsize // 16
        lanes = 8 if packs <= 64 else 32 if m * 32 >= 132 * 512 else 512
        split = max(1, min(264 // m, packs // 2048)) if lanes == 512 else 1
        # As generated code, it knows the shape: divisions are by constants.
        source = source_vector("vector", STORE, lanes, split, element).replace(
            "Contract::run(a, b, shape,", "constexpr ContractShape kShape = "
            f"{{{m}, 1, {k}, 1, 1, 0, 0, 0, 0, 8, 0}};\n  Contract::run(a, b, kShape,")
        kernel = cuda.load({"vector": source})["vector"]
        a, b = (operand(1, 1, rows, k, dtype) for rows in (m, 1))
        out = torch.empty(m, device="cuda", dtype=dtype)
        partials = torch.zeros(m * (split + 1), device="cuda")
        work = {"ours": lambda: Problem80(a, b).launch_vector(
                    kernel, lanes, split, cuda.pointer(out) + struct.pack("2i", m, 1), partials),
                "torch": (lambda: torch.dot(a.view(-1), b.view(-1))) if m == 1 else
                         (lambda: torch.mv(a[0, 0], b.view(-1))),
                "relu alone": lambda: torch.relu(out)}
        print(f"vector {m} x {k} {element}: " + ", ".join(
            f"{name} {ms * 1e3:.1f} us" for name, ms in
            cuda.medians_ms(work, 9, pause_cycles=60000).items()), flush=True)
