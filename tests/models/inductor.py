"""Counts what PyTorch's Inductor moves on .pt2 files, beside fusecalc's plan `compiler`.

usage: inductor.py FUSECALC FILE...
       inductor.py --tensors FUSECALC FILE...
       inductor.py --kernels FILE

Needs PyTorch 2.13, no GPU and no weights: each program is lowered with tensors without elements and scheduled as for
Triton, whose kernels normalise rows in one pass as on a GPU; nothing is compiled or run. Inductor's count (GraphLowering.count_bytes) is that of the kernels that it
schedules and of the library calls between them. It counts tables of which a kernel looks up rows in full; the second
column has the rows instead. --kernels lists what each of Inductor's kernels moves. --tensors names what is apart:
tensors are grouped by their size, as both sides call them differently, and each group says how often its tensors are
read or written, how many bytes that are, and which tensors these are.
"""
import collections
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import torch
from torch._inductor import compile_fx, config
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode


def on_cpu(graph_module):
    """Programs that were exported on the meta device make their constants there."""
    for node in graph_module.graph.nodes:
        for name, value in node.kwargs.items():
            if name == "device" and value is not None:
                node.update_kwarg(name, torch.device("cpu"))
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module


def graph_of(path):
    """The graph alone: the classes of the model's arguments and results are not needed."""
    from torch._export.serde import serialize

    serialize.treespec_loads = lambda _: torch.utils._pytree.tree_structure(0)
    return torch.export.load(path).graph_module


def rows_of_tables(graph):
    """Inputs that are looked up in: the most bytes that a look-up touches."""
    touched = {}
    for node in graph.nodes:
        if node.target in (torch.ops.aten.embedding.default, torch.ops.aten.index.Tensor):
            table = node.args[0]
            if table.op == "placeholder":
                rows = node.meta["val"]
                touched[table.name] = max(touched.get(table.name, 0), rows.numel() * rows.element_size())
    return touched


class Group:
    """Tensors of one size: the bytes that kernels move of them, and how often each is accessed."""

    def __init__(self):
        self.moved = 0
        self.accesses = collections.Counter()

    def add(self, name, moved):
        self.moved += moved
        self.accesses[name] += 1

    def told(self):
        if not self.moved:
            return "-"
        names = [name if times == 1 else f"{times} x {name}" for name, times in self.accesses.most_common(3)]
        more = len(self.accesses) - len(names)
        return f"{self.moved / 1e6:.2f} MB: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")


def groups_of_inductor(graph, touched):
    groups = collections.defaultdict(Group)
    for node in graph.scheduler.nodes:
        for name, moved in node.get_read_write_buffer_accesses(True, True).items():
            buffer = graph.get_buffer(name)
            layout = buffer.maybe_get_layout()
            if layout is None or moved == 0:
                continue
            if not node.is_extern():
                moved = min(moved, touched.get(name, moved))
            size = int(layout.storage_size()) * layout.dtype.itemsize
            groups[size].add(name_of(buffer), moved)
    return groups


def name_of(buffer):
    """The node that a buffer holds the result of; the last one where it came from several."""
    origin = getattr(buffer, "get_origin_node", lambda: None)()
    origins = [origin] if origin else sorted(getattr(buffer, "origins", ()))
    return str(origins[-1]) if origins else buffer.get_name()


def groups_of_fusecalc(result):
    kernels = result["plans"]["compiler"]["kernels"]
    accesses = [access for kernel in kernels for part in ("reads", "writes") for access in kernel[part].items()]
    sizes = collections.Counter()
    for name, moved in accesses:
        sizes[name] = max(sizes[name], moved)
    for name, tensor in result["inputs"].items():
        bits = int(re.search(r"\d+", tensor["dtype"]).group()) if tensor["dtype"] != "bool" else 8
        sizes[name] = math.prod(tensor["shape"]) * bits // 8
    groups = collections.defaultdict(Group)
    for name, moved in accesses:
        groups[sizes[name]].add(name, moved)
    return groups


