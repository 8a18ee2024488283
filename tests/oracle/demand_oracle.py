#!/usr/bin/env python3
"""Random op lists against an independent model of what a kernel needs of its inputs.

    demand_oracle.py BINARY [--lists N] [--seed S] [--first I]

The model follows docs/bytes.md from the results back to the inputs, tensor by tensor. Two kinds of list:
- demand: custom ops with several results, parts of results (slices, gathers, views, "reads"), scatters
  with fewer and with more indices than rows, other ops that overwrite a part in place, 4-bit types.
  All rows fit on chip.
- looks: a normalisation, or a reduction and what works on its result, of one row, of many, or of
  columns, around the size that fits on chip, with weights and 4-bit types.
Checked are the kernels of every plan, by the ops that the plan names, and the limit. A list of the
first kind is also analysed with its ops in another order: unfused, explicit and limit must not change.

List I of a seed is the same in every run, so a failure is repeated with --seed S --first I --lists 1.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import subprocess
import sys

import view_parts

ON_CHIP = 227 * 1024
CLUSTER = 8  # blocks that hold a row together
POINTWISE = {"relu", "exp", "neg", "cast", "add"}
BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i32": 32, "u8": 8, "i4": 4, "u4": 4,
        "fp4_e2m1": 4}


def size_in_bytes(dtype, elements):
    return (elements * BITS[dtype] + 7) // 8


class Tensor:
    def __init__(self, name, shape, dtype, home=None):
        self.name, self.shape, self.dtype = name, list(shape), dtype
        self.memory = home.memory if home else self
        self.value = self      # itself, or what a view shows
        self.places = None     # of a view: the places of its elements in the value
        self.base = None       # of a view: the tensor that it was taken from
        self.views = []        # of this value
        self.maker = None
        self.readers = []
        self.patch = None      # the tensor that overwrites a part of this one
        self.left = 0          # elements that its maker may leave as they were
        self.writes = self.size

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def shown(self):
        """The value, if a view shows all of it in its order."""
        return self.value if self.places == list(range(self.value.size)) else self

    @property
    def distinct(self):
        return self.size if self.places is None else len(set(self.places))

    @property
    def window(self):
        """Equal for tensors that show the same elements in the same order."""
        whole = self.places is None or self.places == list(range(self.value.size))
        return self.value, None if whole else tuple(self.places)


class Op:
    """`local`: each element of a result comes from as many elements of an input."""

    def __init__(self, name, reads, results, local):
        self.name, self.reads, self.results, self.local = name, reads, results, local
        self.places = {}  # of what it takes of a tensor's value, where they are known
        self.pointwise = False


class KernelModel:
    def __init__(self, kernel, outputs, shared=(), stored=()):
        """The ops `shared` are in other kernels, too; of their results, this one stores those in `stored`."""
        self.kernel, self.outputs, self.shared, self.stored = set(kernel), outputs, set(shared), set(stored)
        self.known, self.parts = {}, {}

    def leaves(self, tensor):
        """Whether someone outside of the kernel gets the tensor from it."""
        if tensor.maker in self.shared:
            return tensor in self.stored
        in_input = tensor.memory is not tensor and tensor.memory.maker is None
        if tensor in self.outputs or in_input or any(
                reader not in self.kernel or reader in self.shared for reader in tensor.readers):
            return True
        return tensor.patch is not None and self.leaves(tensor.patch)

    def used(self, tensor):
        """Elements that the kernel's ops need of what another of them makes."""
        if tensor not in self.known:
            needs = view_parts.add_up(self.needs_of(self.readers_of(tensor), tensor))
            self.known[tensor] = min(tensor.size, needs.get(tensor, 0))
        return self.known[tensor]

    def readers_of(self, tensor):
        return list(dict.fromkeys(op for op in tensor.readers if op in self.kernel))

    def needs_of(self, ops, value=None):
        """Their needs, of one value or of all; what several need for the same part of a result is one."""
        needs = {}
        for op in ops:
            for i, (read, need, places) in enumerate(self.needs(op)):
                if value is None or read.value is value:
                    part = self.part_of(op.results[0]) if op.pointwise else (op, i)
                    needs.setdefault((read.shown, part, need, places), (read, need, places))
        return needs.values()

    def part_of(self, tensor):
        """What tells the part of a tensor that the kernel's ops need: the same for all that is computed for it."""
        if tensor not in self.parts:
            parts = {tensor}
            if not self.leaves(tensor):
                parts = {self.part_of(op.results[0]) if op.pointwise else op
                         for op in self.readers_of(tensor)}
            self.parts[tensor] = parts.pop() if len(parts) == 1 else tensor
        return self.parts[tensor]

    def needs(self, op):
        """(tensor, elements, places or None) for each operand."""
        wanted = [math.inf if self.leaves(r) or self.used(r) >= r.size else self.used(r)
                  for r in op.results
                  if self.leaves(r) or any(reader in self.kernel for reader in r.readers)]
        most = max(wanted, default=math.inf) if op.local else math.inf
        for tensor, touched in op.reads:
            kept = [min(self.used(r), r.left) for r in op.results if r.memory is tensor.memory]
            yield tensor, max([min(touched, most)] + kept), op.places.get(tensor)

    def read(self):
        memories = {}
        needs = view_parts.add_up(need for need in self.needs_of(self.kernel)
                                  if need[0].value.maker not in self.kernel)
        for value, need in needs.items():
            memories[value.memory] = memories.get(value.memory, 0) + need
        return sum(size_in_bytes(m.dtype, min(m.size, need)) for m, need in memories.items())

    def written(self):
        memories = {}
        for op in self.kernel:
            for r in op.results:
                if self.leaves(r):
                    memories[r.memory] = max(memories.get(r.memory, 0),
                                             size_in_bytes(r.dtype, r.writes))
        return sum(memories.values())


