#!/usr/bin/env python3
"""Configures a copy of the source tree below folders that have the names of its own folders, and
checks that no source is lost: the build filters sources by their paths.

    location_test.py CMAKE COMPILER SOURCE_FOLDER
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

BELOW = "src/gpu/cuda/fuzz/bench/oracle/tests/fusecalc"
# What is built only with CUDA or for the fuzzers.
OPTIONAL = ("src/cuda/", "tests/cuda/", "tests/fuzz/")


def main():
    cmake, compiler, source = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / BELOW
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("build", ".git"))
        done = subprocess.run([cmake, "-S", copy, "-B", copy / "build/here", "-G", "Ninja",
                               f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_BUILD_TYPE=Release",
                               "-DFUSECALC_QUICK_TESTS=OFF"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        commands = json.loads((copy / "build/here/compile_commands.json").read_text("utf-8"))
        built = {command["file"] for command in commands}
        sources = [path for part in ("src", "tests") for path in (copy / part).rglob("*.cpp")
                   if not str(path.relative_to(copy)).startswith(OPTIONAL)]
        lost = sorted(str(path.relative_to(copy)) for path in sources if str(path) not in built)
        assert len(sources) > 200 and not lost, f"{len(sources)} sources; not built: {lost}"


if __name__ == "__main__":
    main()
