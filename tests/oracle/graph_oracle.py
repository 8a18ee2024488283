#!/usr/bin/env python3
"""Random op lists in the graph form: the real binary against an independent byte model.

    graph_oracle.py BINARY [--lists N] [--seed S] [--first I]

The model is the design's text and nothing else: every distinct input of a kernel counts once, at
what is touched of it, with its own element size, and of views as view_parts.py says; every result that
is needed outside of the kernel counts once as written; views and in-place results share their tensor's memory; constants are
free. All rows fit on chip, so nothing is read twice. Compared are the unfused plan, the limit, and an
explicit plan of random groups, kernel by kernel.

List I of a seed is the same in every run, so a failure is repeated with --seed S --first I --lists 1.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import random
import subprocess
import sys

import view_parts

BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "fp8_e4m3": 8, "i64": 64, "i32": 32, "u8": 8,
        "i4": 4, "bool": 8}
FLOATS = ["f16", "bf16", "f32", "f64"]


class Tensor:
    def __init__(self, name, shape, dtype, memory=None):
        self.name = name
        self.shape = list(shape)
        self.dtype = dtype
        self.memory = memory or self  # whose memory holds it
        self.value = self             # itself, or what a view shows
        self.places = None            # of a view: the place of each element in the value
        self.base = None              # of a view: the tensor that it was taken from
        self.views = []               # of this value
        self.maker = None
        self.readers = []

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def distinct(self):
        return self.size if self.places is None else len(set(self.places))

    @property
    def window(self):
        """Equal for tensors that show the same elements in the same order."""
        whole = self.places is None or self.places == list(range(self.value.size))
        return self.value, None if whole else tuple(self.places)

    def bytes(self, elements=None):
        elements = self.size if elements is None else elements
        return (elements * BITS[self.dtype] + 7) // 8


class Op:
    def __init__(self, name, reads, results):
        self.name = name
        self.reads = reads      # (tensor, elements touched, their places in its value if known)
        self.results = results


def wider(a, b):
    order = ["bool", "u8", "i32", "i64", "f16", "f32", "f64"]
    if "bf16" in (a, b) and "f16" in (a, b):
        return "f32"
    a, b = ("f16" if t == "bf16" else t for t in (a, b))
    return max(a, b, key=order.index)


def broadcast(a, b):
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
        return None
    return [y if x == 1 else x for x, y in zip(a, b)]


class RandomList:
    """Builds the document and the model of it side by side."""

    def __init__(self, rng):
        self.rng = rng
        self.declared = {}
        self.lines = []
        self.ops = []
        self.tensors = []
        self.written = []   # by ops, views included
        self.consumed = set()
        self.simple = True  # no part of a result is taken, so the limit needs no second thought
        self.even = True    # no view is a part of what was cut before it was reshaped
        self.alone = set()  # ops that take a part of a result: they stay out of groups
        self.dtype = rng.choice(FLOATS)
        self.rows = rng.choice([1, 3, 8, 50, 70])
        self.columns = rng.choice([1, 4, 7, 64, 130])
        for _ in range(rng.randint(1, 3)):
            self.input(self.full())
        for _ in range(rng.randint(1, 14)):
            rng.choice([self.unary, self.unary, self.binary, self.binary, self.binary, self.reduce,
                        self.normalise, self.move, self.view, self.part, self.contract, self.gate,
                        self.mask, self.in_place, self.cast, self.gather, self.custom, self.windows,
                        self.neighbours])()

    def full(self):
        return ([2] if self.rng.random() < 0.3 else []) + [self.rows, self.columns]

    def input(self, shape, dtype=None):
        tensor = Tensor(f"in{len(self.declared)}", shape, dtype or self.dtype)
        self.declared[tensor.name] = {"shape": tensor.shape, "dtype": tensor.dtype}
        self.tensors.append(tensor)
        return tensor

    def pick(self, rank=0, floats=True):
        fits = [t for t in self.tensors if len(t.shape) >= rank and
                (not floats or t.dtype in FLOATS)]
        return self.rng.choice(fits) if fits else self.input(self.full())

    def op(self, kind, inputs, results, touched=None, places=None, **more):
        name = f"op{len(self.lines)}"
        touched = touched or {}
        reads = []
        for tensor in inputs:
            if not isinstance(tensor, Tensor):
                continue
            reads.append((tensor, min(touched.get(tensor, tensor.size), tensor.distinct), places))
            self.consumed.add(tensor.name)
        op = Op(name, reads, results)
        for tensor, _, _ in reads:
            if tensor.distinct < tensor.value.size:
                self.takes_part(op, tensor)
        for tensor, _, _ in reads:
            tensor.value.readers.append(op)
        for result in results:
            result.maker = op
        self.ops.append(op)
        self.record(name, kind, inputs, results, more)
        return op

    def record(self, name, kind, inputs, results, more):
        names = [t.name if isinstance(t, Tensor) else t for t in inputs]
        self.lines.append({"name": name, "op": kind, "inputs": names,
                           **({"output": results[0].name} if len(results) == 1
                              else {"outputs": [t.name for t in results]}), **more})
        self.tensors += results
        self.written += results

    def new(self, shape, dtype, memory=None):
        self.count = getattr(self, "count", 0) + 1
        return Tensor(f"t{self.count}", shape, dtype, memory)

    def unary(self):
        x = self.pick()
        kind = self.rng.choice(["relu", "exp", "tanh", "neg", "square", "silu", "copy", "abs"])
        self.op(kind, [x], [self.new(x.shape, x.dtype)])

    def cast(self):
        x = self.pick(floats=False)
        to = self.rng.choice(["f32", "f16", "fp8_e4m3", "u8", "i4"])
        self.op("cast", [x], [self.new(x.shape, to)], to=to)

    def binary(self):
        x = self.pick()
        y = self.pick() if self.rng.random() < 0.8 else self.input(x.shape[-1:])
        if self.rng.random() < 0.2:
            y = self.rng.choice([2, 0.5])
        if not isinstance(y, Tensor):
            shape, dtype = x.shape, x.dtype
        else:
            shape, dtype = broadcast(x.shape, y.shape), wider(x.dtype, y.dtype)
            if x.dtype == y.dtype:
                dtype = x.dtype
            elif "bf16" in (x.dtype, y.dtype) and dtype == "f16":
                dtype = "bf16"
        if shape is not None:
            self.op(self.rng.choice(["add", "sub", "mul", "maximum"]), [x, y],
                    [self.new(shape, dtype)])

    def mask(self):
        x = self.pick()
        if self.rng.random() < 0.5:
            mask = self.new(x.shape, "bool")
            self.op("gt", [x, 0], [mask])
            self.op("where", [mask, x, 0], [self.new(x.shape, x.dtype)])
        else:
            self.op("dropout", [x], [self.new(x.shape, x.dtype), self.new(x.shape, "bool")],
                    save_mask=True)

    def reduce(self):
        x = self.pick(rank=1)
        axes = sorted(self.rng.sample(range(len(x.shape)), self.rng.randint(1, len(x.shape))))
        keep = self.rng.random() < 0.6
        shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
        kind = self.rng.choice(["sum", "mean", "max", "var", "argmax", "logsumexp"])
        self.op(kind, [x], [self.new(shape, "i64" if kind == "argmax" else x.dtype)],
                axes=[a - self.rng.choice([0, len(x.shape)]) for a in axes], keepdim=keep)

    def normalise(self):
        x = self.pick(rank=1)
        if self.rng.random() < 0.5:
            self.op("softmax", [x], [self.new(x.shape, x.dtype)],
                    axis=self.rng.randrange(len(x.shape)))
        else:
            inputs = [x] + [self.input(x.shape[-1:]) for _ in range(self.rng.randint(0, 2))]
            self.op("layer_norm", inputs, [self.new(x.shape, x.dtype)])

    def move(self):
        x = self.pick(rank=2)
        if self.rng.random() < 0.5:
            perm = self.rng.sample(range(len(x.shape)), len(x.shape))
            self.op("transpose", [x], [self.new([x.shape[p] for p in perm], x.dtype)], perm=perm)
        else:
            shape = [3] + x.shape
            self.op("broadcast_to", [x], [self.new(shape, x.dtype)], shape=shape)

    def view(self):
        x = self.pick(rank=2)
        kind = self.rng.choice(["reshape", "view", "permute_view", "slice_view", "split_view",
                                "expand_view"])
        axis = self.rng.randrange(len(x.shape))
        extent, ranges = x.shape[axis], [None]
        more, shape = {}, x.shape
        if kind in ("reshape", "view"):
            shape = [x.size]
            more = {"shape": [-1] if x.size else [0]}
        elif kind == "permute_view":
            shape = x.shape[::-1]
        elif kind == "slice_view":
            start = self.rng.randint(0, extent)
            end = self.rng.randint(start, extent)
            step = self.rng.choice([1, 1, 2, 3])
            more = {"axis": axis, "start": start, "end": end, "step": step}
            ranges = [(axis, range(start, end, step))]
        elif kind == "split_view":
            cuts = sorted(self.rng.randint(0, extent) for _ in range(self.rng.randint(0, 2)))
            cuts = [0] + cuts + [extent]
            ranges = [(axis, range(a, b)) for a, b in zip(cuts, cuts[1:])]
            more = {"axis": axis, "sizes": [len(r) for _, r in ranges]}
        else:
            shape = [self.rng.choice([1, 3])] + x.shape
            more = {"shape": shape}
        self.even = self.even and kind not in ("reshape", "view")
        views = []
        for taken in ranges:
            cut = kind in ("slice_view", "split_view")
            view = self.new(shape, x.dtype, x.memory)
            if cut:
                view.shape = x.shape[:axis] + [len(taken[1])] + x.shape[axis + 1:]
            view.value, view.base = x.value, x
            view.places = self.shown(x, kind, shape, taken)
            x.value.views.append(view)
            views.append(view)
        self.consumed.add(x.name)
        self.record(f"op{len(self.lines)}", kind, [x], views, more)

    def neighbours(self):
        """Two views of a tensor, mostly overlapping, that one op reads: a stencil."""
        x = self.pick(rank=1)
        axis = self.rng.randrange(len(x.shape))
        count = self.rng.randint(0, x.shape[axis])
        shape = x.shape[:axis] + [count] + x.shape[axis + 1:]
        pair = []
        for start in (self.rng.randint(0, x.shape[axis] - count) for _ in range(2)):
            view = self.new(shape, x.dtype, x.memory)
            view.value, view.base = x.value, x
            view.places = self.shown(x, "slice_view", shape, (axis, range(start, start + count)))
            x.value.views.append(view)
            self.record(f"op{len(self.lines)}", "slice_view", [x], [view],
                        {"axis": axis, "start": start, "end": start + count})
            pair.append(view)
        self.consumed.add(x.name)
        self.op("sub", pair, [self.new(shape, x.dtype)])

    @staticmethod
    def shown(x, kind, shape, taken):
        """The places in the value of the elements of a view of x."""
        places = list(range(x.size)) if x.places is None else x.places
        if kind == "permute_view":
            steps = [math.prod(x.shape[i + 1:]) for i in range(len(x.shape))]
            return [places[sum(i * step for i, step in zip(at, reversed(steps)))]
                    for at in itertools.product(*map(range, shape))]
        if kind == "expand_view":
            return places * shape[0]
        if kind in ("reshape", "view"):
            return places
        axis, chosen = taken
        inner = math.prod(x.shape[axis + 1:])
        run = x.shape[axis] * inner
        outer = math.prod(x.shape[:axis])
        return [places[o * run + i * inner + k] for o in range(outer) for i in chosen
                for k in range(inner)]

    def part(self):
        x = self.pick(rank=1)
        axis = self.rng.randrange(len(x.shape))
        if self.rng.random() < 0.5:
            start = self.rng.randint(0, x.shape[axis])
            end = self.rng.randint(start, x.shape[axis])
            shape = x.shape[:]
            shape[axis] = end - start
            places = frozenset(self.shown(x, "slice_view", shape, (axis, range(start, end))))
            op = self.op("slice", [x], [self.new(shape, x.dtype)], {x: len(places)}, places,
                         axis=axis, start=start, end=end)
            self.takes_part(op, x)
        else:
            shape = x.shape[:]
            shape[axis] *= 2
            self.op("concat", [x, x], [self.new(shape, x.dtype)], axis=axis)

    def takes_part(self, op, x):
        self.alone.add(op.name)
        if x.value.maker is not None:
            self.simple = False

    def gather(self):
        x = self.pick(rank=1)
        axis = self.rng.randrange(len(x.shape))
        count = self.rng.choice([1, 5, 200])
        shape = x.shape[:axis] + [count] + x.shape[axis + 1:]
        indices = self.input([count], self.rng.choice(["i32", "i64"]))
        op = self.op("gather", [x, indices], [self.new(shape, x.dtype)],
                     {x: min(x.size, math.prod(shape))}, axis=axis)
        self.takes_part(op, x)

    def contract(self):
        x = self.pick(rank=2)
        width = self.rng.choice([2, 9])
        shape = x.shape[:-1] + [width]
        if self.rng.random() < 0.5:
            weights = [self.input([width, x.shape[-1]], x.dtype)]
            if self.rng.random() < 0.5:
                weights.append(self.input([width], x.dtype))
            self.op("linear", [x] + weights, [self.new(shape, x.dtype)])
        else:
            weight = self.input([x.shape[-1], width], x.dtype)
            self.op("matmul", [x, weight], [self.new(shape, x.dtype)])

    def windows(self):
        """Of a convolution or pooling over one axis: the places that some window has."""
        x = self.pick(rank=3)
        if len(x.shape) != 3 or x.dtype not in FLOATS:
            return
        batch, channels, length = x.shape
        kernel, dilation = self.rng.randint(1, 3), self.rng.randint(1, 3)
        reach = (kernel - 1) * dilation + 1
        convolves = self.rng.random() < 0.7
        padding = self.rng.randint(0, reach + 1 if convolves else reach // 2)
        stride = self.rng.randint(1, 4)
        if length + 2 * padding < reach or (padding > 0 and dilation > length):
            return
        results = (length + 2 * padding - reach) // stride + 1
        places = {result * stride + tap * dilation - padding
                  for result in range(results) for tap in range(kernel)}
        touched = {x: batch * channels * len(places & set(range(length)))}
        more = {"stride": stride, "padding": padding, "dilation": dilation}
        if convolves:
            weight = self.input([2, channels, kernel], x.dtype)
            op = self.op("conv1d", [x, weight], [self.new([batch, 2, results], x.dtype)], touched,
                         **more)
        else:
            op = self.op("max_pool", [x], [self.new([batch, channels, results], x.dtype)], touched,
                         kernel=kernel, **more)
        self.takes_part(op, x)

    def gate(self):
        """Two products of one input; what is made of one is multiplied with the other."""
        x = self.pick(rank=2)
        shape = x.shape[:-1] + [self.rng.choice([9, 16])]
        made = []
        for _ in range(2):
            weights = self.input([shape[-1], x.shape[-1]], x.dtype)
            made.append(self.new(shape, x.dtype))
            self.op("linear", [x, weights], [made[-1]])
        active = self.new(shape, x.dtype)
        self.op("silu", [made[0]], [active])
        self.op("mul", [active, made[1]], [self.new(shape, x.dtype)])

    def in_place(self):
        """Only what nothing has read yet: then no order between readers and writer arises."""
        fits = [t for t in self.tensors if t.value is t and not t.readers and t.dtype in FLOATS and
                t.name not in self.consumed]
        if not fits:
            return
        x = self.rng.choice(fits)
        y = self.new(x.shape, x.dtype, x.memory)
        self.op("mul", [x, 2], [y], inplace={y.name: x.name})
        self.tensors.remove(x)  # its value is gone

    def custom(self):
        x = self.pick()
        y = self.new([self.rng.randint(1, 40)], x.dtype)
        self.declared[y.name] = {"shape": y.shape, "dtype": y.dtype}
        more = {}
        touched = {}
        if self.rng.random() < 0.7:
            reads = self.rng.randint(0, 2 * x.size)
            more["reads"] = {x.name: reads}
            touched[x] = min(reads, x.size)
        op = self.op("custom", [x], [y], touched, **more)
        if touched:
            self.takes_part(op, x)

    def finish(self):
        """The document, its outputs and its groups."""
        document = {"dtype": self.dtype, "tensors": self.declared, "ops": self.lines}
        handed = []
        if self.rng.random() < 0.4 and self.written:
            handed = self.rng.sample(self.written, self.rng.randint(1, len(self.written)))
            # A tensor that was overwritten cannot be an output.
            handed = [t for t in handed if t.value in self.tensors]
        if handed:
            document["outputs"] = [t.name for t in handed]
        else:
            handed = [t for t in self.written if t.name not in self.consumed]
        groups, i = [], 0
        while i < len(self.ops):
            length = self.rng.randint(1, 5)
            group = [op for op in self.ops[i:i + length]]
            if any(op.name in self.alone for op in group):
                groups += [[op] for op in group]
            else:
                groups.append(group)
            i += length
        document["fuse"] = [[op.name for op in group] for group in groups if len(group) > 1]
        return document, {t.value for t in handed}, groups


def needed(result, inside, handed):
    """Whether the result is needed outside of the kernel."""
    # A result in a graph input's memory is visible outside.
    lands_in_input = result.memory is not result and result.memory.maker is None
    return result in handed or lands_in_input or any(op not in inside for op in result.readers)


def part_taken(op, i):
    """Operand i of the op, as view_parts.py has it."""
    tensor, elements, places = op.reads[i]
    if places is None and tensor.places is not None and elements == tensor.distinct:
        places = tensor.places
    known = places is not None and len(set(places)) == elements
    return tensor, frozenset(places) if known else (op, i), elements


def kernel_bytes(kernel, handed, exact=True):
    inside = set(kernel)
    touched = {}
    parts = (part_taken(op, i) for op in kernel for i in range(len(op.reads)))
    outside = [part for part in parts if part[0].value.maker not in inside]
    for value, elements in view_parts.add_up(outside, exact).items():
        touched[value.memory] = touched.get(value.memory, 0) + elements
    read = sum(memory.bytes(min(elements, memory.size)) for memory, elements in touched.items())
    memories = {result.memory for op in kernel for result in op.results
                if needed(result, inside, handed)}
    return read, sum(memory.bytes() for memory in memories)


def check_plan(name, plan, kernels, handed, even):
    wanted = {tuple(op.name for op in kernel): kernel_bytes(kernel, handed) for kernel in kernels}
    found = {tuple(k["ops"]): (k["read"], k["write"]) for k in plan["kernels"]}
    for kernel in [] if even else kernels:
        # Parts of reshaped views may be no grids: what they have in common may count twice.
        ops = tuple(op.name for op in kernel)
        most = kernel_bytes(kernel, handed, exact=False)
        if ops in found and wanted[ops][0] <= found[ops][0] <= most[0]:
            wanted[ops] = found[ops][0], wanted[ops][1]
    if found != wanted:
        different = {k: (found.get(k), wanted.get(k)) for k in found | wanted
                     if found.get(k) != wanted.get(k)}
        return f"{name}: (found, wanted) differ: {different}"
    total = sum(read + write for read, write in wanted.values())
    if plan["total"] != total or plan["read"] + plan["write"] != total:
        return f"{name}: total {plan['total']}, wanted {total}"
    return None


def check_list(binary, seed, index):
    made = RandomList(random.Random(f"{seed}/{index}"))
    document, handed, groups = made.finish()
    text = json.dumps(document)
    run = subprocess.run([binary, "analyze", "-", "--format", "json"], input=text.encode(),
                         capture_output=True, check=False)
    if run.returncode != 0:
        return f"exit {run.returncode}: {run.stderr.decode()}{text}"
    plans = json.loads(run.stdout)["plans"]
    fault = check_plan("unfused", plans["unfused"], [[op] for op in made.ops], handed, made.even) or \
        check_plan("explicit", plans["explicit"], groups, handed, made.even)
    if not fault and made.simple and made.ops:
        floor = kernel_bytes(made.ops, handed)
        most = floor if made.even else kernel_bytes(made.ops, handed, exact=False)
        if not floor[0] <= plans["limit"]["read"] <= most[0] or plans["limit"]["write"] != floor[1]:
            fault = f"limit: {plans['limit']['read'], plans['limit']['write']}, wanted {floor}"
    pairs = [("limit", "auto"), ("auto", "compiler"), ("compiler", "unfused")]
    # A compiler is taken to have a kernel for every op; auto has none for some, and fuses nothing
    # with those, nor ops whose results nobody takes.
    unused = any(not result.readers and result not in handed
                 for op in made.ops for result in op.results)
    if unused or any("cannot_launch" in kernel for kernel in plans["auto"]["kernels"]):
        pairs = [("limit", "auto"), ("auto", "unfused"), ("compiler", "unfused")]
    for better, worse in pairs:
        if not fault and plans[better]["total"] > plans[worse]["total"]:
            fault = f"{better} moves more than {worse}"
    return f"{fault}\n{text}" if fault else None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--lists", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    lists = range(arguments.first, arguments.first + arguments.lists)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = pool.map(lambda i: check_list(arguments.binary, arguments.seed, i), lists)
        for index, fault in zip(lists, faults):
            if fault:
                sys.exit(f"list {index} of seed {arguments.seed}: {fault}")
    print(f"{arguments.lists} lists agree")


if __name__ == "__main__":
    main()