class DemandList:
    def __init__(self, rng):
        self.rng = rng
        self.declared, self.lines, self.ops, self.tensors = {}, {}, [], []
        self.dtype = rng.choice(["f16", "bf16", "f32", "f64"])
        self.rows, self.columns = rng.choice([1, 2, 7, 40]), rng.choice([1, 3, 64, 130])
        self.count = 0
        self.views = []
        for _ in range(rng.randint(1, 2)):
            self.input([self.rows, self.columns])
        steps = [self.custom, self.custom, self.custom, self.scatter, self.scatter, self.scatter,
                 self.patch, self.cut, self.cut, self.gather, self.unary, self.unary, self.pair,
                 self.cast, self.join, self.transpose, self.total, self.norm, self.view,
                 self.view, self.view]
        for _ in range(rng.randint(2, 12)):
            rng.choice(steps)()

    def new(self, shape, dtype, home=None):
        self.count += 1
        return Tensor(f"t{self.count}", shape, dtype, home)

    def input(self, shape, dtype=None):
        tensor = self.new(shape, dtype or self.dtype)
        self.declared[tensor.name] = {"shape": tensor.shape, "dtype": tensor.dtype}
        self.tensors.append(tensor)
        return tensor

    def pick(self, fits=lambda t: True):
        found = [t for t in self.tensors if fits(t)]
        return self.rng.choice(found) if found else self.input([self.rows, self.columns])

    def pick_float(self):
        return self.pick(lambda t: t.dtype in ("f16", "bf16", "f32", "f64"))

    def op(self, kind, inputs, results, touched=(), local=True, **more):
        name = f"op{len(self.ops)}"
        touched = dict(touched)
        tensors = [t for t in inputs if isinstance(t, Tensor)]
        op = Op(name, [(t, min(touched.get(t, t.size), t.distinct)) for t in tensors], results,
                local)
        op.pointwise = kind in POINTWISE
        for tensor in tensors:
            tensor.value.readers.append(op)
        for result in results:
            result.maker = op
        self.ops.append(op)
        self.tensors += results
        self.lines[op] = {"name": name, "op": kind,
                          "inputs": [t.name if isinstance(t, Tensor) else t for t in inputs],
                          "outputs": [t.name for t in results], **more}
        return op

    def overwrite(self, home, result, left):
        """The result takes the place of a tensor, which nothing reads from here on."""
        self.tensors = [t for t in self.tensors if t.value is not home]
        result.left = left
        if left > 0:
            home.patch = result

    def unary(self):
        x = self.pick_float()
        self.op(self.rng.choice(["relu", "exp", "neg", "copy"]), [x], [self.new(x.shape, x.dtype)])

    def cast(self):
        x = self.pick()
        to = self.rng.choice(["i4", "u4", "fp4_e2m1", "f32", "u8"])
        self.op("cast", [x], [self.new(x.shape, to)], to=to)

    def pair(self):
        x = self.pick_float()
        y = self.pick(lambda t: t is not x and t.shape == x.shape and t.dtype == x.dtype)
        if y is x or y.shape != x.shape or y.dtype != x.dtype:
            y = self.input(x.shape[-1:], x.dtype)
        self.op("add", [x, y], [self.new(x.shape, x.dtype)])

    def cut(self):
        x = self.pick()
        axis = self.rng.randrange(len(x.shape))
        start = self.rng.randint(0, x.shape[axis])
        end = self.rng.randint(start, x.shape[axis])
        shape = x.shape[:axis] + [end - start] + x.shape[axis + 1:]
        y = self.new(shape, x.dtype)
        places = list(range(x.size)) if x.places is None else x.places
        inner = math.prod(x.shape[axis + 1:])
        taken = frozenset(place for i, place in enumerate(places)
                          if start <= i // inner % x.shape[axis] < end)
        op = self.op("slice", [x], [y], {x: len(taken)}, axis=axis, start=start, end=end)
        op.places[x] = taken

    def view(self):
        """Parts of a tensor, each read at once: what nothing reads would be an output."""
        x = self.pick(lambda t: t.size > 0)
        axis = self.rng.randrange(len(x.shape))
        extent, inner = x.shape[axis], math.prod(x.shape[axis + 1:])
        places = list(range(x.size)) if x.places is None else x.places
        kind = self.rng.choice(["slice_view", "split_view", "split_view", "expand_view"])
        start = self.rng.randint(0, extent - 1)
        parts = [range(start, self.rng.randint(start, extent), self.rng.choice([1, 1, 2]))]
        more = {"axis": axis, "start": start, "end": parts[0].stop, "step": parts[0].step}
        if kind == "split_view":
            parts = [range(start), range(start, extent)]
            more = {"axis": axis, "sizes": [len(part) for part in parts]}
        if kind == "expand_view":
            parts, more = [range(extent)], {"shape": [2] + x.shape}
        views = []
        for part in parts:
            view = self.new(x.shape[:axis] + [len(part)] + x.shape[axis + 1:], x.dtype)
            view.memory, view.value, view.base = x.memory, x.value, x
            x.value.views.append(view)
            view.places = [places[(o * extent + i) * inner + k]
                           for o in range(x.size // (extent * inner)) for i in part
                           for k in range(inner)]
            if kind == "expand_view":
                view.shape, view.places = more["shape"], 2 * view.places
            views.append(view)
        self.views.append({"op": kind, "inputs": [x.name], "outputs": [v.name for v in views],
                           **more})
        for view in views:
            self.tensors.append(view)
            self.op("cast", [view], [self.new(view.shape, "f32")], to="f32")
        if len(views) == 2 and self.rng.random() < 0.5:
            self.op("concat", views, [self.new(x.shape, x.dtype)], axis=axis)

    def gather(self):
        x = self.pick()
        count = self.rng.choice([1, 3, 50])
        y = self.new([count] + x.shape[1:], x.dtype)
        i = self.input([count], "i32")
        self.op("gather", [x, i], [y], {x: min(x.size, y.size)}, axis=0)
        self.tensors.remove(i)

    def join(self):
        x = self.pick()
        y = self.input(x.shape, x.dtype)
        self.op("concat", [x, y], [self.new([2 * x.shape[0]] + x.shape[1:], x.dtype)], axis=0)

    def transpose(self):
        x = self.pick(lambda t: len(t.shape) == 2)
        self.op("transpose", [x], [self.new(x.shape[::-1], x.dtype)])

    def total(self):
        x = self.pick_float()
        self.op("sum", [x], [self.new(x.shape[:-1], x.dtype)] if len(x.shape) > 1 else
                [self.new([1], x.dtype)], local=False, axis=-1, keepdim=len(x.shape) == 1)

    def norm(self):
        x = self.pick_float()
        self.op("layer_norm", [x, self.input(x.shape[-1:], x.dtype)],
                [self.new(x.shape, x.dtype)], local=False)

    def custom(self):
        """Several results of all sizes, in any order."""
        inputs = list({self.pick(), self.pick()})
        inputs.sort(key=lambda t: t.name)
        shapes = [inputs[0].shape, [1], [self.rng.randint(1, 40)], [self.rows, 2]]
        results = [self.new(shape, self.rng.choice([self.dtype, "u8", "i4"]))
                   for shape in self.rng.sample(shapes, self.rng.randint(1, 4))]
        for result in results:
            self.declared[result.name] = {"shape": result.shape, "dtype": result.dtype}
        what = self.rng.choice(["pointwise", "movement", "pointwise", "movement", "reduce",
                                "contract", "opaque"])
        touched = {t: self.rng.randint(0, 2 * t.size) for t in inputs if self.rng.random() < 0.4}
        more = {"reads": {t.name: n for t, n in touched.items()}} if touched else {}
        self.op("custom", inputs, results, {t: min(t.size, n) for t, n in touched.items()},
                what in ("pointwise", "movement"), **{"class": what}, **more)

    def scatter(self):
        home = self.pick(lambda t: len(t.shape) > 1 and t.size > 0 and t.value is t)
        axis = self.rng.randrange(len(home.shape))
        rows = home.shape[axis]
        count = self.rng.choice([1, 2, max(1, rows - 1), rows, rows + 1, 3 * rows])
        updates = self.input(home.shape[:axis] + [count] + home.shape[axis + 1:], home.dtype)
        if self.rng.random() < 0.5 and updates.dtype not in ("i4", "u4", "fp4_e2m1", "u8"):
            self.op("neg", [updates], [self.new(updates.shape, updates.dtype)])
            updates = self.tensors[-1]
        indices = self.input([count], "i32")
        y = self.new(home.shape, home.dtype, home)
        y.writes = min(home.size, updates.size)
        self.op("scatter_update", [home, indices, updates], [y], {home: 0}, axis=axis)
        self.tensors.remove(indices)
        # All indices may name the same row; one row is certain.
        self.overwrite(home, y, home.size - home.size // rows)

    def patch(self):
        """A custom op that declares how much of a tensor it overwrites."""
        home = self.pick(lambda t: t.size > 0 and t.value is t)
        y, s = self.new(home.shape, home.dtype, home), self.new([1], self.dtype)
        for result in (y, s):
            self.declared[result.name] = {"shape": result.shape, "dtype": result.dtype}
        count = self.rng.choice([None, 0, home.size // 2, home.size, home.size + 1, 5 * home.size])
        read = self.rng.choice([0, home.size // 3, home.size])
        results = self.rng.choice([[y], [y, s], [s, y]])
        more = {} if count is None else {"writes": {y.name: count}}
        self.op("custom", [home], results, {home: read}, local=False, **more,
                reads={home.name: read}, inplace={y.name: home.name})
        y.writes = home.size if count is None else min(count, home.size)
        # More writes than elements: some are written twice, and nothing is known of the others.
        certain = 0 if count is not None and count > home.size else y.writes
        self.overwrite(home, y, home.size - certain)

    def finish(self):
        made = [t for op in self.ops for t in op.results]
        outputs = [t for t in made if not t.readers]
        document = {"dtype": self.dtype, "tensors": self.declared}
        if self.rng.random() < 0.3:
            live = [t for t in made if t in self.tensors]
            outputs = self.rng.sample(live, self.rng.randint(1, len(live)))
            document["outputs"] = [t.name for t in outputs]
        groups, i = [], 0
        while i < len(self.ops):
            groups.append(self.ops[i:i + self.rng.randint(1, 6)])
            i += len(groups[-1])
        document["fuse"] = [[op.name for op in group] for group in groups]
        document["ops"] = self.with_views([self.lines[op] for op in self.ops])
        return document, set(outputs)

    def with_views(self, lines):
        """Views are no ops: they may be anywhere in the document."""
        lines = lines[:]
        for view in self.views:
            lines.insert(self.rng.randint(0, len(lines)), view)
        return lines

    def shuffled(self):
        """The same ops in another order in which they can run."""
        waits = {op: {t.value.maker for t, _ in op.reads if t.value.maker} for op in self.ops}
        for op in self.ops:
            for result in op.results:
                for home, _ in op.reads:
                    if home.memory is result.memory:
                        waits[op] |= set(home.readers) - {op}
        order = []
        while len(order) < len(self.ops):
            ready = [op for op in self.ops if op not in order and waits[op] <= set(order)]
            order.append(self.rng.choice(ready))
        return self.with_views([self.lines[op] for op in order])


class LooksList:
    """x, maybe prepared, through a reduction, and its result, maybe worked on. What is read in more
    than one look must be held, or it is read again; a weight is used in the last look only."""

    def __init__(self, rng):
        self.kind = rng.choice(["layer_norm", "rms_norm", "group_norm", "softmax", "batch_norm",
                                "mean", "columns", "columns", "columns"])
        columns = self.kind == "columns"
        self.dtype = rng.choice(["i4", "u4", "fp4_e2m1", "f16", "f32"] if columns else
                                ["f16", "f32", "f64"])
        bits = BITS[self.dtype]
        near = rng.choice([-1, 0, 1, 1000, -1000])
        if columns:
            self.width = rng.choice([1, 10, 64, 65, 300])
            # As many columns as fill a sector of 32 bytes, but no more than there are.
            self.block = min(self.width, 256 // bits)
            self.shape = [ON_CHIP * 8 // (bits * self.block) + near, self.width]
            self.held = size_in_bytes(self.dtype, self.shape[0] * self.block)
        else:
            self.shape = [rng.choice([1, 1, 1, 3]), CLUSTER * ON_CHIP * 8 // bits + near]
            self.held = size_in_bytes(self.dtype, self.shape[1])
        # A single column is a row that lies in memory as a whole.
        capacity = ON_CHIP if columns and self.width > 1 else CLUSTER * ON_CHIP
        self.fits = self.held <= capacity and self.kind != "batch_norm"
        self.before = rng.random() < 0.4 and not columns
        self.after = rng.random() < 0.4
        self.weights = {"layer_norm": rng.randint(0, 2), "rms_norm": rng.randint(0, 1),
                        "group_norm": rng.choice([0, 2]), "batch_norm": 2}.get(self.kind, 0)
        self.own = self.weights > 0 and rng.random() < 0.4  # a weight that the kernel makes

    def document(self):
        tensors = {"x": {"shape": self.shape}}
        ops = []

        def op(name, kind, inputs, **more):
            ops.append({"name": name, "op": kind, "inputs": inputs, "output": name, **more})
            return name

        x = op("pre", "neg", ["x"]) if self.before else "x"
        weights = [f"w{i}" for i in range(self.weights)]
        for weight in weights:
            tensors[weight] = {"shape": self.shape[1:]}
        if self.own:
            weights[0] = op("own", "neg", ["w0"])
        if self.kind in ("mean", "columns"):
            kind = "mean" if self.kind == "mean" else "max"
            row = op("row", kind, [x], axis=-1 if self.kind == "mean" else 0, keepdim=True)
            last = op("y", "sub", [x, row])
        else:
            more = {"group_norm": {"groups": 1}, "batch_norm": {"mode": "training"}}
            last = op("y", self.kind, [x] + weights, **more.get(self.kind, {}))
        if self.after:
            op("z", "square", [last])
        names = [o["name"] for o in ops]
        return {"dtype": self.dtype, "tensors": tensors, "ops": ops, "fuse": [names]}

    def bytes_of(self, kernel, shared, limit):
        """(read, written) of a kernel; only what prepares x is worth computing twice."""
        if not shared <= {"pre"}:
            raise ValueError(f"{shared} are computed twice")
        whole = size_in_bytes(self.dtype, math.prod(self.shape))
        results = self.shape[0] if self.kind == "mean" else self.shape[1]
        vector = size_in_bytes(self.dtype, self.shape[1])
        row = size_in_bytes(self.dtype, results)
        names = set(kernel["ops"])
        has = names.__contains__
        read, written = 0, 0
        # The looks that the kernel takes at x, or at the prepared x.
        looks = 0
        if has("y") or has("row"):
            split = self.kind in ("mean", "columns")
            again = has("y") and (has("row") if split else self.kind not in ())
            looks = 1 if limit or not again or self.fits else 2
        if has("pre"):
            read += whole * max(1, looks)
            outside = [n for n in ("row", "y") if n in self.readers_of_x() and not has(n)]
            written += whole if outside and not shared else 0
        else:
            read += whole * looks
        if has("y"):
            if "row" in self.readers_of_x() and not has("row"):
                read += row
            read += vector * (self.weights - (1 if self.own else 0))
            if self.own and not has("own"):
                read += vector
            written += whole if not self.after or not has("z") else 0
        if has("row"):
            written += 0 if has("y") else row
        if has("own"):
            read += vector
            written += 0 if has("y") else vector
        if has("z"):
            read += 0 if has("y") else whole
            written += whole
        return read, written

    def readers_of_x(self):
        return ["row", "y"] if self.kind in ("mean", "columns") else ["y"]


def analyze(binary, document):
    run = subprocess.run([binary, "analyze", "-", "--format", "json"],
                         input=json.dumps(document).encode(), capture_output=True, check=False)
    if run.returncode != 0:
        raise ValueError(f"exit {run.returncode}: {run.stderr.decode()}")
    return json.loads(run.stdout)["plans"]


def shared_of(plan):
    """For each kernel, those of its ops that are in other kernels, too."""
    kernels = [kernel["ops"] for kernel in plan["kernels"]]
    count = collections.Counter(op for ops in kernels for op in ops)
    return [{op for op in ops if count[op] > 1} for ops in kernels]


def check_stored_once(plan, by_name, outputs):
    """Of an op in several kernels, one stores what the others or the caller need, or none does."""
    for name in set().union(*shared_of(plan)):
        holding = [kernel for kernel in plan["kernels"] if name in kernel["ops"]]
        for result in by_name[name].results:
            readers = {op.name for op in result.readers}
            needed = result.size > 0 and (result in outputs or any(
                readers & set(kernel["ops"]) for kernel in plan["kernels"] if kernel not in holding))
            stored = sum(result.name in kernel["writes"] for kernel in holding)
            if stored != needed:
                raise ValueError(f"{name} is stored by {stored} kernels, and needed: {needed}")


def check_plans(plans, bytes_of):
    for name, plan in plans.items():
        total = 0
        for kernel, shared in zip(plan["kernels"], shared_of(plan)):
            wanted = bytes_of(kernel, shared, name == "limit")
            if (kernel["read"], kernel["write"]) != wanted:
                found = kernel["read"], kernel["write"]
                raise ValueError(f"{name}: {kernel['ops']}: {found}, wanted {wanted}")
            total += sum(wanted)
        if plan["total"] != total:
            raise ValueError(f"{name}: total {plan['total']}, wanted {total}")


def check_demand(binary, rng, seen):
    made = DemandList(rng)
    document, outputs = made.finish()
    seen["document"] = document
    by_name = {op.name: op for op in made.ops}

    def bytes_of(kernel, shared, _):
        ops = [by_name[name] for name in shared]
        stored = [result for op in ops for result in op.results if result.name in kernel["writes"]]
        model = KernelModel([by_name[name] for name in kernel["ops"]], outputs, ops, stored)
        return model.read(), model.written()

    plans = analyze(binary, document)
    check_plans(plans, bytes_of)
    for plan in plans.values():
        check_stored_once(plan, by_name, outputs)
    other = analyze(binary, {**document, "ops": made.shuffled()})
    for name in ("unfused", "explicit", "limit"):
        if plans[name]["total"] != other[name]["total"]:
            raise ValueError(f"{name} changes with the order of the ops")


def check_looks(binary, rng, seen):
    made = LooksList(rng)
    seen["document"] = made.document()
    check_plans(analyze(binary, seen["document"]), made.bytes_of)


def check_list(binary, seed, index):
    rng = random.Random(f"{seed}/{index}")
    seen = {}
    try:
        (check_looks if index % 5 == 0 else check_demand)(binary, rng, seen)
    except ValueError as fault:
        return f"{fault}\n{json.dumps(seen['document'])}"
    return None


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
