#!/usr/bin/env python3
"""Writes the model files of this folder (needs PyTorch 2.13): make.py [FOLDER].

The decoder layer of examples/layer.py, with grouped-query attention, a buffer that it overwrites and
a length that is not fixed, as exported and decomposed; without weights and deflated, so that the
files are small.
"""

import io
import json
import pathlib
import sys
import zipfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))
from layer import exported


def save(program, path):
    """The archive's program alone, without what tells where and when it was made."""
    whole = io.BytesIO()
    torch.export.save(program, whole)
    archive = zipfile.ZipFile(whole)
    name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
    model = json.loads(archive.read(name))
    for node in model["graph_module"]["graph"]["nodes"]:
        node["metadata"].pop("stack_trace", None)
    model["graph_module"]["module_call_graph"] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as small:
        entry = zipfile.ZipInfo("model/models/model.json")
        entry.compress_type = zipfile.ZIP_DEFLATED
        small.writestr(entry, json.dumps(model, separators=(",", ":")))


def main(folder):
    program = exported()
    save(program, folder / "layer.raw.pt2")
    save(program.run_decompositions({}), folder / "layer.pt2")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent))
