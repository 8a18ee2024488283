"""Random op lists of what ops need of results; demand_oracle.py says which."""

import math

POINTWISE = {"relu", "exp", "neg", "cast", "add"}


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
        self.pointwise = False
        self.taken = {}  # what it takes of a tensor's value: the places, or what tells them from others
        self.sources = {}  # of an operand: the element of it for each of the result, or None

    def in_step(self, tensor):
        """Whether each element comes from the one at the same place of the value."""
        return (self.pointwise and tensor.shown is tensor.value and
                tensor.value.size == self.results[0].size)


class DemandList:
    def __init__(self, rng):
        self.rng = rng
        self.declared, self.lines, self.ops, self.tensors = {}, {}, [], []
        self.dtype = rng.choice(["f16", "bf16", "f32", "f64"])
        self.rows, self.columns = rng.choice([1, 2, 7, 40]), rng.choice([1, 3, 64, 130])
        self.count = 0
        self.views = []
        self.cuts, self.indices = {}, {}  # used before, by shape and by count
        for _ in range(rng.randint(1, 2)):
            self.input([self.rows, self.columns])
        steps = [self.custom, self.custom, self.custom, self.scatter, self.scatter, self.scatter,
                 self.patch, self.cut, self.cut, self.gather, self.unary, self.unary, self.pair,
                 self.cast, self.join, self.repeat, self.transpose, self.total, self.norm, self.view,
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
        op = self.op(self.rng.choice(["relu", "exp", "neg", "copy"]), [x],
                     [self.new(x.shape, x.dtype)])
        op.sources[x] = range(x.size)

    def cast(self):
        x = self.pick()
        to = self.rng.choice(["i4", "u4", "fp4_e2m1", "f32", "u8"])
        self.op("cast", [x], [self.new(x.shape, to)], to=to).sources[x] = range(x.size)

    def pair(self):
        x = self.pick_float()
        y = self.pick(lambda t: t is not x and t.shape == x.shape and t.dtype == x.dtype)
        if y is x or y.shape != x.shape or y.dtype != x.dtype:
            y = self.input(self.rng.choice([x.shape[-1:], x.shape[:-1] + [1]]), x.dtype)
        op = self.op("add", [x, y], [self.new(x.shape, x.dtype)])
        op.sources = {tensor: self.repeated(tensor, x.shape) for tensor in (x, y)}

    def repeat(self):
        x = self.pick()
        shape = [self.rng.choice([1, 3])] + x.shape
        op = self.op("broadcast_to", [x], [self.new(shape, x.dtype)], shape=shape)
        op.sources[x] = self.repeated(x, shape)

    @staticmethod
    def repeated(tensor, shape):
        """The element of the tensor for each one of the shape that it broadcasts to."""
        places = [0]
        of = [1] * (len(shape) - len(tensor.shape)) + tensor.shape
        for extent, count in zip(of, shape):
            places = [place * extent + (i if extent > 1 else 0) for place in places
                      for i in range(count)]
        return places

    def cut(self):
        x = self.pick()
        axis = self.rng.randrange(len(x.shape))
        start = self.rng.randint(0, x.shape[axis])
        end = self.rng.randint(start, x.shape[axis])
        if self.rng.random() < 0.5:
            axis, start, end = self.cuts.setdefault(tuple(x.shape), (axis, start, end))
        shape = x.shape[:axis] + [end - start] + x.shape[axis + 1:]
        y = self.new(shape, x.dtype)
        places = list(range(x.size)) if x.places is None else x.places
        inner = math.prod(x.shape[axis + 1:])
        source = [i for i in range(x.size) if start <= i // inner % x.shape[axis] < end]
        taken = frozenset(places[i] for i in source)
        op = self.op("slice", [x], [y], {x: len(taken)}, axis=axis, start=start, end=end)
        op.taken[x] = taken
        op.sources[x] = source

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
            op = self.op("cast", [view], [self.new(view.shape, "f32")], to="f32")
            op.sources[view] = range(view.size)
        if len(views) == 2 and self.rng.random() < 0.5:
            op = self.op("concat", views, [self.new(x.shape, x.dtype)], axis=axis)
            op.sources = self.joined(views, axis)

    def gather(self):
        x = self.pick()
        count = self.rng.choice([1, 3, 50])
        y = self.new([count] + x.shape[1:], x.dtype)
        i = self.indices.get(count)
        if i is None or self.rng.random() < 0.5:
            i = self.indices[count] = self.input([count], "i32")
            self.tensors.remove(i)
        touched = {x: min(x.size, y.size)}
        if len(x.shape) == 2 and self.rng.random() < 0.3:
            swapped = x.dtype in ("f16", "bf16", "f32", "f64") and self.rng.random() < 0.5
            op = self.op("embedding", [i, x] if swapped else [x, i], [y], touched)
        else:
            op = self.op("gather", [x, i], [y], touched, axis=0)
        if x.places is None:
            op.taken[x] = ("named", tuple(x.shape), i)
        op.sources[i] = [element * count // y.size for element in range(y.size)]

    def join(self):
        x = self.pick()
        y = self.input(x.shape, x.dtype)
        op = self.op("concat", [x, y], [self.new([2 * x.shape[0]] + x.shape[1:], x.dtype)], axis=0)
        op.sources = self.joined([x, y], 0)

    @staticmethod
    def joined(parts, axis):
        """Of each part: the element of it for each of the result of a concat, or None."""
        inner = math.prod(parts[0].shape[axis + 1:])
        outer = math.prod(parts[0].shape[:axis])
        return {part: [(o * part.shape[axis] + i) * inner + k if other is part else None
                       for o in range(outer) for other in parts
                       for i in range(other.shape[axis]) for k in range(inner)]
                for part in parts}

    def transpose(self):
        x = self.pick(lambda t: len(t.shape) == 2)
        op = self.op("transpose", [x], [self.new(x.shape[::-1], x.dtype)])
        rows, columns = x.shape
        op.sources[x] = [i * columns + k for k in range(columns) for i in range(rows)]

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
            op = self.op("neg", [updates], [self.new(updates.shape, updates.dtype)])
            op.sources[updates] = range(updates.size)
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
