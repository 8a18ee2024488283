"""Checks the contraction kernels against float64 and times them against PyTorch (cuBLASLt)."""

import struct
import sys

import torch

import cuda

BLOCKS_90 = ("elements", "quick", "epilogue", "tile_walk", "hopper", "contract_sm90")
BLOCKS_80 = ("elements", "quick", "epilogue", "tile_walk", "mma", "contract_sm80")

STORE = """
struct Store {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  T* out;
  int m, n;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    store8<ALIGN>(out + (batch * (i64)m + row) * n + column, valid, v);
  }
};
"""
BIAS_GELU = """
struct Store {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  T* out;
  int m, n;
  const T* bias;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    float w[8];
    load8<8>(bias + column, valid, w);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      v[i] = quick_gelu_tanh(v[i] + w[i]);
    }
    store8<ALIGN>(out + (batch * (i64)m + row) * n + column, valid, v);
  }
};
"""
BIAS_RELU = BIAS_GELU.replace("quick_gelu_tanh(v[i] + w[i])", "fmaxf(v[i] + w[i], 0.0f)")
SPLADE = """
struct Store {
  typedef NoReduction Rows;
  typedef Max Columns;
  float* partials;
  const T* bias;
  const float* mask;
  int m, n, strips;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    float w[8];
    load8<8>(bias + column, valid, w);
    const float keep = load_input(mask + batch * (i64)m + row);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = LOG1P(fmaxf(v[i] + w[i], 0.0f)) * keep;
  }
  __device__ void column_done(int batch, int strip, int column, Max::State s) const {
    partials[((i64)batch * strips + strip) * n + column] = s.part[0];
  }
};
"""
MERGE_SPLADE = """
extern "C" __global__ void __launch_bounds__(256)
    merge_splade(const Max::State* partials, T* out, int batches, int strips, int n) {
  merge_columns<Max>(partials, batches, strips, n, [=](int o, int i, Max::State s) {
    store_as(out[(i64)o * n + i], s.part[0]);
  });
}
"""
LOSS = """
struct Store {
  typedef LogSumExp Rows;
  typedef NoReduction Columns;
  LogSumExp::State* partials;
  float* picked;
  const i64* target;
  int m, n, tiles;
  template <class Valid>
  __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const {
    const i64 at = load_input(target + row) - column;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at == i && i < valid) picked[row] = v[i];
    }
  }
  __device__ void row_done(int batch, int row, int tile, LogSumExp::State s) const {
    partials[(i64)row * tiles + tile] = s;
  }
};
"""
MERGE_LOSS = """
extern "C" __global__ void __launch_bounds__(256)
    merge_loss(const LogSumExp::State* partials, const float* picked, float* loss, int rows,
               int tiles) {
  merge_rows<LogSumExp>(partials, rows, tiles, [=](i64 row, LogSumExp::State s) {
    loss[row] = LogSumExp::result(s) - picked[row];
  });
}
"""
ENTRY = """
typedef ContractSm90<T, {tile_n}, {cluster}, {ta}, LinesOfB({tb}), Store> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, 1) __cluster_dims__({cluster}, 1, 1)
    {name}(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
           const __grid_constant__ ContractShape shape, const __grid_constant__ Store store) {{
  Contract::run(a, b, shape, store);
}}
"""


def source_90(name, epilogue, element="bf16", tile_n=128, cluster=2, ta=False, tb=False, align=8):
    return (cuda.building_blocks(*BLOCKS_90) +
            f"typedef {element} T;\n" + epilogue.replace("ALIGN", str(align)) +
            ENTRY.format(name=name, tile_n=tile_n, cluster=cluster, ta=int(ta), tb=int(tb)))


ENTRY_80 = """
typedef ContractSm80<T, {product}, {align_a}, {align_b}, {ta}, {tb}, Store> Contract;
extern "C" __global__ void __launch_bounds__(256, Contract::kBlocksPerSm)
    {name}(const T* a, const T* b, ContractShape shape, ContractStrides strides, Store store) {{
  Contract::run(a, b, shape, strides, store);
}}
"""


