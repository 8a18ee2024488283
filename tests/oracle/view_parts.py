"""What ops take of the views of a value, for the oracles.

Elements that several views show, or slices take, count once. Where only a number is known of what an op takes,
the numbers of all add up: for one view, or views of the same elements in another order, to that view at most;
for views that show parts of a view, to that one; and for all, to the tensor. Which view is a part of which is
told by how they were made.
"""


class Windows:
    """Those of a value: the same elements, whatever their order, are one."""

    def __init__(self, value):
        self.same = {}
        self.outer = {}
        parts = [(view.window, view.base.window) for view in value.views
                 if None not in (view.window[1], view.base.window[1])]
        for part, whole in parts:
            part, whole = self.counted(part), self.counted(whole)
            if part != whole and self.size(part) == self.size(whole):
                self.same[part] = whole
        for part, whole in parts:
            part, whole = self.counted(part), self.counted(whole)
            if part != whole and self.size(whole) < self.size(self.outer.get(part)):
                self.outer[part] = whole

    def counted(self, window):
        while window in self.same:
            window = self.same[window]
        return window

    @staticmethod
    def size(window):
        return float("inf") if window is None else len(set(window[1]))


def add_up(parts, exact=True):
    """The elements of each value that are taken, of (tensor, places of the value or what tells them from
    others, how many)."""
    taken = add_up_apart(parts)
    together, others = {}, {}
    for tensor, part, elements in parts:
        if isinstance(part, frozenset):
            together.setdefault(tensor.value, set()).update(part)
        else:
            others[tensor.value] = others.get(tensor.value, 0) + elements
    return {value: min(elements, len(together.get(value, ())) + others.get(value, 0))
            if exact else elements for value, elements in taken.items()}


def add_up_apart(parts):
    """The same, as if no two parts had elements in common."""
    taken = {}
    known = {}
    for tensor, _, elements in parts:
        value = tensor.value
        if tensor.window[1] is not None:
            if value not in known:
                known[value] = Windows(value)
            windows = known[value]
            window = windows.counted(tensor.window)
            while window is not None:
                elements = min(elements, Windows.size(window) - taken.get(window, 0))
                taken[window] = taken.get(window, 0) + elements
                window = windows.outer.get(window)
        taken[value] = taken.get(value, 0) + elements
    return {value: elements for value, elements in taken.items() if not isinstance(value, tuple)}
