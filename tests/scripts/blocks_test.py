#!/usr/bin/env python3
"""Holds scripts/blocks, without a GPU: every block can be exported and is read, and what is measured comes
out as a row for each plan, plans with the same kernels once.

    blocks_test.py FUSECALC SOURCE_FOLDER

Exits with 77 where PyTorch or transformers is missing.
"""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# Measures: auto and fastest have the same kernels, whose bytes come out 1 % above the analytic ones.
FAKE = """#!{python}
import json, sys
plan = sys.argv[sys.argv.index("--plan") + 1]
def found(groups):
    kernels = [{{"name": "+".join(group), "ops": group, "read": 60, "write": 40, "predicted": {{"time_us": 2}},
                 "measured": {{"time_us": {{"median": 3}}}}}} for group in groups]
    return {{"kernels": kernels, "total": 100 * len(groups), "predicted": {{"time_us": 2}},
             "measured": {{"dram_read": 61 * len(groups), "dram_write": 40 * len(groups)}},
             "measured_pipeline": {{"time_us": {{"median": len(groups)}}}},
             "verified": {{"ok": True, "max_rel_err": 0, "by": plan}}}}
fused = found([["a", "b"]])
print(json.dumps({{"plans": {{"unfused": found([["a"], ["b"]]), "compiler": found([["b"], ["a"]]),
                              "auto": fused, "fastest": fused}}}}))
"""


def blocks_of(source):
    loader = importlib.machinery.SourceFileLoader("blocks", str(source / "scripts/blocks"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("blocks", loader))
    loader.exec_module(module)
    return module


def main():
    binary, source = sys.argv[1], pathlib.Path(sys.argv[2])
    blocks = blocks_of(source)
    dry = subprocess.run([sys.executable, source / "scripts/blocks", binary, "--dry-run"],
                         capture_output=True, text=True, check=False)
    assert dry.returncode == 0, dry.stderr
    lines = [line.split() for line in dry.stdout.splitlines()]
    assert [line[0] for line in lines] == [name for name in blocks.BLOCKS for _ in range(4)], dry.stdout
    other = subprocess.run([sys.executable, source / "scripts/blocks", binary, "--only", "bert,gpt"],
                           capture_output=True, text=True, check=False)
    assert other.returncode == 1 and "no block is called 'gpt'" in other.stderr, other.stderr
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "fusecalc"
        fake.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
        fake.chmod(0o755)
        rows = blocks.measure(str(fake), "file.pt2")
    assert list(rows) == ["unfused", "compiler", "auto", "fastest"]
    assert rows["fastest"] is rows["auto"] and rows["auto"]["verified"]["by"] == "auto"
    assert [rows[plan]["kernels"] for plan in rows] == [2, 2, 1, 1]
    assert (rows["unfused"]["bytes"], rows["unfused"]["counted"]) == (200, 202)
    print(f"{len(blocks.BLOCKS)} blocks")


if __name__ == "__main__":
    main()
