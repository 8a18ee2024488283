#!/usr/bin/env python3
"""A sweep that is ended twenty times at random moments ends with the result of an undisturbed one.

    killed_test.py BINARY
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KILLS = 20
POINTS = 600
SWEEP = ("sweep", "@transformer_block", "--dim", f"T=1..{POINTS}", "--jobs", "2")


def results(folder):
    return {path.name: path for path in (folder / "points").iterdir()
            if path.name.endswith(".json")} if (folder / "points").is_dir() else {}


def expect(truth, what):
    if not truth:
        sys.exit(f"killed_test.py: {what}")


def run(binary, folder):
    return subprocess.run([binary, *SWEEP, "--dir", folder, "-f", "json"], stdout=subprocess.PIPE,
                          check=True).stdout


def kill_at_random(binary, folder, longest, ended_by):
    """Ends a sweep after a random time; returns whether it was still running."""
    process = subprocess.Popen([binary, *SWEEP, "--dir", folder], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    time.sleep(random.uniform(0, longest))
    process.send_signal(ended_by)
    error = process.communicate()[1].decode()
    if ended_by == signal.SIGINT and process.returncode == 130:
        expect("interrupted; " in error and "points are left" in error, f"says {error!r}")
        return True
    # The signal came before the sweep began to note it, or its processes end with it.
    return process.returncode == -ended_by


def expect_same(binary, whole, killed, document, seed):
    """Ends the sweep that was killed, and compares what it left with the undisturbed one's."""
    expect(run(binary, killed) == document, f"another document (seed {seed})")
    expect({name: path.read_bytes() for name, path in results(killed).items()} ==
           {name: path.read_bytes() for name, path in results(whole).items()},
           f"other results (seed {seed})")
    expect(not (killed / "failed").exists(), f"a point was recorded as failed (seed {seed})")


def main(binary):
    seed = int.from_bytes(os.urandom(4), "little")
    random.seed(seed)
    with tempfile.TemporaryDirectory() as temporary:
        whole, killed = pathlib.Path(temporary, "whole"), pathlib.Path(temporary, "killed")
        start = time.monotonic()
        document = run(binary, whole)
        longest = 0.8 * (time.monotonic() - start) / KILLS
        expect(len(results(whole)) == POINTS, "the undisturbed sweep has too few results")
        before, kills, attempts = {}, 0, 0
        while kills < KILLS:
            attempts += 1
            expect(attempts <= 10 * KILLS, f"only {kills} of {attempts} kills came in time "
                   f"(seed {seed})")
            ended_by = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)[kills % 3]
            if kill_at_random(binary, killed, longest, ended_by):
                kills += 1
            elif len(before) == POINTS:
                # It had nothing left to do: the rest of the kills fall on a new sweep.
                expect_same(binary, whole, killed, document, seed)
                shutil.rmtree(killed)
                before = {}
            time.sleep(0.05)  # the processes of the sweep end after it
            now = {name: path.stat().st_mtime_ns for name, path in results(killed).items()}
            for name, path in results(killed).items():
                expect(name not in before or now.get(name, 0) == before[name],
                       f"{name} was run again (seed {seed})")
                json.loads(path.read_bytes())
            before = now
        left = POINTS - len(before)
        expect_same(binary, whole, killed, document, seed)
    print(f"{KILLS} kills, {left} of {POINTS} points left after them: the same bytes")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))
