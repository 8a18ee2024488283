"""Packs an installed tree (cmake --install) into a wheel: wheel.py TREE FOLDER.

The tree goes into the environment as it is: bin/ to its scripts, the rest beside it, so that the
program finds its GPU module. `python -m fusecalc` runs the same program.
"""

import base64
import hashlib
import pathlib
import platform
import re
import stat
import subprocess
import sys
import zipfile

MAIN = '''"""Runs the fusecalc that came with this package."""

import os
import pathlib
import sys
import sysconfig


def main():
    program = pathlib.Path(sysconfig.get_path("scripts")) / "fusecalc"
    if not program.exists():  # installed for one user
        scheme = sysconfig.get_preferred_scheme("user")
        program = pathlib.Path(sysconfig.get_path("scripts", scheme)) / "fusecalc"
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
'''


def newest_glibc(paths):
    """The newest version of the C library whose symbols these files need."""
    versions = {(2, 17)}
    for path in paths:
        text = subprocess.run(["readelf", "--version-info", path], capture_output=True, text=True,
                              check=True).stdout
        versions |= {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", text)}
    return max(versions)


def main(tree, folder):
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    programs = [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]
    version = subprocess.run([tree / "bin/fusecalc", "--version"], capture_output=True, text=True,
                             check=True).stdout.split()[1]
    tag = "py3-none-manylinux_{}_{}_{}".format(*newest_glibc(programs), platform.machine())
    info = f"fusecalc-{version}.dist-info"
    data = f"fusecalc-{version}.data"
    entries = {
        "fusecalc/__init__.py": b'"""The memory traffic that fusing GPU operations saves."""\n',
        "fusecalc/__main__.py": MAIN.encode(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: fusecalc\nVersion: {version}\n"
            "Summary: The memory traffic that fusing GPU operations saves\nLicense: MIT\n"
            "Requires-Python: >=3.10\n").encode(),
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: fusecalc scripts/wheel\nRoot-Is-Purelib: false\n"
            f"Tag: {tag}\n").encode(),
    }
    for path in files:
        relative = path.relative_to(tree)
        place = f"scripts/{relative.name}" if relative.parts[0] == "bin" else f"data/{relative}"
        entries[f"{data}/{place}"] = path.read_bytes()
    record = ""
    for name, content in entries.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    entries[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = folder / f"fusecalc-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name)  # a fixed date: the same files make the same wheel
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = "/scripts/" in name or name.endswith(".so")
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            archive.writestr(entry, content)
    print(wheel)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
