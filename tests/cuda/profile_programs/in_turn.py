"""in_turn.py LOCK PROGRAM ARGS...: runs a PyTorch program for check.py, which runs several at once. Where the
GPU's counters are read it waits for the others, once PyTorch is imported."""
import fcntl
import os
import pathlib
import runpy
import sys

import torch  # noqa: F401 (so that no other program waits while it is imported)


def reads_counters():
    folder = os.environ.get("FUSECALC_PROFILE_FOLDER")
    return folder is None or "counters\t1\n" in pathlib.Path(folder, "settings").read_text()


if __name__ == "__main__":
    if reads_counters():
        # Not a file object: Python would close it before the counters are closed.
        fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
    sys.argv = sys.argv[2:]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
