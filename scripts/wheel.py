"""Packs an installed tree (cmake --install) into a wheel: wheel.py TREE VERSION FOLDER.

The tree goes into the environment as it is: bin/ to its scripts, the rest beside it, so that the
program finds its GPU module. python/fusecalc is the module that calls the program.
"""

import base64
import hashlib
import pathlib
import re
import stat
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent

METADATA = """Metadata-Version: 2.4
Name: fusecalc
Version: {version}
Summary: The memory traffic that fusing GPU operations saves
Author: The fusecalc authors
License-Expression: MIT
License-File: LICENSE
Keywords: CUDA,GPU,kernel fusion,memory traffic,profiling,PyTorch,ONNX
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Topic :: Software Development
Classifier: Typing :: Typed
Requires-Python: >=3.10
Description-Content-Type: text/markdown

"""


MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of an ELF header


def machine(program):
    return MACHINES[int.from_bytes(program.read_bytes()[18:20], "little")]


def newest_glibc(paths):
    """The newest version of the C library whose symbols these files need."""
    versions = {(2, 17)}
    for path in paths:
        text = subprocess.run(["readelf", "--version-info", path], capture_output=True, text=True,
                              check=True).stdout
        versions |= {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", text)}
    return max(versions)


def main(tree, version, folder):
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    programs = [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]
    tag = "py3-none-manylinux_{}_{}_{}".format(*newest_glibc(programs),
                                               machine(tree / "bin/fusecalc"))
    info = f"fusecalc-{version}.dist-info"
    data = f"fusecalc-{version}.data"
    entries = {f"fusecalc/{name}": (SOURCE / "python/fusecalc" / name).read_bytes()
               for name in ("__init__.py", "__main__.py", "py.typed")}
    entries[f"{info}/METADATA"] = (METADATA.format(version=version).encode() +
                                   (SOURCE / "README.md").read_bytes())
    entries[f"{info}/licenses/LICENSE"] = (SOURCE / "LICENSE").read_bytes()
    entries[f"{info}/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: fusecalc scripts/wheel\n"
                                f"Root-Is-Purelib: false\nTag: {tag}\n").encode()
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
    main(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