def name_differences(name, inductor, fusecalc):
    """What makes up the difference, by groups that are 1 % of the traffic or more."""
    total = sum(group.moved for group in inductor.values())
    apart = {size: fusecalc[size].moved - inductor[size].moved for size in {*inductor, *fusecalc}}
    for size in sorted(apart, key=lambda size: -abs(apart[size])):
        if abs(apart[size]) < total / 100:
            break
        print(f"| {name} | {size / 1e6:.3f} MB | {apart[size] / 1e6:+.2f} MB | {inductor[size].told()} "
              f"| {fusecalc[size].told()} |", flush=True)


def count(path, listed=False):
    module = on_cpu(graph_of(path))
    totals = []

    def lower(inner, inputs, **_):
        compile_fx.view_to_reshape(inner)
        mode = compile_fx.fake_tensor_prop(inner, inputs)
        compile_fx._recursive_record_original_output_strides(inner)
        with V.set_fake_mode(mode):
            compile_fx._recursive_post_grad_passes(inner, is_inference=True)
        graph = GraphLowering(inner, example_inputs=inputs, shape_env=mode.shape_env, is_inference=True)
        with V.set_fake_mode(mode), V.set_graph_handler(graph), V.set_debug_handler(DebugContext()):
            graph.run(*inputs)
            graph.init_wrapper_code()
            graph._update_scheduler()
            total, nodes, _ = graph.count_bytes()
            touched = rows_of_tables(inner.graph)
            beyond = sum(max(0, bytes_ - touched[name]) for node in graph.scheduler.nodes
                         for name, bytes_ in node.get_read_write_buffer_accesses(True, False).items()
                         if name in touched and not node.is_extern())
            if listed:
                for node, quarter in nodes:
                    inside = [name_of(each.node) for each in node.get_nodes() if each.node is not None]
                    print(f"{4 * quarter / 1e6:12.3f} MB  {' '.join(inside)}")
            totals.append((total, total - beyond, len(nodes), groups_of_inductor(graph, touched)))
        return inner.forward

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        inputs = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                meta = node.meta["val"]
                if isinstance(meta, torch.Tensor):
                    shape, strides = ([int(each) for each in part] for part in (meta.shape, meta.stride()))
                    inputs.append(torch.empty_strided(shape, strides, dtype=meta.dtype, device="cpu"))
                else:
                    inputs.append(meta)
        with V.set_fake_mode(mode):
            compile_fx.compile_fx(module, inputs, inner_compile=lower)
    return totals[0]


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore")
    config.cpu_backend = "triton"
    config.layout_optimization = False  # what convolutions read stays as it is
    if sys.argv[1] == "--kernels":
        count(sys.argv[2], listed=True)
        return 0
    tensors = sys.argv[1] == "--tensors"
    if tensors:
        del sys.argv[1]
        print("| model | tensors of | apart | Inductor | compiler |\n|---|---:|---:|---|---|")
    else:
        print("| model | Inductor | rows only | compiler | apart |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        for path in sys.argv[2:]:
            name = pathlib.Path(path).name.removesuffix(".pt2")
            try:
                total, rows, kernels, groups = count(path)
            except Exception as error:  # what Inductor does not take is a row, too
                print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:80]} | | | |", flush=True)
                continue
            subprocess.run([sys.argv[1], "analyze", path, "-o", result], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            analysis = json.loads(result.read_text())
            if tensors:
                name_differences(name, groups, groups_of_fusecalc(analysis))
                continue
            plan = analysis["plans"]["compiler"]
            print(f"| {name} | {total / 1e9:.3f}/{kernels} | {rows / 1e9:.3f} "
                  f"| {plan['total'] / 1e9:.3f}/{len(plan['kernels'])} "
                  f"| {100 * (plan['total'] - rows) / rows:+.1f} % |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
