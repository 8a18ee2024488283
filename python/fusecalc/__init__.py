"""The memory traffic that fusing GPU operations saves.

    import fusecalc
    result = fusecalc.analyze("@splade_head", device="h100")
    print(result["savings_bytes"], result["plans"]["auto"]["total"])

Runs the program that this package carries, `fusecalc analyze`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Error", "analyze", "program"]
__version__ = importlib.metadata.version("fusecalc")


class Error(Exception):
    """The program failed. `line` is what it says, and `exit_code` its exit code: 2 is bad input, 3
    something that is not available here; a negative one is the signal that ended it."""

    def __init__(self, line: str, exit_code: int) -> None:
        super().__init__(line, exit_code)
        self.line = line
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.line


def program() -> str:
    """The path of the program."""
    folders = [
        pathlib.Path(sysconfig.get_path("scripts")),
        # Installed for one user, or with pip's --target.
        pathlib.Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))),
        pathlib.Path(__file__).resolve().parent.parent / "bin",
    ]
    for folder in folders:
        if (folder / "fusecalc").is_file():
            return str(folder / "fusecalc")
    raise FileNotFoundError("fusecalc: the program is in none of " + ", ".join(map(str, folders)))


def analyze(
    document: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    plan: str | None = None,
    device: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    dtype_bytes: int | None = None,
) -> dict[str, Any]:
    """What fusion saves: the result of `fusecalc analyze`, as `fusecalc schema analysis` describes
    it.

    `document` is the path of an op list or of a model file, "@NAME" for an op list of the library,
    or an op list itself. The options are those of the command line. Raises Error if the program
    refuses the document.
    """
    command = [program(), "analyze", "--format=json"]
    if plan is not None:
        command.append(f"--plan={plan}")
    if device is not None:
        command.append(f"--device={os.fspath(device)}")
    if dtype_bytes is not None:
        command.append(f"--dtype-bytes={dtype_bytes}")
    command += [f"--dim={name}={extent}" for name, extent in (dims or {}).items()]
    if isinstance(document, (str, os.PathLike)):
        return _result([*command, "--", os.fspath(document)], "")
    return _result([*command, "-"], json.dumps(document, allow_nan=False))


def _result(command: list[str], text: str) -> dict[str, Any]:
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        lines = done.stderr.splitlines() or [f"fusecalc: ended with {done.returncode}"]
        raise Error(lines[-1], done.returncode)
    result: dict[str, Any] = json.loads(done.stdout)
    return result
