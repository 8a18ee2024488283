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


def different(parts):
    """Each part of a value once."""
    return list({(tensor.value, part): (tensor, part, elements)
                 for tensor, part, elements in parts if elements > 0}.values())


def elements_of(parts):
    """Of one value, together."""
    known = [part for _, part, _ in parts if isinstance(part, frozenset)]
    return len(frozenset().union(*known)) + sum(
        elements for _, part, elements in parts if not isinstance(part, frozenset))


class KernelModel:
    def __init__(self, kernel, outputs, shared=(), stored=()):
        """The ops `shared` are in other kernels, too; of their results, this one stores those in `stored`."""
        self.kernel, self.outputs, self.shared, self.stored = set(kernel), outputs, set(shared), set(stored)
        self.known = {}

    def leaves(self, tensor):
        """Whether someone outside of the kernel gets the tensor from it."""
        if tensor.maker in self.shared:
            return tensor in self.stored
        in_input = tensor.memory is not tensor and tensor.memory.maker is None
        if tensor in self.outputs or in_input or any(
                reader not in self.kernel or reader in self.shared for reader in tensor.readers):
            return True
        return tensor.patch is not None and self.leaves(tensor.patch)

    def parts_of(self, tensor):
        """What the kernel's ops need of what another of them makes."""
        if tensor not in self.known:
            readers = [op for op in tensor.readers if op in self.kernel]
            self.known[tensor] = different(part for op in readers for part in self.needs(op)
                                           if part[0].value is tensor)
        return self.known[tensor]

    def used(self, tensor):
        return min(tensor.size, view_parts.add_up(self.parts_of(tensor)).get(tensor, 0))

    def needs(self, op):
        """Of each operand the parts that the op takes: (tensor, places of its value, how many); else what tells the
        part from others, in place of the places."""
        wanted = [math.inf if self.leaves(r) or self.used(r) >= r.size else self.used(r)
                  for r in op.results
                  if self.leaves(r) or any(reader in self.kernel for reader in r.readers)]
        most = max(wanted, default=math.inf) if op.local else math.inf
        for i, (tensor, whole) in enumerate(op.reads):
            touched = min(whole, most)
            kept = max((min(self.used(r), r.left) for r in op.results
                        if r.memory is tensor.memory), default=0)
            parts = self.images(op, i, tensor) if most < math.inf and kept == 0 else None
            if parts is not None:
                together = elements_of(parts)
                known = all(isinstance(part, frozenset) for _, part, _ in parts)
                if together < whole and (known or together <= touched):
                    yield from parts
                    continue
            touched = max(touched, kept)
            yield self.own_part(op, i, tensor) if touched == whole else (tensor, (op, i), touched)

    @staticmethod
    def own_part(op, i, tensor):
        """For all of the results."""
        touched = op.reads[i][1]
        if tensor.places is not None and touched == tensor.distinct:
            return tensor, frozenset(tensor.places), touched
        part = op.taken.get(tensor, (op, i))
        known = isinstance(part, frozenset)
        return (tensor, part if not known or len(part) == touched else (op, i), touched)

    def images(self, op, i, tensor):
        """For what is needed of the results; None if that is not known."""
        if tensor not in op.sources:
            return None
        sources, parts, unknown = op.sources[tensor], [], 0
        for _, part, elements in self.parts_of(op.results[0]):
            if isinstance(part, frozenset):
                places = frozenset(sources[place] for place in part) - {None}
                if tensor.places is not None:
                    places = frozenset(tensor.places[place] for place in places)
                parts.append((tensor, places, len(places)))
            elif op.in_step(tensor):
                parts.append((tensor, part, elements))
            else:
                unknown = min(unknown + elements, op.reads[i][1])
        return different(parts + [(tensor, (op, i), unknown)])

    def read(self):
        memories = {}
        needs = view_parts.add_up(different(
            part for op in self.kernel for part in self.needs(op)
            if part[0].value.maker not in self.kernel))
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
