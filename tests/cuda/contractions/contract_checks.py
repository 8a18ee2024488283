"""Checks the contraction kernels against float64."""

import struct

import torch

import cuda
from checks import error_of, report
from epilogues import LOSS, MERGE_LOSS, SPLADE, STORE
from products import (LARGE_80, LOW_80, SMALL_80, SPLIT_80, WIDE_80, Problem, Problem80,
                      ProblemSkinny90, operand, source_80, source_90, source_skinny,
                      source_skinny_90, source_vector)

# Those that products of each kind have.
TILES_80 = {"bf16": dict(wide=WIDE_80, large=LARGE_80, small=SMALL_80, split=SPLIT_80),
            "f32": dict(large=LARGE_80, small=SMALL_80),
            "exact_f32": dict(low=LOW_80, split=SPLIT_80)}


def check_plain():
    cases = {f"plain_{int(ta)}{tb}_{tile_n}_{cluster}": dict(tile_n=tile_n, cluster=cluster, ta=ta,
                                                            tb=tb)
             for ta in (False, True) for tb in (0, 1, 2) for tile_n in (128, 160, 256, 320)
             for cluster in (1, 2)
             if (tb, tile_n) not in ((1, 160), (1, 320)) and (tb, tile_n, cluster) != (0, 320, 1)}
    cases["plain_f16"] = dict(tile_n=160, cluster=2, element="f16", tb=2)
    kernels = cuda.load({name: source_90(name, STORE, align=1, **c) for name, c in cases.items()})
    shapes = [(1, 1, 8), (31, 129, 40), (129, 31, 64), (257, 4097, 136), (4097, 264, 1032),
              (512, 768, 4096), (3001, 5003, 1544)]
    batches = [((1, 1), (1, 1)), ((2, 3), (2, 3)), ((2, 3), (1, 1)), ((1, 3), (2, 1)),
               ((2, 3), (2, 1)), ((1, 1), (2, 3))]
    for name, case in cases.items():
        worst = 0
        where = None
        dtype = torch.float16 if case.get("element") == "f16" else torch.bfloat16
        ta, tb = case.get("ta", False), case["tb"]
        for m, n, k in shapes:
            n += -n % 8 if tb == 2 else 0
            for batch_a, batch_b in (batches if m < 300 else batches[:1]):
                if tb == 2 and batch_b != (1, 1):
                    continue
                # TMA wants strides of 8 elements: rows are padded to them.
                a = (operand(*batch_a, k, m, dtype, -m % 8) if ta
                     else operand(*batch_a, m, k, dtype, -k % 8))
                b = (operand(*batch_b, k, n, dtype, -n % 8) if tb == 1
                     else operand(*batch_b, n, k, dtype, -k % 8))
                problem = Problem(a, b, ta, tb, case["tile_n"], case["cluster"], group=3)
                out = torch.full((problem.outer, problem.inner, m, n), float("nan"),
                                 device="cuda", dtype=dtype)
                problem.launch(kernels[name],
                               cuda.pointer(out) + struct.pack("2i", m, n))
                want = ((a.transpose(2, 3) if ta else a).double() @
                        (b if tb == 1 else b.transpose(2, 3)).double())
                error = error_of(out, want)
                if not error < worst:
                    worst, where = error, (m, n, k, batch_a, batch_b)
        report(worst < 4e-3, f"{name}: worst error {worst:.2e} at {where}; {kernels[name].report}")


