"""What ops take of the views of a value, for the oracles.

What several ops take of one view, or of views of the same elements in another order, adds up to that view at
most; what they take of views that show parts of a view, to that one; and of all, to the tensor. Which view is
a part of which is told by how they were made.
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


def add_up(needs):
    """The elements that are taken of each value, of (tensor, elements)."""
    taken = {}
    known = {}
    for tensor, elements in needs:
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
