"""NVRTC and the driver through ctypes, beside PyTorch: compiles kernels/*.cuh and launches them."""

import concurrent.futures
import ctypes
import pathlib
import struct

import torch

KERNELS = pathlib.Path(__file__).resolve().parents[3] / "kernels"
_cuda = ctypes.CDLL("libcuda.so.1")
_maps_of_dtype = {torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}


def _open_nvrtc():
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit("NVRTC not found")


_nvrtc = _open_nvrtc()


def check(result, what):
    if result != 0:
        text = ctypes.c_char_p()
        _cuda.cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"{what}: error {result} {text.value}")


def building_blocks(*names):
    return "\n".join((KERNELS / f"{name}.cuh").read_text() for name in names)


def compile_source(text, architecture):
    program = ctypes.c_void_p()
    _nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
    array = (ctypes.c_char_p * len(options))(*options)
    result = _nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    _nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    _nvrtc.nvrtcGetProgramLog(program, log)
    if result != 0:
        raise RuntimeError(log.value.decode())
    _nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    _nvrtc.nvrtcGetCUBIN(program, image)
    return image.raw, log.value.decode()


class Kernel:
    def __init__(self, module, name, log):
        self.module = module
        self.function = ctypes.c_void_p()
        check(_cuda.cuModuleGetFunction(ctypes.byref(self.function), module, name.encode()), name)
        report = log.split(f"'{name}'", 1)[-1].split("Compiling entry", 1)[0]
        self.report = " ".join(
            line.split("info    :")[-1].strip() for line in report.splitlines()
            if "registers" in line or "spill" in line)

    def resident_clusters(self, cluster, block, shared):
        """How many clusters of this kernel run at once: fewer than the multiprocessors would hold,
        where a cluster does not fit what is left of a group of them."""
        check(_cuda.cuFuncSetAttribute(self.function, 8, shared), "shared memory")
        config = struct.pack("7I4xQQI4x", cluster, 1, 1, block, 1, 1, shared, 0, 0, 0)
        count = ctypes.c_int()
        check(_cuda.cuOccupancyMaxActiveClusters(
            ctypes.byref(count), self.function, ctypes.create_string_buffer(config, len(config))),
            "cuOccupancyMaxActiveClusters")
        return count.value

    def launch(self, grid, block, shared, *arguments):
        if shared > 48 << 10:
            check(_cuda.cuFuncSetAttribute(self.function, 8, shared), "shared memory")
        holders = []
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                data = struct.pack("Q", argument.data_ptr())
            elif isinstance(argument, bytes):
                data = argument
            elif isinstance(argument, float):
                data = struct.pack("f", argument)
            else:
                data = struct.pack("i", argument)
            holders.append(ctypes.create_string_buffer(data, len(data)))
        pointers = (ctypes.c_void_p * len(holders))(*[ctypes.addressof(h) for h in holders])
        grid = (grid, 1, 1) if isinstance(grid, int) else grid
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(_cuda.cuLaunchKernel(self.function, *grid, block, 1, 1, shared, stream, pointers,
                                   None), "launch")


def load(sources, architecture="sm_90a"):
    """{name: text} -> {name: Kernel}; each text is a module with that one entry."""
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    kernels = {}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = {name: pool.submit(compile_source, text, architecture)
                for name, text in sources.items()}
        for name, job in jobs.items():
            image, log = job.result()
            module = ctypes.c_void_p()
            check(_cuda.cuModuleLoadData(ctypes.byref(module), image), "module")
            kernels[name] = Kernel(module, name, log)
    return kernels


def tensor_map(tensor, extents, strides, box):
    """extents fastest first, strides in elements of all but the fastest."""
    size = tensor.element_size()
    storage = ctypes.create_string_buffer(128 + 64)
    address = (ctypes.addressof(storage) + 63) & ~63
    rank = len(extents)
    check(_cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(address), _maps_of_dtype[tensor.dtype], rank,
        ctypes.c_void_p(tensor.data_ptr()), (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * (rank - 1))(*[s * size for s in strides]),
        (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*([1] * rank)), 0, 3, 3, 0),
        f"tensor map {extents} {strides} {box}")
    return ctypes.string_at(address, 128)


def pointer(tensor):
    return struct.pack("Q", tensor.data_ptr())


def medians_ms(work, samples=15, warm_up=3, pause_cycles=0):
    """{name: callable} -> {name: median device time}. They alternate, so that all run at the same
    clocks (a large matrix product runs into the power limit); the L2 is swept by loads in between,
    and the GPU does nothing for so many cycles."""
    sweep = torch.empty(1 << 28, dtype=torch.uint8, device="cuda").random_(0, 2).view(torch.int64)
    for _ in range(warm_up):
        for each in work.values():
            each()
    torch.cuda.synchronize()
    events = {name: [] for name in work}
    for _ in range(samples):
        for name, each in work.items():
            sweep.max()
            if pause_cycles:
                torch.cuda._sleep(pause_cycles)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            each()
            end.record()
            events[name].append((begin, end))
        torch.cuda.synchronize()
    return {name: sorted(b.elapsed_time(e) for b, e in pairs)[samples // 2]
            for name, pairs in events.items()}