def source_80(name, epilogue, element="bf16", product=None, align=8, align_a=None, align_b=None,
              ta=False, tb=False):
    return (cuda.building_blocks(*BLOCKS_80) + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", str(align)) +
            ENTRY_80.format(name=name, product=product or element, align_a=align_a or align,
                            align_b=align_b or align, ta=str(ta).lower(), tb=str(tb).lower()))


def shared_bytes(tile_n, column_parts=0):
    stages = 4 if tile_n == 256 else 6
    return stages * (128 + tile_n) * 128 + column_parts * 32 * tile_n + 16 * stages


class Problem:
    """a: [outer, inner, m, k] or [.., k, m]; b: [.., n, k], or [.., k, n] where tb is 1; views may
    broadcast. tb = 2: [n, k], its lines fetched in the order in which lanes hold columns."""

    def __init__(self, a, b, ta=False, tb=False, tile_n=128, cluster=2, group=8):
        self.ta, self.tb, self.tile_n, self.cluster = ta, tb, tile_n, cluster
        k_of_a = a.shape[2] if ta else a.shape[3]
        self.m = a.shape[3] if ta else a.shape[2]
        self.n = b.shape[3] if tb == 1 else b.shape[2]
        self.k = k_of_a
        self.outer, self.inner = max(a.shape[0], b.shape[0]), max(a.shape[1], b.shape[1])
        steps = [int(t.shape[d] > 1) for t in (a, b) for d in (0, 1)]
        self.shape = struct.pack("11i", self.m, self.n, self.k, self.outer, self.inner, *steps,
                                 group, 0)
        self.map_a = self.map_of(a, (64, 64) if ta else (64, 128))
        if tb == 2:
            line = b.stride(2)
            self.map_b = cuda.tensor_map(b, [self.k, 2, self.n // 8, 4], [line, 8 * line, 2 * line],
                                         [64, 2, 4, 4])
        else:
            self.map_b = self.map_of(b, (64, 64) if tb == 1 else (64, tile_n // cluster))
        units = -(-self.m // (128 * cluster)) * -(-self.n // tile_n) * self.outer * self.inner
        self.grid = min(torch.cuda.get_device_properties(0).multi_processor_count // cluster,
                        units) * cluster

    @staticmethod
    def map_of(t, box):
        strides = [t.stride(2), t.stride(1) or 8, t.stride(0) or 8]
        return cuda.tensor_map(t, [t.shape[3], t.shape[2], t.shape[1], t.shape[0]], strides,
                               [*box, 1, 1])

    def launch(self, kernel, epilogue, column_parts=0):
        kernel.launch(self.grid, 384, shared_bytes(self.tile_n, column_parts), self.map_a,
                      self.map_b, self.shape, epilogue)


ENTRY_THIN = """
typedef ContractThin<T, {rows}, {columns}, Store> Contract;
extern "C" __global__ void __launch_bounds__(256)
    {name}(const T* a, const T* b, ContractShape shape, ContractStrides strides, Store store) {{
  Contract::run(a, b, shape, strides, store);
}}
"""


def source_thin(name, epilogue, rows, columns, element="bf16", align=8):
    return (cuda.building_blocks(*BLOCKS_80[:-1], "contract_thin") + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", str(align)) +
            ENTRY_THIN.format(name=name, rows=rows, columns=columns))


BLOCKS_THIN_90 = ("elements", "quick", "epilogue", "tile_walk", "hopper", "contract_thin_sm90")
ENTRY_THIN_90 = """
typedef ContractThinSm90<T, {rows}, {tile_n}, {split}, {tb}, Store> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads) __cluster_dims__({split}, 1, 1)
    {name}(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
           const __grid_constant__ ContractShape shape, const __grid_constant__ Store store) {{
  Contract::run(a, b, shape, store);
}}
"""


def source_thin_90(name, epilogue, rows, tile_n, split, tb=0, element="bf16", align=8):
    return (cuda.building_blocks(*BLOCKS_THIN_90) + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", str(align)) +
            ENTRY_THIN_90.format(name=name, rows=rows, tile_n=tile_n, split=split, tb=tb))


class ProblemThin90(Problem):
    def __init__(self, a, b, rows, tile_n, split, tb=0):
        super().__init__(a, b, tb=tb, tile_n=128, cluster=1)
        self.map_a = self.map_of(a, (64, rows))
        self.map_b = self.map_of(b, (64, 64) if tb else (64, tile_n))
        self.grid = (-(-self.n // tile_n) * split, self.outer * self.inner, 1)
        self.threads = 2 * tile_n + 32
        stage = (rows + tile_n) * 128
        self.shared = ((104 << 10) // stage) * (stage + 16)

    def launch(self, kernel, epilogue):
        kernel.launch(self.grid, self.threads, self.shared, self.map_a, self.map_b, self.shape,
                      epilogue)


BLOCKS_VECTOR = ("elements", "quick", "epilogue", "tile_walk", "contract_vector")
ENTRY_VECTOR = """
typedef ContractVector<T, {align}, {lanes}, {split}, Store> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads)
    {name}(const T* a, const T* b, ContractShape shape, ContractStrides strides, Store store,
           u8* work) {{
  Contract::run(a, b, shape, strides, store, work);
}}
"""


def source_vector(name, epilogue, lanes, split, element="bf16", align=8):
    return (cuda.building_blocks(*BLOCKS_VECTOR) + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", "1") +
            ENTRY_VECTOR.format(name=name, align=align, lanes=lanes, split=split))


class Problem80:
    """The same for contract_sm80, without tensor maps."""

    def __init__(self, a, b, ta=False, tb=False, group=8):
        self.m, self.k = (a.shape[3], a.shape[2]) if ta else (a.shape[2], a.shape[3])
        self.n = b.shape[3] if tb else b.shape[2]
        self.outer, self.inner = max(a.shape[0], b.shape[0]), max(a.shape[1], b.shape[1])
        steps = [int(t.shape[d] > 1) for t in (a, b) for d in (0, 1)]
        self.operands = (a, b)
        self.shape = struct.pack("11i", self.m, self.n, self.k, self.outer, self.inner, *steps,
                                 group, 0)
        self.strides = struct.pack("6q", *[
            t.stride(2) if d == 2 else t.stride(d) if t.shape[d] > 1 else 0
            for t in (a, b) for d in (2, 1, 0)])
        self.grid = -(-self.m // 128) * -(-self.n // 128) * self.outer * self.inner

    def launch(self, kernel, epilogue):
        kernel.launch(self.grid, 256, 65536, *self.operands, self.shape, self.strides, epilogue)

    def launch_vector(self, kernel, lanes, split, epilogue, work):
        """b: [outer, inner, 1, k]; work: zeros, (split + 1) floats a row."""
        rows = self.m * self.outer * self.inner
        threads = 512 if lanes > 32 else 256
        kernel.launch(-(-rows * lanes // threads) * split, threads, 0, *self.operands, self.shape,
                      self.strides, epilogue, work)

    def launch_thin(self, kernel, rows, columns, epilogue):
        kernel.launch((-(-self.n // (8 * columns)), self.outer * self.inner, 1), 256,
                      8 * 16 * rows * 8 * columns * 4, *self.operands, self.shape, self.strides,
                      epilogue)


def error_of(got, want):
    """||got - want|| / ||want||; NaN does not pass."""
    got, want = got.double(), want.double()
    return ((got - want).norm() / want.norm().clamp_min(1e-30)).item()


def report(ok, text):
    print(("ok   " if ok else "FAIL ") + text, flush=True)
    report.failures += not ok


report.failures = 0


def operand(outer, inner, rows, columns, dtype, pad=0):
    t = torch.randn(outer, inner, rows, columns + pad, device="cuda").to(dtype)
    return t[..., :columns]


def check_plain():
    cases = {f"plain_{int(ta)}{tb}_{tile_n}_{cluster}": dict(tile_n=tile_n, cluster=cluster, ta=ta,
                                                            tb=tb)
             for ta in (False, True) for tb in (0, 1, 2) for tile_n in (128, 160, 256)
             for cluster in (1, 2) if (tb, tile_n) != (1, 160)}
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
            for element, product, aligns in (("bf16", "bf16", (8, 1)), ("f32", "f32", (4,)),
                                             ("f32", "exact_f32", (4, 1))):
                for align in aligns:
                    cases[f"c80_{product}_{align}_{int(ta)}{int(tb)}"] = dict(
                        element=element, product=product, align_a=align, align_b=align, ta=ta,
                        tb=tb)
    cases["c80_f16"] = dict(element="f16", align_a=2, align_b=4)
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
                problem = Problem80(a, b, ta, tb, group=3)
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


def check_thin_90():
    cases = {f"thin90_{rows}_{tile_n}_{split}_{tb}": (rows, tile_n, split, tb)
             for rows in (16, 32, 64) for tile_n in (64, 128) for split in (1, 2, 4, 8)
             for tb in (0, 1)}
    sources = {name: source_thin_90(name, STORE, *case, align=1) for name, case in cases.items()}
    sources["thin90_loss"] = source_thin_90("thin90_loss", LOSS, 32, 64, 4)
    sources["thin90_f16"] = source_thin_90("thin90_f16", STORE, 16, 64, 2, element="f16", align=1)
    sources["merge_loss"] = cuda.building_blocks("elements", "quick", "epilogue") + MERGE_LOSS
    kernels = cuda.load(sources)
    cases["thin90_f16"] = (16, 64, 2, 0)
    for name, (rows, tile_n, split, tb) in cases.items():
        worst, where = 0, None
        dtype = torch.float16 if name.endswith("f16") else torch.bfloat16
        for m, n, k in ((1, 1, 8), (rows - 3, 129, 264), (rows, 1000, 4096), (1, 4097, 1032),
                        (min(rows, 31), 257, 4104)):
            for batch_a, batch_b in (((1, 1), (1, 1)), ((2, 3), (1, 3))):
                a = operand(*batch_a, m, k, dtype)
                b = operand(*batch_b, k, n, dtype, -n % 8) if tb else operand(*batch_b, n, k, dtype)
                problem = ProblemThin90(a, b, rows, tile_n, split, tb)
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
    ProblemThin90(a, b, 32, 64, 4).launch(kernels["thin90_loss"], cuda.pointer(partials) +
                                          cuda.pointer(picked) + cuda.pointer(target) +
                                          struct.pack("4i", m, n, tiles, 0))
    kernels["merge_loss"].launch(-(-m // 8), 256, 0, partials, picked, out, m, tiles)
    want = torch.nn.functional.cross_entropy(a[0, 0].double() @ b[0, 0].double().t(), target,
                                             reduction="none")
    report(error_of(out, want) < 1e-4, f"thin90 loss: {error_of(out, want):.2e}")


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


def check_thin():
    sources = {}
    for rows in (1, 2, 4):
        for columns in (1, 2, 4):
            sources[f"thin_{rows}_{columns}"] = source_thin(f"thin_{rows}_{columns}", STORE, rows,
                                                            columns, align=1)
    sources["thin_splade"] = source_thin("thin_splade", SPLADE.replace("LOG1P", "log1pf"), 4, 4)
    sources["thin_loss"] = source_thin("thin_loss", LOSS, 2, 2)
    sources["merge_loss"] = cuda.building_blocks("elements", "quick", "epilogue") + MERGE_LOSS
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
                    problem.launch_thin(kernels[f"thin_{rows}_{columns}"], rows, columns,
                                        cuda.pointer(out) + struct.pack("2i", m, n))
                    error = error_of(out, a.double() @ b.transpose(2, 3).double())
                    if not error < worst:
                        worst, where = error, (m, n, k, batch_a, batch_b)
            report(worst < 6e-3, f"thin {rows} {columns}: worst error {worst:.2e} at {where}; " +
                   kernels[f"thin_{rows}_{columns}"].report)
    m, n, k = 50, 1001, 264
    a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
    bias, mask = torch.randn(n, device="cuda").bfloat16(), torch.rand(m, device="cuda")
    most = torch.full((n,), float("nan"), device="cuda")
    Problem80(a, b).launch_thin(kernels["thin_splade"], 4, 4, cuda.pointer(most) +
                                cuda.pointer(bias) + cuda.pointer(mask) +
                                struct.pack("4i", m, n, 1, 0))
    want = (torch.log1p(torch.relu(a[0, 0].double() @ b[0, 0].double().t() + bias)) *
            mask[:, None]).amax(0)
    report(error_of(most, want) < 1e-4, f"thin column max: {error_of(most, want):.2e}")
    m, tiles = 30, -(-n // 16)
    a = a[:, :, :m]
    target = torch.randint(0, n, (m,), device="cuda")
    partials = torch.full((m, tiles, 2), float("nan"), device="cuda")
    picked, out = (torch.full((m,), float("nan"), device="cuda") for _ in range(2))
    Problem80(a, b).launch_thin(kernels["thin_loss"], 2, 2, cuda.pointer(partials) +
                                cuda.pointer(picked) + cuda.pointer(target) +
                                struct.pack("4i", m, n, tiles, 0))
    kernels["merge_loss"].launch(-(-m // 8), 256, 0, partials, picked, out, m, tiles)
    want = torch.nn.functional.cross_entropy(a[0, 0].double() @ b[0, 0].double().t(), target,
                                             reduction="none")
    report(error_of(out, want) < 1e-4, f"thin loss: {error_of(out, want):.2e}")


def time_thin():
    cases = {}
    for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (1024, 4096), (32000, 4096)):
        tile_n = 128 if -(-n // 128) * 2 >= 132 else 64
        split = 1
        while split < 8 and -(-n // tile_n) * split * 2 <= 132 and k // (2 * split) >= 256:
            split *= 2
        for m in (1, 16, 32, 64):
            cases[m, n, k] = (max(16, m), tile_n, split)
    kernels = cuda.load({"thin_%d_%d_%d" % c: source_thin_90("thin_%d_%d_%d" % c, STORE, *c)
                         for c in set(cases.values())})
    for (m, n, k), case in cases.items():
        a, b = operand(1, 1, m, k, torch.bfloat16), operand(1, 1, n, k, torch.bfloat16)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        problem = ProblemThin90(a, b, *case)
        work = {"ours": lambda: problem.launch(kernels["thin_%d_%d_%d" % case],
                                               cuda.pointer(out) + struct.pack("2i", m, n)),
                "cublas": lambda: torch.mm(a[0, 0], b[0, 0].t(), out=out),
                "silu alone": lambda: torch.nn.functional.silu(out)}
        print(f"thin {m} x {n} x {k}: " + ", ".join(
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
        problem = Problem80(a, b)
        out = out32 if dtype == torch.float32 else out16
        work[name] = lambda p=problem, f=kernels[f"t80_{name}"], o=out: p.launch(
            f, cuda.pointer(o) + struct.pack("2i", n, n))
    for name, dtype in (("cublas bf16", torch.bfloat16), ("cublas f32", torch.float32)):
        a, b = operand(1, 1, n, n, dtype)[0, 0], operand(1, 1, n, n, dtype)[0, 0]
        work[name] = lambda a=a, b=b: torch.mm(a, b.t())
    print("sm_80 path, 4096^3: " + ", ".join(f"{name} {ms:.3f} ms {tflops(n, n, n, ms):.0f} TFLOP/s"
                                             for name, ms in cuda.medians_ms(work, 7).items()))


def tflops(m, n, k, ms):
    return 2 * m * n * k / ms * 1e-9


BIAS_RESIDUAL = BIAS_RELU.replace("fmaxf(v[i] + w[i], 0.0f)", "v[i] + w[i] + r[i]").replace(
    "const T* bias;", "const T* bias;\n  const T* residual;").replace("float w[8];", """float w[8], r[8];
    load8<8>(residual + (batch * (i64)m + row) * n + column, valid, r);""")
BIAS_GELU_EXACT = BIAS_GELU.replace("quick_gelu_tanh(", "quick_gelu(")
SHAPES = ((8192, 8192, 8192), (8192, 16384, 4096), (4096, 4096, 4096), (16384, 4096, 1024),
          (16384, 16384, 2048), (8192, 4096, 4096), (8192, 14336, 4096), (8192, 4096, 14336),
          (16384, 8192, 2048), (16384, 2048, 8192), (16384, 2048, 2048))


def group_of(k):
    """As src/codegen/contraction.cpp has it, for clusters of two."""
    return min(64, max(8, (16 << 20) // (512 * k)))


def time_plain(pause_cycles=3000000):
    """By turns, with pauses: a product alone meets a cooler GPU than one among many."""
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


def splade():
    sources = {}
    for name, log1p in (("splade_quick", "quick_log1p"), ("splade_precise", "log1pf")):
        sources[name] = source_90(name, SPLADE.replace("LOG1P", log1p))
        sources[name + "_160"] = source_90(name + "_160", SPLADE.replace("LOG1P", log1p),
                                           tile_n=160)
    sources["merge_splade"] = (cuda.building_blocks("elements", "quick", "epilogue") +
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
        "merge_splade": cuda.building_blocks("elements", "quick", "epilogue") + "typedef bf16 T;\n" +
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
        "merge_loss": cuda.building_blocks("elements", "quick", "epilogue") + MERGE_LOSS})
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


def small():
    """For compute-sanitizer: every mode once, on blocks few enough that each has many tiles."""
    tiled = {f"s{tile_n}_{tb}_{cluster}": (tile_n, tb, cluster)
             for tile_n in (128, 160, 256) for tb in (0, 1, 2) for cluster in (1, 2)
             if (tb, tile_n) != (1, 160)}
    thin = {f"n{rows}_{tile_n}_{split}_{tb}": (rows, tile_n, split, tb)
            for rows, tile_n, split, tb in ((16, 64, 8, 0), (32, 128, 1, 1), (64, 128, 4, 0))}
    vector = {f"v{lanes}_{split}": (lanes, split) for lanes, split in ((8, 1), (32, 1), (512, 5))}
    kernels = cuda.load(
        {name: source_90(name, STORE, tile_n=tile_n, tb=tb, cluster=cluster)
         for name, (tile_n, tb, cluster) in tiled.items()} |
        {name: source_thin_90(name, STORE, *case) for name, case in thin.items()} |
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
    for name, (rows, tile_n, split, tb) in thin.items():
        ProblemThin90(a[:, :, :rows - 3], across if tb else b, rows, tile_n, split, tb).launch(
            kernels[name], cuda.pointer(out) + struct.pack("2i", rows - 3, n))
    for name, (lanes, split) in vector.items():
        work = torch.zeros(m * (split + 1), device="cuda")
        Problem80(a, b[:, :, :1]).launch_vector(kernels[name], lanes, split,
                                                cuda.pointer(out) + struct.pack("2i", m, 1), work)
    torch.cuda.synchronize()


if __name__ == "__main__":
    torch.manual_seed(1)
    for what in sys.argv[1:] or ("check_plain", "check_sm80", "check_thin", "check_thin_90", "check_vector",
                                 "time_plain", "time_hot",
                                 "time_sm80", "time_thin", "time_vector", "splade", "loss"):
        globals()[what]()
    sys.exit(report.failures > 0)
