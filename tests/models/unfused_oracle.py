"""Counts what the ops of .pt2 files move, each a kernel of its own, without fusecalc's reader.

usage: unfused_oracle.py FUSECALC FILE...

Reads the JSON of each archive and applies the rules of docs/bytes.md and docs/models.md to the program as it is:
nearly every node reads each distinct tensor once, as many elements as the node sees of it, and writes the results
that something needs. What differs from that is a case below. The totals must equal fusecalc's to the byte. Programs
should be decomposed (run_decompositions({})). A file is left out, and named, if it has nodes that fusecalc reads as
several ops: attention written out, einsum, recurrent networks, memory that is written part by part.
"""
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import zipfile

BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 12: 1, 13: 2, 29: 1, 30: 1}
FLOATS = {6, 7, 8, 13}

VIEWS = {"view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "slice", "select",
         "split", "split_with_sizes", "chunk", "unbind", "alias", "detach", "lift_fresh_copy", "flatten", "unflatten",
         "view_as", "numpy_T", "mT", "movedim", "narrow", "expand", "expand_as", "broadcast_to"}
COPIES = {"clone", "contiguous", "_to_copy", "to", "type_as"}
CONSTANTS = {"full": None, "full_like": None, "new_full": None, "scalar_tensor": None, "fill": None, "zeros": 0,
             "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1, "empty": 0, "empty_like": 0,
             "new_empty": 0, "empty_permuted": 0}
ATTENTION = {"scaled_dot_product_attention"}
CONVOLUTIONS = {"convolution", "conv1d", "conv2d", "conv3d"}
GROUPED = {"_grouped_mm", "grouped_mm_fallback"}
SEVERAL_OPS = {"einsum", "lstm", "gru", "slice_scatter", "select_scatter", "index_put", "index_add", "index_copy",
               "scatter", "scatter_add", "linalg_vector_norm", "glu", "mse_loss", "var_mean", "pixel_shuffle", "stack",
               "convolution_backward", "native_layer_norm_backward", "native_batch_norm_backward",
               "_scaled_dot_product_flash_attention_for_cpu_backward", "nll_loss_backward", "nll_loss_forward",
               "_native_batch_norm_legit_functional", "max_pool2d_with_indices_backward", "sort", "topk",
               "log_softmax_backward_data", "pad", "roll", "baddbmm", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
               "binary_cross_entropy_with_logits", "cosine_similarity", "std_mean", "_weight_norm",
               "_weight_norm_interface", "celu", "threshold", "diagonal", "unfold", "meshgrid",
               "take", "tile", "linalg_norm", "_unsafe_index", "tensordot", "trace"}


class Unknown(Exception):
    pass


def size(number):
    """A number, or the value that an expression had when the program was exported."""
    return number["as_int"] if "as_int" in number else number["as_expr"]["hint"]["as_int"]


class Storage:
    """Memory that one op, or the caller, has written."""

    def __init__(self, elements, dtype, maker=None):
        self.elements, self.dtype, self.maker = elements, dtype, maker


class Value:
    """What a name stands for: elements of a storage, all of it seen once unless `seen` says less; or a number."""

    def __init__(self, storage, shape, strides, number=None, seen=None):
        self.storage, self.shape, self.strides, self.number = storage, shape, strides, number
        self.seen = storage.elements if storage and seen is None else seen


class Kernel:
    def __init__(self, reads, name):
        self.reads, self.name, self.written = reads, name, []

    def bytes(self, needed):
        seen, sizes = collections.Counter(), {}
        for value, count in {(id(value.storage), id(value)): (value, count) for value, count in self.reads}.values():
            seen[id(value.storage)] += count
            sizes[id(value.storage)] = value.storage
        read = sum(min(count, sizes[key].elements) * BYTES[sizes[key].dtype] for key, count in seen.items())
        return read + sum(each.elements * BYTES[each.dtype] for each in self.written if id(each) in needed)


BINARY = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "le": lambda a, b: a <= b, "lt": lambda a, b: a < b,
          "ge": lambda a, b: a >= b, "gt": lambda a, b: a > b, "logical_and": lambda a, b: bool(a) and bool(b),
          "bitwise_and": lambda a, b: bool(a) and bool(b)}