def check_sm80():
    cases = {}
    for ta in (False, True):
        for tb in (False, True):
            for element, product, aligns in (("bf16", "bf16", (8, 4, 2, 1)), ("f32", "f32", (4, 2)),
                                             ("f32", "exact_f32", (4, 1))):
                for align in aligns:
                    for size, tile in TILES_80[product].items():
                        cases[f"c80_{product}_{align}_{int(ta)}{int(tb)}_{size}"] = dict(
                            element=element, product=product, align_a=align, align_b=align, ta=ta,
                            tb=tb, tile=tile)
    cases["c80_f16"] = dict(element="f16", align_a=2, align_b=4, tile=LARGE_80)
    kernels = cuda.load({name: source_80(name, STORE, align=1, **c) for name, c in cases.items()})
    batches = [((1, 1), (1, 1)), ((2, 3), (2, 3)), ((1, 3), (2, 1))]
    for name, case in cases.items():
        dtype = dict(bf16=torch.bfloat16, f16=torch.float16, f32=torch.float32)[case["element"]]
        ta, tb = case.get("ta", False), case.get("tb", False)
        worst, where = 0, None
        for m, n, k in ((1, 1, 1), (31, 129, 33), (129, 31, 257), (257, 4097, 129), (1, 257, 4097)):
            for batch_a, batch_b in batches if m < 200 else batches[:1]:
                pad_a, pad_b = (-(m if ta else k) % case["align_a"],
                                -(n if tb else k) % case["align_b"])
                a = operand(*batch_a, k, m, dtype, pad_a) if ta else operand(*batch_a, m, k, dtype, pad_a)
                b = operand(*batch_b, k, n, dtype, pad_b) if tb else operand(*batch_b, n, k, dtype, pad_b)
                problem = Problem80(a, b, ta, tb, group=3, tile=case["tile"],
                                    aligns=(case["align_a"], case["align_b"]))
                out = torch.full((problem.outer, problem.inner, m, n), float("nan"),
                                 device="cuda", dtype=dtype)
                problem.launch(kernels[name], cuda.pointer(out) + struct.pack("2i", m, n))
                want = ((a.transpose(2, 3) if ta else a).double() @
                        (b if tb else b.transpose(2, 3)).double())
                error = error_of(out, want)
                if not error < worst:
                    worst, where = error, (m, n, k, batch_a, batch_b)
        limit = 5e-6 if case.get("product") == "exact_f32" else 1e-3 if dtype == torch.float32 else 6e-3
        report(worst < limit, f"{name}: worst error {worst:.2e} at {where}; {kernels[name].report}")


