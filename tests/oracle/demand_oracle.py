#!/usr/bin/env python3
"""Random op lists against an independent model of what a kernel needs of its inputs.

    demand_oracle.py BINARY [--lists N] [--seed S] [--first I]

The model follows docs/bytes.md from the results back to the inputs, tensor by tensor. Two kinds of list:
- demand: custom ops with several results, parts of results (slices, gathers, views, "reads"), equal parts of
  several, scatters with fewer and with more indices than rows, other ops that overwrite a part in place,
  4-bit types. All rows fit on chip.
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
from demand_list import DemandList
from looks_list import LooksList
from storage import size_in_bytes


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
                    part = op.part_taken(read, need) or (
                        self.part_of(op.results[0]) if op.pointwise else (op, i))
                    key = (read.shown, part, need)
                    if places is not None or key not in needs:
                        needs[key] = (read, need, places)
        return needs.values()

    def part_of(self, tensor):
        """What tells the part of a tensor that the kernel's ops need: the same for all that is computed for it."""
        if tensor not in self.parts:
            parts = {tensor}
            if not self.leaves(tensor):
                parts = {op.part_taken(read, need) or (
                             self.part_of(op.results[0]) if op.pointwise else op)
                         for op in self.readers_of(tensor)
                         for read, need, _ in self.needs(op) if read.value is tensor}
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