class Places:
    """Elements as functions of where they are, of tensors that are made of nothing else."""

    def __init__(self, program):
        self.program, self.known = program, {}

    def element(self, name, at):
        """An element of a tensor that broadcasts to these places."""
        function, shape = self.known[name]
        return function([0 if extent == 1 else i for extent, i in zip(shape, at[len(at) - len(shape):])])

    def note(self, node, op, result):
        names = [name for _, given in self.program.tensors(node) for name in given]
        if any(name not in self.known for name in names):
            return
        number = self.program.number
        if op == "arange":
            start, step = number(node, "start") or 0, number(node, "step") or 1
            function = lambda at: start + step * at[0]
        elif op in ("full", "ones", "zeros"):
            value = number(node, "fill_value") if op == "full" else float(op == "ones")
            function = lambda at: value
        elif op == "unsqueeze":
            axis = int(number(node, "dim") or 0) % len(self.program.meta(result)[0])
            function = lambda at: self.element(names[0], at[:axis] + at[axis + 1:])
        elif op in ("expand", "clone", "alias"):
            function = lambda at: self.element(names[0], at)
        elif op in ("tril", "triu"):
            side, diagonal = (1 if op == "tril" else -1), number(node, "diagonal") or 0
            function = lambda at: self.element(names[0], at) if side * (at[-1] - at[-2] - diagonal) <= 0 else 0
        elif op in ("logical_not", "bitwise_not"):
            function = lambda at: not self.element(names[0], at)
        elif op in BINARY and (len(names) == 2 or number(node, "other") is not None):
            other = number(node, "other")
            function = lambda at: BINARY[op](self.element(names[0], at),
                                             self.element(names[1], at) if len(names) == 2 else other)
        else:
            return
        self.known[result] = (function, self.program.meta(result)[0])

    def is_causal(self, name):
        """Whether a mask lets the last query see all keys, and each before it one fewer."""
        if name not in self.known:
            return False
        shape = self.known[name][1]
        if len(shape) < 2:
            return False
        queries, keys = shape[-2:]
        front = [0] * (len(shape) - 2)
        for query in range(queries):
            seen = query + keys - queries
            for key in {0, seen - 1, seen, seen + 1, keys - 1} & set(range(keys)):
                if bool(self.element(name, [*front, query, key])) != (key <= seen):
                    return False
        return True


