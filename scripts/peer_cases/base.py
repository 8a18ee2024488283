"""What the kinds of case are made with."""
import collections

import random_lists
from random_lists import BYTES, graph

# shape: what the table shows. ops: the op list. run: a function of the list's input tensors, in their
# order, that returns its outputs. libraries: further implementations by name, each a function of the
# inputs that prepares them and returns a function without arguments. highs: for inputs of indices, the
# number of rows they choose from, or that their groups have (i32: where these end). lows: of inputs
# that are not drawn from -1 to 1.
Case = collections.namedtuple("Case", "shape ops run libraries highs lows",
                              defaults=({}, {}, {}))
KINDS = {}  # by name: a function that draws a Case
EPS = 1e-5


class Drawer(random_lists.Drawer):
    """Draws one of several shapes of a kind: `within` keeps to that shape's part of a range."""

    def __init__(self, seed, kind, part, parts):
        super().__init__(f"{seed}, {kind}, {part}")
        self.part = (part + self.random.random()) / parts

    def within(self, low, high, multiple=1):
        value = low * (high / low) ** self.part
        return max(multiple, round(value / multiple) * multiple)

    def rows_of(self, columns, dtype="bf16", low=4 << 20, high=512 << 20):
        """How many rows of so many columns a tensor of drawn size has."""
        return max(1, self.within(low, high) // (columns * BYTES[dtype]))

    def width(self):
        return self.any(512, 768, 1024, 1536, 2048, 4096, 5120, 8192, 11008, 16384)

    def product(self, columns=None, low=4e9, high=2e12):
        """Rows, columns and depth of a product of drawn FLOPs."""
        n = columns or self.size(768, 16384, 64)
        k = self.size(512, 8192, 64)
        rows = self.within(low, high) / (2 * n * k)
        return max(64, min(32768, round(rows / 8) * 8)), n, k


def kind(name):
    def register(function):
        KINDS[name] = function
        return function
    return register


def typed(dtype, *shape):
    return {"shape": list(shape), "dtype": dtype}


def text(dtype, *shape):
    return f"{dtype} {'x'.join(map(str, shape))}"


def listed(dtype, tensors, ops, *outputs):
    return graph(dtype, tensors, ops) | {"outputs": list(outputs)}
