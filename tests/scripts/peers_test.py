#!/usr/bin/env python3
"""Holds scripts/peers, without a GPU: its op lists are what fusecalc takes, and cases that cannot be
measured or whose results are wrong are named, while the others go on.

    peers_test.py FUSECALC SOURCE_FOLDER
"""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

# Measures, but for lists of some names: it refuses them, has no code, or computes what is wrong.
FAKE = """#!{python}
import json, pathlib, sys
if sys.argv[1] != "measure":
    sys.exit("fusecalc: these lists are wrong")
files = sys.argv[2:sys.argv.index("--plan")]
plan = sys.argv[sys.argv.index("--plan") + 1]
results = []
for file in files:
    name = pathlib.Path(file).stem
    if name == "refused":
        sys.exit(print(f"fusecalc: {{file}}: too large", file=sys.stderr) or 2)
    def found(ops, us):
        kernels = [{{"name": "k", "ops": group, "schedule": "s", "measured": {{
            "time_us": None, "reason": "not measured: --cache pipeline"}}}} for group in ops]
        time = {{"time_us": {{"median": us}}}}
        if name == "no code":
            kernels.append({{"name": "l", "ops": [], "measured": {{"reason": "no code for l"}}}})
            time = {{"time_us": None, "reason": "one of them has no code"}}
        return {{"kernels": kernels, "measured_pipeline": time,
                 "verified": {{"ok": name != "wrong", "max_rel_err": 0.5}}}}
    plans = {{"unfused": found([["a"], ["b"]], 30), "fastest": found([["a", "b"]], 20),
              "auto": found([["a", "b"]] if name == "good" else [["a"], ["b"]], 25)}}
    results.append({{"plans": plans, "device": {{"driver": "1.2"}}}})
print(json.dumps(results if len(results) > 1 else results[0]))
sys.exit(any(not r["plans"][plan]["verified"]["ok"] for r in results))
"""


def peers_of(source):
    path = str(source / "scripts/peers")
    loader = importlib.machinery.SourceFileLoader("peers", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("peers", loader))
    loader.exec_module(module)
    return module


def dry_run(binary, source, *words):
    """The exit code, the lines without what aligns their columns, and standard error."""
    done = subprocess.run([source / "scripts/peers", binary, "--dry-run", *words],
                          capture_output=True, text=True, check=False)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    return done.returncode, lines, done.stderr


def check_lists(binary, source):
    code, lines, error = dry_run(binary, source)
    assert code == 0, (lines, error)
    kinds, cases = (int(word) for word in lines[-1].split() if word.isdigit())
    assert kinds >= 20 and cases == 3 * kinds == len(lines) - 1, lines[-1]
    # The seed decides what is drawn: of other kinds, too, the same.
    assert dry_run(binary, source) == (code, lines, error)
    other = dry_run(binary, source, "--seed", "2")[1]
    assert sum(line in lines for line in other) < cases / 4, "another seed draws the same"
    some = dry_run(binary, source, "--only", "attention")[1]
    assert some[:-1] == [line for line in lines if "attention" in line], some
    code, lines, error = dry_run(binary, source, "--only", "no such kind")
    assert code == 1 and not lines and "attention" in error, (code, lines, error)


def check_failures(source):
    peers = peers_of(source)
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "fake"
        fake.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
        fake.chmod(0o755)
        rows = peers.time_kind(str(fake), ["good", "no code", "better", "wrong", "refused"], 30)
        refused = dry_run(fake, source, "--only", "rotary")
    assert [rows[0][key] for key in ("unfused_us", "ours_us", "auto_us")] == [30, 20, 20], rows[0]
    assert rows[2]["auto_us"] == 25, rows[2]
    assert rows[1] == "no code for l", rows[1]
    assert rows[3] == "its results are wrong: relative error 0.5", rows[3]
    assert rows[4] == "fusecalc: refused: too large", rows[4]
    assert refused == (1, ["fusecalc: these lists are wrong"], ""), refused


def check_ratio(source):
    peers = peers_of(source)
    row = peers.row_of({"ours_us": 20.0}, {"eager": 50.0, "compile": 30.0, "b": 25.0, "a": 40.0}, {})
    assert (row["best"], row["ratio"], row["library_us"]) == ("b", 1.25, 25.0), row
    row = peers.row_of({"ours_us": 20.0}, {"eager": 10.0}, {"compile": "not here"})
    assert (row["best"], row["ratio"], row["library_us"]) == ("eager", 0.5, None), row


def main():
    binary, source = sys.argv[1], pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(source / "scripts"))
    check_lists(binary, source)
    check_failures(source)
    check_ratio(source)


if __name__ == "__main__":
    main()
