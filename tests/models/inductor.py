"""Counts what PyTorch's Inductor moves on .pt2 files, beside fusecalc's plan `compiler`.

usage: inductor.py FUSECALC FILE...
       inductor.py --kernels FILE

Needs PyTorch 2.13, no GPU and no weights: each program is lowered with tensors without elements and scheduled as for
Triton, whose kernels normalise rows in one pass as on a GPU; nothing is compiled or run. Inductor's count (GraphLowering.count_bytes) is that of the kernels that it
schedules and of the library calls between them. It counts tables of which a kernel looks up rows in full; the second
column has the rows instead. --kernels lists what each of Inductor's kernels moves.
"""
import json
import pathlib
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
                    inside = [str(each.node.get_origin_node()) for each in node.get_nodes() if each.node is not None]
                    print(f"{4 * quarter / 1e6:12.3f} MB  {' '.join(inside)}")
        totals.append((total, total - beyond, len(nodes)))
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
    print("| model | Inductor | rows only | compiler | apart |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        for path in sys.argv[2:]:
            name = pathlib.Path(path).name.removesuffix(".pt2")
            try:
                total, rows, kernels = count(path)
            except Exception as error:  # what Inductor does not take is a row, too
                print(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:80]} | | | |", flush=True)
                continue
            subprocess.run([sys.argv[1], "analyze", path, "-o", result], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            plan = json.loads(result.read_text())["plans"]["compiler"]
            print(f"| {name} | {total / 1e9:.3f}/{kernels} | {rows / 1e9:.3f} "
                  f"| {plan['total'] / 1e9:.3f}/{len(plan['kernels'])} "
                  f"| {100 * (plan['total'] - rows) / rows:+.1f} % |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
