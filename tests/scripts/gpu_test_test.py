#!/usr/bin/env python3
"""Holds scripts/gpu-test against made-up programs: what it counts as passed, skipped and failed.

    gpu_test_test.py SOURCE_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile

FUSECALC = """#!/bin/sh
[ "$1" = measure ] || exit 0
name=$(basename "${2#@}" .json)
while [ "$1" != -o ]; do shift; done
if [ -e "$0.$name.error" ]; then cat "$0.$name.error" >&2; exit 2; fi
cat "$0.$name.json" 2>/dev/null >"$2" || cp "$0.json" "$2"
"""
TESTS = """#!/bin/sh
[ "$1" = --list-test-cases ] && echo "a test"
exit 0
"""
NO_CODE = '"experts" (grouped_matmul) cannot be generated: fusecalc generates no grouped_matmul kernels'
NO_ROOM = "fusecalc: @adam: its tensors need 1 TB of device memory, and Fake GPU has 1 GB free"


def result(*reasons):
    """A result with a kernel for each reason why it was not measured, and one that was."""
    kernels = [{"name": "k", "boundary": [{"reason": "not fused"}], "measured": {"dram_read": 1}}]
    for reason in reasons:
        kernels.append({"name": "k", "measured": {"dram_read": None,
                                                  "reason": "not measured: " + reason}})
    measured = {"dram_read": 1}
    if reasons:
        measured = {"dram_read": None, "reason": "not measured: no code for "
                    f"{len(reasons)} of its {len(kernels)} kernels"}
    return json.dumps({"plans": {"unfused": {"kernels": kernels, "measured": measured}}})


def run(source, results=None, errors=None):
    """The exit code and the summary's lines, by what they begin with."""
    with tempfile.TemporaryDirectory() as folder:
        built = pathlib.Path(folder) / "built"
        (built / "tests/cuda").mkdir(parents=True)
        programs = {"fusecalc": FUSECALC, "tests/cuda/fusecalc_gpu_tests": TESTS,
                    "tests/cuda/fusecalc_device_tests": TESTS}
        for name, text in programs.items():
            (built / name).write_text(text)
            (built / name).chmod(0o755)
        (built / "fusecalc.json").write_text(result())
        for name, text in (results or {}).items():
            (built / f"fusecalc.{name}.json").write_text(text)
        for name, text in (errors or {}).items():
            (built / f"fusecalc.{name}.error").write_text(text + "\n")
        out = pathlib.Path(folder) / "results"
        done = subprocess.run([source / "scripts/gpu-test", "--built", built, out],
                              capture_output=True, text=True, check=False)
        summary = {"passed": [], "skipped": [], "failed": []}
        for line in (out / "summary.txt").read_text().splitlines():
            kind, _, rest = line.partition(": ")
            summary[kind].append(rest)
        return done.returncode, summary


def main():
    source = pathlib.Path(sys.argv[1])
    lists = sum(len(list((source / folder).glob("*.json")))
                for folder in ("specs/oplists", "tests/cuda/oplists"))

    code, summary = run(source)
    assert code == 0, summary
    assert len(summary["passed"]) == lists + 2 and not summary["skipped"], summary

    code, summary = run(source, results={"softmax": result("no such instruction", NO_CODE)})
    assert code == 1, summary
    assert summary["failed"] == ["a kernel of measure softmax: no such instruction"], summary
    assert summary["skipped"] == ["a kernel of measure softmax: " + NO_CODE], summary
    assert len(summary["passed"]) == lists + 1, summary

    code, summary = run(source, results={"mixture_of_experts": result(NO_CODE, NO_CODE)},
                        errors={"adam": NO_ROOM})
    assert code == 0, summary
    assert summary["skipped"] == ["measure adam: " + NO_ROOM,
                                  "a kernel of measure mixture_of_experts: " + NO_CODE], summary
    assert len(summary["passed"]) == lists, summary


if __name__ == "__main__":
    main()