def check_skinny_90():
    cases = {f"skinny90_{rows}_{split}_{tb}": (rows, split, tb)
             for rows in (16, 32, 64) for split in (1, 2, 4, 8) for tb in (0, 1)}
    sources = {name: source_skinny_90(name, STORE, *case, align=1) for name, case in cases.items()}
    sources["skinny90_loss"] = source_skinny_90("skinny90_loss", LOSS, 32, 4)
    sources["skinny90_f16"] = source_skinny_90("skinny90_f16", STORE, 16, 2, element="f16", align=1)
    sources["merge_loss"] = cuda.building_blocks("elements", "quick", "accumulators", "columns", "epilogue") + MERGE_LOSS
    kernels = cuda.load(sources)
    cases["skinny90_f16"] = (16, 2, 0)
    for name, (rows, split, tb) in cases.items():
        worst, where = 0, None
        dtype = torch.float16 if name.endswith("f16") else torch.bfloat16
        for m, n, k in ((1, 1, 8), (rows - 3, 129, 264), (rows, 1000, 4096), (1, 4097, 1032),
                        (min(rows, 31), 257, 4104)):
            for batch_a, batch_b in (((1, 1), (1, 1)), ((2, 3), (1, 3))):
                a = operand(*batch_a, m, k, dtype)
                b = operand(*batch_b, k, n, dtype, -n % 8) if tb else operand(*batch_b, n, k, dtype)
                problem = ProblemSkinny90(a, b, rows, split, tb)
                out = torch.full((problem.outer, problem.inner, m, n), float("nan"), device="cuda",
                                 dtype=dtype)
                problem.launch(kernels[name], cuda.pointer(out) + struct.pack("2i", m, n))
                error = error_of(out, a.double() @ (b if tb else b.transpose(2, 3)).double())
                if not error <= worst:
                    worst, where = error, (m, n, k, batch_a, batch_b)
        report(worst < 6e-3, f"{name}: worst error {worst:.2e} at {where}; " +
               kernels[name].report)
    m, n, k = 30, 1001, 264
    a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
    tiles = -(-n // 64)
    target = torch.randint(0, n, (m,), device="cuda")
    partials = torch.full((m, tiles, 2), float("nan"), device="cuda")
    picked, out = (torch.full((m,), float("nan"), device="cuda") for _ in range(2))
    ProblemSkinny90(a, b, 32, 4).launch(kernels["skinny90_loss"], cuda.pointer(partials) +
                                          cuda.pointer(picked) + cuda.pointer(target) +
                                          struct.pack("4i", m, n, tiles, 0))
    kernels["merge_loss"].launch(-(-m // 8), 256, 0, partials, picked, out, m, tiles)
    want = torch.nn.functional.cross_entropy(a[0, 0].double() @ b[0, 0].double().t(), target,
                                             reduction="none")
    report(error_of(out, want) < 1e-4, f"skinny90 loss: {error_of(out, want):.2e}")


def check_vector():
    cases = {f"vector_{lanes}_{split}_{align}_{element}": (lanes, split, align, element)
             for lanes, split in ((8, 1), (32, 1), (512, 1), (512, 3), (512, 64))
             for align, element in ((8, "bf16"), (1, "bf16"), (4, "f32"), (1, "f32"))}
    kernels = cuda.load({name: source_vector(name, STORE, lanes, split, element, align)
                         for name, (lanes, split, align, element) in cases.items()})
    for name, (lanes, split, align, element) in cases.items():
        dtype = dict(bf16=torch.bfloat16, f32=torch.float32)[element]
        worst, where = 0, None
        for m, k in ((1, 1), (1, 31), (31, 129), (129, 257), (257, 4097), (4097, 40), (1, 1000001)):
            for batch_a, batch_b in (((1, 1), (1, 1)), ((2, 3), (2, 3)), ((2, 3), (1, 3))):
                a = operand(*batch_a, m, k, dtype, -k % align)
                b = operand(*batch_b, 1, k, dtype, -k % align)
                problem = Problem80(a, b)
                rows = m * problem.outer * problem.inner
                work = torch.zeros(rows * (split + 1), device="cuda")
                for again in range(2):
                    out = torch.full((problem.outer, problem.inner, m, 1), float("nan"),
                                     device="cuda", dtype=dtype)
                    problem.launch_vector(kernels[name], lanes, split,
                                          cuda.pointer(out) + struct.pack("2i", m, 1), work)
                    want = a.double() @ b.transpose(2, 3).double()
                    # What is added may cancel: beside its size.
                    size = want.norm().clamp_min(want.numel()**0.5 * k**0.5)
                    error = ((out.double() - want).norm() / size).item()
                    if again and not torch.equal(out, before):
                        error = float("nan")
                    before = out
                if not error <= worst:
                    worst, where = error, (m, k, batch_a, batch_b)
        report(worst < (6e-3 if element == "bf16" else 1e-5),
               f"{name}: worst error {worst:.2e} at {where}; {kernels[name].report}")


def check_skinny():
    sources = {}
    for rows in (1, 2, 4):
        for columns in (1, 2, 4):
            sources[f"skinny_{rows}_{columns}"] = source_skinny(f"skinny_{rows}_{columns}", STORE, rows,
                                                            columns, align=1)
    sources["skinny_splade"] = source_skinny("skinny_splade", SPLADE.replace("LOG1P", "log1pf"), 4, 4)
    sources["skinny_loss"] = source_skinny("skinny_loss", LOSS, 2, 2)
    sources["merge_loss"] = cuda.building_blocks("elements", "quick", "accumulators", "columns", "epilogue") + MERGE_LOSS
    kernels = cuda.load(sources)
    for rows in (1, 2, 4):
        for columns in (1, 2, 4):
            worst, where = 0, None
            for m, n, k in ((1, 1, 8), (16 * rows - 3, 129, 264), (16 * rows, 1000, 4096),
                            (1, 4097, 1032)):
                for batch_a, batch_b in (((1, 1), (1, 1)), ((2, 3), (1, 3))):
                    a = operand(*batch_a, m, k, torch.bfloat16)
                    b = operand(*batch_b, n, k, torch.bfloat16)
                    problem = Problem80(a, b)
                    out = torch.full((problem.outer, problem.inner, m, n), float("nan"),
                                     device="cuda", dtype=torch.bfloat16)
                    problem.launch_skinny(kernels[f"skinny_{rows}_{columns}"], rows, columns,
                                        cuda.pointer(out) + struct.pack("2i", m, n))
                    error = error_of(out, a.double() @ b.transpose(2, 3).double())
                    if not error < worst:
                        worst, where = error, (m, n, k, batch_a, batch_b)
            report(worst < 6e-3, f"skinny {rows} {columns}: worst error {worst:.2e} at {where}; " +
                   kernels[f"skinny_{rows}_{columns}"].report)
    m, n, k = 50, 1001, 264
    a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
    bias, mask = torch.randn(n, device="cuda").bfloat16(), torch.rand(m, device="cuda")
    most = torch.full((n,), float("nan"), device="cuda")
    Problem80(a, b).launch_skinny(kernels["skinny_splade"], 4, 4, cuda.pointer(most) +
                                cuda.pointer(bias) + cuda.pointer(mask) +
                                struct.pack("4i", m, n, 1, 0))
    want = (torch.log1p(torch.relu(a[0, 0].double() @ b[0, 0].double().t() + bias)) *
            mask[:, None]).amax(0)
    report(error_of(most, want) < 1e-4, f"skinny column max: {error_of(most, want):.2e}")
    m, tiles = 30, -(-n // 16)
    a = a[:, :, :m]
    target = torch.randint(0, n, (m,), device="cuda")
    partials = torch.full((m, tiles, 2), float("nan"), device="cuda")
    picked, out = (torch.full((m,), float("nan"), device="cuda") for _ in range(2))
    Problem80(a, b).launch_skinny(kernels["skinny_loss"], 2, 2, cuda.pointer(partials) +
                                cuda.pointer(picked) + cuda.pointer(target) +
                                struct.pack("4i", m, n, tiles, 0))
    kernels["merge_loss"].launch(-(-m // 8), 256, 0, partials, picked, out, m, tiles)
    want = torch.nn.functional.cross_entropy(a[0, 0].double() @ b[0, 0].double().t(), target,
                                             reduction="none")
    report(error_of(out, want) < 1e-4, f"skinny loss: {error_of(out, want):.2e}")


def small():
    """For compute-sanitizer: every mode once, on blocks few enough that each has many tiles."""
    tiled = {f"s{tile_n}_{tb}_{cluster}": (tile_n, tb, cluster)
             for tile_n in (128, 160, 256, 320) for tb in (0, 1, 2) for cluster in (1, 2)
             if (tb, tile_n) not in ((1, 160), (1, 320)) and (tb, tile_n, cluster) != (0, 320, 1)}
    skinny = {f"n{rows}_{split}_{tb}": (rows, split, tb)
              for rows, split, tb in ((16, 8, 0), (32, 1, 1), (64, 4, 0))}
    vector = {f"v{lanes}_{split}": (lanes, split) for lanes, split in ((8, 1), (32, 1), (512, 5))}
    kernels = cuda.load(
        {name: source_90(name, STORE, tile_n=tile_n, tb=tb, cluster=cluster)
         for name, (tile_n, tb, cluster) in tiled.items()} |
        {name: source_skinny_90(name, STORE, *case) for name, case in skinny.items()} |
        {name: source_vector(name, STORE, *case) for name, case in vector.items()} |
        {"folds": source_90("folds", SPLADE.replace("LOG1P", "log1pf"), tile_n=160, tb=2)})
    m, n, k = 600, 520, 200
    a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
    across = b.transpose(2, 3).contiguous()
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    tail = cuda.pointer(out) + struct.pack("2i", m, n)
    for name, (tile_n, tb, cluster) in tiled.items():
        problem = Problem(a, across if tb == 1 else b, tb=tb, tile_n=tile_n, cluster=cluster)
        problem.grid = cluster
        problem.launch(kernels[name], tail)
    bias, mask = torch.randn(n, device="cuda").bfloat16(), torch.rand(m, device="cuda")
    partials = torch.empty(-(-m // 64), n, device="cuda")
    problem = Problem(a, b, tb=2, tile_n=160)
    problem.grid = 2
    problem.launch(kernels["folds"], cuda.pointer(partials) + cuda.pointer(bias) +
                   cuda.pointer(mask) + struct.pack("4i", m, n, -(-m // 64), 0), 1)
    for name, (rows, split, tb) in skinny.items():
        ProblemSkinny90(a[:, :, :rows - 3], across if tb else b, rows, split, tb).launch(
            kernels[name], cuda.pointer(out) + struct.pack("2i", rows - 3, n))
    for name, (lanes, split) in vector.items():
        work = torch.zeros(m * (split + 1), device="cuda")
        Problem80(a, b[:, :, :1]).launch_vector(kernels[name], lanes, split,
                                                cuda.pointer(out) + struct.pack("2i", m, 1), work)
    torch.cuda.synchronize()
