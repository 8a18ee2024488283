"""Checks and times what follows a product without its result in memory: SPLADE's head, and the
cross-entropy of a linear layer."""

import struct

import torch

import cuda
from checks import error_of, report
from epilogues import LOSS, MERGE_LOSS, MERGE_SPLADE, SPLADE
from products import Problem, source_90


def splade():
    sources = {}
    for name, log1p in (("splade_quick", "quick_log1p"), ("splade_precise", "log1pf")):
        sources[name] = source_90(name, SPLADE.replace("LOG1P", log1p))
        sources[name + "_160"] = source_90(name + "_160", SPLADE.replace("LOG1P", log1p),
                                           tile_n=160)
    sources["merge_splade"] = (cuda.building_blocks("elements", "quick", "accumulators", "columns", "epilogue") +
                               "typedef bf16 T;\n" + MERGE_SPLADE)
    kernels = cuda.load(sources)
    for name, kernel in kernels.items():
        print(name, kernel.report)
    for batch, m, k, n in ((3, 100, 64, 1000), (2, 257, 768, 30522), (32, 512, 768, 30522)):
        hidden = torch.randn(batch, m, k, device="cuda").bfloat16()
        table = (torch.randn(n, k, device="cuda") * 0.1).bfloat16()
        bias = torch.randn(n, device="cuda").bfloat16()
        mask = (torch.rand(batch, m, device="cuda") < 0.9).float()
        strips = -(-m // 64)
        partials = torch.full((batch, strips, n), float("nan"), device="cuda")
        out = torch.full((batch, n), float("nan"), device="cuda").bfloat16()

        def run(name, problem):
            problem.launch(kernels[name], cuda.pointer(partials) + cuda.pointer(bias) +
                           cuda.pointer(mask) + struct.pack("4i", m, n, strips, 0), 1)
            kernels["merge_splade"].launch(-(-batch * n // 256), 256, 0, partials, out, batch,
                                           strips, n)

        def reference(dtype):
            logits = hidden.to(dtype) @ table.to(dtype).t() + bias.to(dtype)
            return (torch.log1p(torch.relu(logits)) * mask.to(dtype)[..., None]).amax(1)

        problem, wide = (Problem(hidden.view(batch, 1, m, k), table.view(1, 1, n, k), group=64,
                                 tile_n=tile_n) for tile_n in (128, 160))
        for name in ("splade_precise", "splade_quick", "splade_quick_160"):
            out.fill_(float("nan"))
            partials.fill_(float("nan"))
            run(name, wide if name.endswith("160") else problem)
            if batch < 32:
                report(error_of(out, reference(torch.float64)) < 4e-3,
                       f"{name} {batch}x{m}x{k}x{n}: {error_of(out, reference(torch.float64)):.2e}")
        if batch == 32:
            want = torch.stack([(torch.log1p(torch.relu(hidden[i].float() @ table.float().t() + bias.float()))
                                 * mask[i, :, None]).amax(0) for i in range(batch)])
            report(error_of(out, want) < 4e-3, f"splade full: {error_of(out, want):.2e}")

            def plain(h, t, b, w):
                return (torch.log1p(torch.relu(h @ t.t() + b)) * w[..., None]).amax(1)

            compiled = torch.compile(plain)
            low = mask.bfloat16()
            work = {"log1pf 128": lambda: run("splade_precise", problem),
                    "torch.compile": lambda: compiled(hidden, table, bias, low),
                    "eager": lambda: plain(hidden, table, bias, low)}
            for group in (16, 64):
                for tile_n, name in ((128, "splade_quick"), (160, "splade_quick_160")):
                    p = Problem(hidden.view(batch, 1, m, k), table.view(1, 1, n, k), group=group,
                                tile_n=tile_n)
                    work[f"{name} g{group}"] = lambda p=p, name=name: run(name, p)
            work["log1pf 160"] = lambda: run("splade_precise_160", wide)
            row = cuda.medians_ms(work)
            print("splade: " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in row.items()),
                  flush=True)


def splade_once():
    """For a profiler: the full size, once."""
    kernels = cuda.load({
        "splade_quick": source_90("splade_quick", SPLADE.replace("LOG1P", "quick_log1p"),
                                  tile_n=128),
        "merge_splade": cuda.building_blocks("elements", "quick", "accumulators", "columns", "epilogue") + "typedef bf16 T;\n" +
                        MERGE_SPLADE})
    batch, m, k, n = 32, 512, 768, 30522
    hidden = torch.randn(batch, m, k, device="cuda").bfloat16()
    table = (torch.randn(n, k, device="cuda") * 0.1).bfloat16()
    bias = torch.randn(n, device="cuda").bfloat16()
    mask = (torch.rand(batch, m, device="cuda") < 0.9).float()
    strips = -(-m // 64)
    partials = torch.empty(batch, strips, n, device="cuda")
    out = torch.empty(batch, n, device="cuda").bfloat16()
    for group in (8, 16, 64):
        Problem(hidden.view(batch, 1, m, k), table.view(1, 1, n, k), tile_n=128,
                group=group).launch(
            kernels["splade_quick"], cuda.pointer(partials) + cuda.pointer(bias) +
            cuda.pointer(mask) + struct.pack("4i", m, n, strips, 0), 1)
        kernels["merge_splade"].launch(-(-batch * n // 256), 256, 0, partials, out, batch, strips,
                                       n)
    torch.cuda.synchronize()


def loss():
    kernels = cuda.load({
        "loss": source_90("loss", LOSS),
        "loss_160": source_90("loss_160", LOSS, tile_n=160),
        "merge_loss": cuda.building_blocks("elements", "quick", "accumulators", "columns", "epilogue") + MERGE_LOSS})
    print("loss", kernels["loss"].report)
    for m, k, n in ((33, 64, 1000), (1000, 1024, 30522), (8192, 4096, 32000)):
        x = torch.randn(m, k, device="cuda").bfloat16()
        w = (torch.randn(n, k, device="cuda") / k**0.5 * 4).bfloat16()
        target = torch.randint(0, n, (m,), device="cuda")
        partials = torch.full((m, -(-n // 128), 2), float("nan"), device="cuda")
        picked = torch.full((m,), float("nan"), device="cuda")
        out = torch.full((m,), float("nan"), device="cuda")
        problems = {tile_n: Problem(x.view(1, 1, m, k), w.view(1, 1, n, k), tile_n=tile_n)
                    for tile_n in (128, 160)}

        def run(tile_n=128):
            tiles = -(-n // tile_n)
            problems[tile_n].launch(kernels["loss" if tile_n == 128 else "loss_160"],
                                    cuda.pointer(partials) + cuda.pointer(picked) +
                                    cuda.pointer(target) + struct.pack("4i", m, n, tiles, 0))
            kernels["merge_loss"].launch(-(-m // 8), 256, 0, partials, picked, out, m, tiles)

        want = torch.nn.functional.cross_entropy(x.float().double() @ w.double().t(), target,
                                                 reduction="none")
        for tile_n in (128, 160):
            out.fill_(float("nan"))
            run(tile_n)
            report(error_of(out, want) < 1e-4,
                   f"loss, tiles of {tile_n}, {m}x{k}x{n}: {error_of(out, want):.2e}")
        if m == 8192:
            def plain(x, w, target):
                return torch.nn.functional.cross_entropy(x @ w.t(), target, reduction="none")

            compiled = torch.compile(plain)
            row = cuda.medians_ms({"ours": run, "ours 160": lambda: run(160),
                                   "torch.compile": lambda: compiled(x, w, target),
                                   "eager": lambda: plain(x, w, target),
                                   "bare matmul": lambda: x @ w.t()})
            print("linear -> cross_entropy: " + ", ".join(
                f"{name} {ms:.3f} ms" for name, ms in row.items()), flush=True)
