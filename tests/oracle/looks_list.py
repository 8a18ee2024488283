"""Random op lists of rows that are read in one look or in more; demand_oracle.py says which."""

import math

from storage import BITS, size_in_bytes

ON_CHIP = 227 * 1024
CLUSTER = 8  # blocks that hold a row together


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
