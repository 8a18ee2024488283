#!/usr/bin/env python3
"""Holds with_progress of scripts/lib.sh against made-up commands, on a terminal and elsewhere.

    progress_test.py SOURCE_FOLDER
"""

import os
import pathlib
import pty
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
LINES = "printf '[1/2] first\\n[2/2] second, which is longer than the terminal is wide\\n'"


def run(command, folder, terminal=False, interval=30):
    """The exit code, standard output, and standard error."""
    script = (f"set -euo pipefail; source '{SOURCE}/scripts/lib.sh'; progress_interval={interval}; "
              'with_progress bash -c "$1"; echo went on')
    environment = {**os.environ, "TERM": "xterm", "TMPDIR": folder}
    arguments = ["bash", "-c", script, "bash", command]
    if not terminal:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False,
                              env=environment)
        return done.returncode, done.stdout, done.stderr
    master, slave = pty.openpty()
    subprocess.run(["stty", "raw", "cols", "24"], stdin=slave, check=True)
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=slave, text=True, check=False,
                          env=environment)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    return done.returncode, done.stdout, shown


def main():
    with tempfile.TemporaryDirectory() as folder:
        assert run(LINES, folder) == (0, "went on\n", "")
        # Each line takes the place of the one before, is cut to the width, and none is left.
        assert run(LINES, folder, terminal=True) == (
            0, "went on\n", "\r\x1b[K[1/2] first\r\x1b[K[2/2] second, which is \r\x1b[K")

        code, out, error = run("echo what is wrong; exit 7", folder)
        assert (code, out, error) == (7, "", "what is wrong\n"), (code, out, error)
        code, out, shown = run("echo wrong; exit 7", folder, terminal=True)
        assert (code, out) == (7, "") and shown.endswith("\r\x1b[Kwrong\n"), shown

        code, _, error = run("echo a line", folder, interval=0)
        assert (code, error) == (0, "fusecalc: a line\n"), error
        assert not os.listdir(folder), "a file is left behind"


if __name__ == "__main__":
    main()