class Program:
    def __init__(self, document):
        module = document["graph_module"]
        self.graph, self.signature = module["graph"], module["signature"]
        self.values, self.kernels, self.uses = {}, [], collections.Counter()
        self.places = Places(self)
        for node in self.graph["nodes"]:
            self.uses.update(name for _, names in self.tensors(node) for name in names)
        self.uses.update(each["as_tensor"]["name"] for each in self.graph["outputs"] if "as_tensor" in each)

    def tensors(self, node):
        """(argument, names of its tensors; "" for one that is not given)."""
        for given in node["inputs"]:
            argument = given["arg"]
            if "as_tensor" in argument:
                yield given["name"], [argument["as_tensor"]["name"]]
            elif "as_tensors" in argument:
                yield given["name"], [each["name"] for each in argument["as_tensors"]]
            elif "as_optional_tensors" in argument:
                yield given["name"], [each["as_tensor"]["name"] if "as_tensor" in each else ""
                                      for each in argument["as_optional_tensors"]]

    def meta(self, name):
        meta = self.graph["tensor_values"][name]
        return [size(each) for each in meta["sizes"]], [size(each) for each in meta["strides"]], meta["dtype"]

    def number(self, node, *names):
        for given in node["inputs"]:
            if given["name"] in names:
                kinds = given["arg"]
                for kind in ("as_int", "as_float", "as_bool"):
                    if kind in kinds:
                        return float(kinds[kind])
        return None

    def results(self, node):
        names = []
        for output in node["outputs"]:
            if "as_tensor" in output:
                names.append(output["as_tensor"]["name"])
            elif "as_tensors" in output:
                names += [each["name"] for each in output["as_tensors"]]
        return [name for name in names if name]

    def tensor(self, value):
        """A number in every element becomes memory where an op needs memory."""
        if value.storage is None:
            raise Unknown("a number as memory")
        return value

    def kernel(self, node, reads, names):
        """An op of its own: its reads, and a storage for each result."""
        kernel = Kernel([(value, value.seen) if not isinstance(value, tuple) else value for value in reads],
                        node["target"])
        self.kernels.append(kernel)
        for name in names:
            shape, strides, dtype = self.meta(name)
            storage = Storage(math.prod(shape), dtype, kernel)
            kernel.written.append(storage)
            self.values[name] = Value(storage, shape, strides)

    def view(self, name, source):
        """Axes of stride 0 show the same elements."""
        shape, strides, _ = self.meta(name)
        elements = math.prod(extent for extent, stride in zip(shape, strides) if stride)
        seen = min(elements, source.storage.elements) if source.storage else None
        self.values[name] = Value(source.storage, shape, strides, source.number, seen)

    def repeated(self, value):
        """Heads before they were repeated: a copy of an expansion, in other shapes."""
        kernel = value.storage.maker if value.storage else None
        same = kernel is not None and len(kernel.reads) == 1 and "clone" in kernel.name
        source = kernel.reads[0][0] if same else None
        return source if source is not None and source.seen < value.storage.elements else value

    def run_node(self, node):
        target = node["target"].split(".")
        op = target[3] if target[:2] == ["torch", "ops"] else ""
        names = self.results(node)
        if not op or not names:
            return
        if op in SEVERAL_OPS or op.startswith("_foreach_"):
            raise Unknown(op)
        given = {argument: [self.values[name] if name else None for name in tensors]
                 for argument, tensors in self.tensors(node)}
        inputs = [value for values in given.values() for value in values if value is not None]
        first = inputs[0] if inputs else None
        self.places.note(node, op, names[0])
        if op in CONSTANTS:
            number = CONSTANTS[op]
            if number is None:
                number = self.number(node, "fill_value", "value", "s")
            if number is None:
                raise Unknown(op)
            shape, strides, _ = self.meta(names[0])
            self.values[names[0]] = Value(None, shape, strides, number)
        elif op in VIEWS:
            for name in names:
                self.view(name, first)
        elif op in COPIES or (op == "dropout" and not self.number(node, "train", "p")):
            self.copy(node, first, names[0])
        elif op == "where" and given["condition"][0].number is not None:
            raise Unknown("where of a known condition")
        elif op == "cat":
            parts = [each for each in inputs if math.prod(each.shape)]
            if len(parts) == 1:
                self.view(names[0], parts[0])
            else:
                self.kernel(node, [self.tensor(each) for each in parts], names)
        elif op in ("embedding", "index_select", "index"):
            self.gather(node, op, given, names)
        elif op in ("bmm", "matmul") and self.are_weights(first):
            raise Unknown("attention written out")
        elif op in GROUPED and given.get("offs") and [len(each.shape) for each in inputs[:2]] == [2, 3]:
            rows, matrices, offsets = inputs
            read = min(rows.shape[0], matrices.shape[0]) * math.prod(matrices.shape[1:])
            self.kernel(node, [rows, (matrices, read), offsets], names)
        elif op == "diff":
            self.differences(node, given, names[0])
        elif op in CONVOLUTIONS and not self.number(node, "transposed"):
            x = inputs[0]
            self.kernel(node, [(x, min(x.seen, self.windows(node, *inputs[:2])))] + inputs[1:], names)
        elif op in ATTENTION:
            key, value = (self.repeated(given[each][0]) for each in ("key", "value"))
            masks = dict(self.tensors(node)).get("attn_mask", [])
            mask = [self.values[each] for each in masks if each and not self.places.is_causal(each)]
            self.kernel(node, [given["query"][0], key, value] + mask, names)
        else:
            self.kernel(node, [each for each in inputs if each.storage is not None], names)

    def copy(self, node, source, name):
        shape, strides, dtype = self.meta(name)
        if source.storage is None:
            self.view(name, source)
        elif dtype != source.storage.dtype:
            if self.was(source, dtype):
                raise Unknown("a cast back")
            self.kernel(node, [source], [name])
        elif any(a != b for extent, a, b in zip(shape, strides, source.strides) if extent > 1):
            self.kernel(node, [source], [name])
        else:
            self.view(name, source)

    def was(self, value, dtype):
        """Whether a value was cast from a narrower type."""
        kernel = value.storage.maker
        if kernel is None or "_to_copy" not in kernel.name or dtype not in FLOATS:
            return False
        before = kernel.reads[0][0].storage
        return before.dtype == dtype and BYTES[dtype] < BYTES[value.storage.dtype]

    @staticmethod
    def are_weights(value):
        """Whether a value is a softmax, cast or selected: what attention multiplies values with."""
        kernel = value.storage.maker
        while kernel is not None and any(each in kernel.name for each in ("_to_copy", ".where", "clone")):
            kernel = kernel.reads[-1][0].storage.maker
        return kernel is not None and "softmax" in kernel.name

    def gather(self, node, op, given, names):
        table = given["weight" if op == "embedding" else "self"][0]
        indices = [each for each in given["indices" if op != "index_select" else "index"] if each is not None]
        if op == "index" and len(indices) == 1 and indices[0].storage.dtype == 12:
            raise Unknown("index by a mask")
        elements = math.prod(self.meta(names[0])[0])
        chosen = [name for argument, tensors in self.tensors(node) if argument == "indices" for name in tensors]
        if op == "index" and len(indices) > 1 and all(name in self.places.known for name in chosen if name):
            indices = []  # places that are known without memory
        elif op == "index" and len(indices) > 1:
            raise Unknown("index of several axes")
        self.kernel(node, [(table, min(elements, table.seen))] + indices, names)

    def windows(self, node, x, weight):
        """Elements of x that some window of a convolution has."""
        lists = {"stride": [1], "padding": [0], "dilation": [1]}
        for given in node["inputs"]:
            lists[given["name"]] = given["arg"].get("as_ints") or lists.get(given["name"])
            if given["arg"].get("as_string") == "same":  # one apart: no gaps
                return x.storage.elements
        touched = math.prod(x.shape[:2])
        for i, (extent, taps) in enumerate(zip(x.shape[2:], weight.shape[2:])):
            stride, padding, dilation = (lists[name][i if len(lists[name]) > 1 else 0]
                                         for name in ("stride", "padding", "dilation"))
            results = (extent + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
            places = {result * stride + tap * dilation - padding
                      for result in range(results) for tap in range(taps)}
            touched *= len(places & set(range(extent)))
        return touched

    def differences(self, node, given, name):
        parts = [given[each][0] for each in ("prepend", "self", "append") if given.get(each) and given[each][0]]
        joined = parts[0]
        shape, _, dtype = self.meta(name)
        if len(parts) > 1:
            kernel = Kernel([(part, part.seen) for part in parts], "concat")
            self.kernels.append(kernel)
            storage = Storage(sum(math.prod(part.shape) for part in parts), dtype, kernel)
            kernel.written.append(storage)
            joined = Value(storage, shape, [])
        # Each neighbour is a view of its own.
        pair = [Value(joined.storage, shape, [], seen=math.prod(shape)) for _ in range(2)]
        self.kernel(node, pair, [name])

    def run(self):
        mutated = {}
        for given in self.graph["inputs"]:
            if "as_tensor" in given:
                name = given["as_tensor"]["name"]
                shape, strides, dtype = self.meta(name)
                self.values[name] = Value(Storage(math.prod(shape), dtype), shape, strides)
        for node in self.graph["nodes"]:
            if any("as_graph" in given["arg"] for given in node["inputs"]):
                raise Unknown("a graph that is called")
            self.run_node(node)
        needed, open_ = set(), []

        def need(storage):
            if storage is not None and id(storage) not in needed:
                needed.add(id(storage))
                if storage.maker is not None:
                    open_.append(storage.maker)

        for each in self.graph["outputs"]:
            if "as_tensor" in each:
                need(self.tensor(self.values[each["as_tensor"]["name"]]).storage)
        done = []
        while open_:
            kernel = open_.pop()
            if kernel not in done:
                done.append(kernel)
                for value, _ in kernel.reads:
                    need(value.storage)
        return sum(kernel.bytes(needed) for kernel in done)


def count(path):
    with zipfile.ZipFile(path) as archive:
        name = next(each for each in archive.namelist() if "/models/" in each and each.endswith(".json"))
        return Program(json.loads(archive.read(name))).run()


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        for path in sys.argv[2:]:
            name = pathlib.Path(path).name
            try:
                expected = count(path)
            except Unknown as unknown:
                print(f"{name}: left out: {unknown}")
                continue
            subprocess.run([sys.argv[1], "analyze", path, "-o", result], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            found = json.loads(result.read_text())["unfused_bytes"]
            compared += 1
            wrong += found != expected
            print(f"{name}: {found} B" if found == expected else f"{name}: {found} B, counted {expected} B")
    print(f"{compared - wrong} of {compared} are equal to the byte")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
