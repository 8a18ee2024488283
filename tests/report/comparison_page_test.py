#!/usr/bin/env python3
"""The page of compare in headless Chromium: before and after, what changed, hostile names.

    comparison_page_test.py BINARY SOURCE_FOLDER UNIT_TESTS

Exits with 77 where there is no Chromium."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import page_test

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e"


def op_list(fuse, first="up"):
    return {"name": "net", "dtype": "f32", "tensors": {"x": {"shape": [1000000]}},
            "ops": [{"name": first, "op": "exp", "inputs": ["x"], "output": "e"},
                    {"name": "down", "op": "log1p", "inputs": ["e"], "output": "y"}],
            "fuse": [[first, "down"]] if fuse else []}


class ComparisonPageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, side, op_list_or_result):
        path = self.root / f"{side}.json"
        text = json.dumps(op_list_or_result)
        if "ops" in op_list_or_result:
            text = subprocess.run([page_test.BINARY, "analyze", "-", "-f", "json"], input=text,
                                  capture_output=True, text=True, check=True).stdout
        path.write_text(text, encoding="utf-8")
        return json.loads(text)

    def browse(self, script, *options, code, size="1400,1000"):
        page = self.root / "page.html"
        run = subprocess.run([page_test.BINARY, "compare", "base.json", "new.json", "-f", "csv", "-o",
                              page, *options], cwd=self.root, capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, code, run.stderr)
        found = page_test.browse(page, """
          const texts = (selector) => all(selector).map((element) => element.textContent);
          const widths = (row) => [...row.querySelectorAll(".bar")].map((bar) => bar.style.width);
          found.fits = document.documentElement.scrollWidth <= innerWidth;
        """ + script, size=size)
        self.assertEqual((found["faults"], found["requests"], found["fits"]), ([], [], True))
        return found

    def test_before_and_after(self):
        self.write("base", op_list(fuse=True))
        self.write("new", op_list(fuse=False))
        found = self.browse("""
          found.figures = texts(".figures > div");
          found.bad = texts(".figures .bad dd");
          found.plans = all("#plans-table tbody tr").map((row) =>
            [row.querySelector("th .plan").textContent, ...widths(row)]);
          found.changed = all("#changed-table tbody tr").map((row) => row.textContent);
        """, code=1)
        self.assertEqual(found["figures"], ["verdictfailed", "worse2", "same5"])
        self.assertEqual(found["bad"], ["failed", "2"])
        # One scale for all plans of an op list: 16 MB is the full width, 8 MB half of it.
        self.assertEqual(found["plans"], [
            ["explicit", "50%", "100%"], ["unfused", "100%", "100%"], ["compiler", "50%", "50%"],
            ["auto", "50%", "50%"], ["fastest", "50%", "50%"], ["limit", "50%", "50%"]])
        self.assertEqual(len(found["changed"]), 1)  # the kernel; its plan is in the table above
        for words in ("up+down -> up, down", "8.000 MB", "16.00 MB", "split, worse",
                      "e is now written and read"):
            self.assertIn(words, found["changed"][0])

    def test_failures_are_told_from_what_passes(self):
        self.write("base", op_list(fuse=True))
        result = self.write("new", op_list(fuse=True))
        del result["plans"]["compiler"]
        self.write("new", result)
        script = 'found.figures = texts(".figures > div"); found.bad = texts(".figures .bad dd");'
        found = self.browse(script, code=1)
        self.assertEqual((found["figures"], found["bad"]),
                         (["verdictfailed", "removed1", "same5"], ["failed", "1"]))
        found = self.browse(script, "--allow-missing", code=0)
        self.assertEqual((found["figures"], found["bad"]),
                         (["verdictpassed", "removed1", "same5"], []))

    def test_nothing_changed(self):
        for side in ("base", "new"):
            self.write(side, op_list(fuse=True))
        found = self.browse('found.changed = one("#changed p").textContent;', code=0)
        self.assertEqual(found["changed"], "Nothing.")
        result = json.loads((self.root / "new.json").read_text(encoding="utf-8"))
        for plan in result["plans"].values():  # lists of sizes have totals only, too
            plan["kernels"] = []
        self.write("base", result)
        result["plans"]["auto"]["total"] += 1
        self.write("new", result)
        found = self.browse('found.changed = one("#changed p").textContent;', code=1)
        self.assertEqual(found["changed"],
                         "The plans above; no kernel of them is known to differ.")

    def test_hostile_names_on_a_narrow_page(self):
        self.write("base", op_list(True, HOSTILE))
        self.write("new", op_list(False, HOSTILE))
        found = self.browse("""
          found.images = all("img").length;
          found.text = one("#changed-table tbody tr").textContent;
        """, code=1, size="500,900")
        self.assertEqual(found["images"], 0)
        self.assertIn("</script><img src=x onerror=alert(1)>\\u202e", found["text"])


if __name__ == "__main__":
    if page_test.CHROMIUM is None:
        print("skipped: no chromium", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
