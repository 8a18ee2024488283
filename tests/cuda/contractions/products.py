"""Sources around the contraction kernels, and products that launch them."""

import struct

import torch

import cuda

BLOCKS_90 = ("elements", "quick", "accumulators", "columns", "epilogue", "tile_walk", "prologue", "hopper", "stages", "rounds", "contract_sm90")
BLOCKS_80 = ("elements", "quick", "accumulators", "columns", "epilogue", "tile_walk", "prologue", "mma",
             "operand_sm80", "contract_sm80")
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
typedef ContractSm80<T, {product}, MmaTile<{tile}>, {align_a}, {align_b}, {ta}, {tb}, Store> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)
    {name}(const T* a, const T* b, ContractShape shape, ContractStrides strides, Store store,
           u8* work) {{
  Contract::run(a, b, shape, strides, store, work);
}}
"""

# Rows, columns, rows of a warp, groups, bytes of k, stages, blocks of a multiprocessor, split.
WIDE_80 = (128, 256, 64, 1, 64, 4, 1, 1)
LARGE_80 = (128, 128, 64, 1, 64, 3, 2, 1)
LOW_80 = (128, 128, 32, 1, 64, 3, 1, 1)
SMALL_80 = (64, 64, 32, 2, 128, 4, 2, 1)
SPLIT_80 = (64, 64, 32, 2, 128, 4, 2, 3)


def shared_80(tile, size, align_a, align_b):
    rows, columns, _, _, line, stages, *_ = tile
    return sum(lines * (stages * line + (stages * 16 + 2 * line if align * size < 4 else 0))
               for lines, align in ((rows, align_a), (columns, align_b)))


def source_80(name, epilogue, element="bf16", product=None, align=8, align_a=None, align_b=None,
              ta=False, tb=False, tile=LARGE_80):
    return (cuda.building_blocks(*BLOCKS_80) + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", str(align)) +
            ENTRY_80.format(name=name, product=product or element, tile=", ".join(map(str, tile)),
                            align_a=align_a or align,
                            align_b=align_b or align, ta=str(ta).lower(), tb=str(tb).lower()))


def shared_bytes(tile_n, column_parts=0):
    stages = 4 if tile_n >= 256 else 6
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
typedef ContractSkinny<T, {rows}, {columns}, StoredWeights<T>, Store> Contract;
extern "C" __global__ void __launch_bounds__(256)
    {name}(const T* a, const T* b, ContractShape shape, ContractStrides strides, Store store) {{
  Contract::run(a, StoredWeights<T>{{b, strides}}, shape, strides, store);
}}
"""


def source_skinny(name, epilogue, rows, columns, element="bf16", align=8):
    return (cuda.building_blocks(*BLOCKS_80[:-2], "contract_skinny") + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", str(align)) +
            ENTRY_THIN.format(name=name, rows=rows, columns=columns))


BLOCKS_THIN_90 = (*BLOCKS_90[:-1], "contract_skinny_sm90")
ENTRY_THIN_90 = """
typedef ContractSkinnySm90<T, {rows}, {split}, {tb}, Store> Contract;
extern "C" __global__ void __launch_bounds__(Contract::kThreads) __cluster_dims__({split}, 1, 1)
    {name}(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
           const __grid_constant__ ContractShape shape, const __grid_constant__ Store store) {{
  Contract::run(a, b, shape, store);
}}
"""


def source_skinny_90(name, epilogue, rows, split, tb=0, element="bf16", align=8):
    return (cuda.building_blocks(*BLOCKS_THIN_90) + f"typedef {element} T;\n" +
            epilogue.replace("ALIGN", str(align)) +
            ENTRY_THIN_90.format(name=name, rows=rows, split=split, tb=tb))


class ProblemSkinny90(Problem):
    def __init__(self, a, b, rows, split, tb=0):
        super().__init__(a, b, tb=tb, tile_n=128, cluster=1)
        self.map_a = self.map_of(a, (64, rows))
        self.map_b = self.map_of(b, (64, 64))
        self.grid = (-(-self.n // 64) * split, self.outer * self.inner, 1)
        self.threads = 160
        stage = (2 if rows == 64 else 4) * (rows + 64) * 128
        self.shared = ((104 << 10) // stage) * (stage + 16)

    def launch(self, kernel, epilogue):
        kernel.launch(self.grid, self.threads, self.shared, self.map_a, self.map_b, self.shape,
                      epilogue)


BLOCKS_VECTOR = ("elements", "quick", "accumulators", "columns", "epilogue", "tile_walk", "contract_vector")
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

    def __init__(self, a, b, ta=False, tb=False, group=8, tile=LARGE_80, aligns=(8, 8)):
        self.tile = tile
        self.shared = shared_80(tile, a.element_size(), *aligns)
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
        tiles = -(-self.m // tile[0]) * -(-self.n // tile[1]) * self.outer * self.inner
        self.grid = tiles * tile[7]
        self.work = torch.zeros(tiles * (tile[7] * tile[0] * tile[1] + 1) if tile[7] > 1 else 1,
                                device="cuda")

    def launch(self, kernel, epilogue):
        rows, columns, warp_rows, groups, *_ = self.tile
        threads = 32 * groups * (rows // warp_rows) * (columns // 64)
        kernel.launch(self.grid, threads, self.shared, *self.operands, self.shape, self.strides,
                      epilogue, self.work)

    def launch_vector(self, kernel, lanes, split, epilogue, work):
        """b: [outer, inner, 1, k]; work: zeros, (split + 1) floats a row."""
        rows = self.m * self.outer * self.inner
        threads = 512 if lanes > 32 else 256
        kernel.launch(-(-rows * lanes // threads) * split, threads, 0, *self.operands, self.shape,
                      self.strides, epilogue, work)

    def launch_skinny(self, kernel, rows, columns, epilogue):
        kernel.launch((-(-self.n // (8 * columns)), self.outer * self.inner, 1), 256,
                      8 * 16 * rows * 8 * columns * 4, *self.operands, self.shape, self.strides,
                      epilogue)


def operand(outer, inner, rows, columns, dtype, pad=0):
    t = torch.randn(outer, inner, rows, columns + pad, device="cuda").to(dtype)
    return t[..., :columns]


def tflops(m, n, k, ms):
    return 2 * m * n * k / ms * 1e-9
