#!/usr/bin/env python3
"""Writes the model files of this folder (needs PyTorch 2.13): make.py [FOLDER].

A decoder layer with grouped-query attention, a cache that it overwrites and a length that is not
fixed, as exported and decomposed; without weights and deflated, so that the files are small.
"""

import io
import json
import pathlib
import sys
import zipfile

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.kv_proj = nn.Linear(width, 2 * kv_heads * self.size)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.kv_proj(x).chunk(2, -1)

        def heads(y):
            y = y.reshape(batch, length, self.kv_heads, 1, self.size).permute(0, 2, 3, 1, 4)
            y = y.expand(-1, -1, self.heads // self.kv_heads, -1, -1)
            return y.reshape(batch, self.heads, length, self.size)

        o = F.scaled_dot_product_attention(q, heads(k), heads(v), is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(batch, length, -1))


class Layer(nn.Module):
    def __init__(self, width=64, heads=4, kv_heads=2):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("seen", torch.zeros(width))

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm(x)))
        self.seen.add_(x.mean((0, 1)))
        return x + self.down(F.gelu(self.up(x)))


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
    layer = Layer().to(torch.bfloat16).eval()
    length = torch.export.Dim("length", min=2, max=4096)
    with torch.no_grad():
        program = torch.export.export(layer, (torch.zeros(2, 32, 64, dtype=torch.bfloat16),),
                                      dynamic_shapes={"x": {1: length}})
    save(program, folder / "layer.raw.pt2")
    save(program.run_decompositions({}), folder / "layer.pt2")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent))
