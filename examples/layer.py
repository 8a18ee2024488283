#!/usr/bin/env python3
"""Exports a decoder layer (needs PyTorch, but no GPU): layer.py [FILE], by default layer.pt2."""

import sys

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Grouped-query attention: several heads share a key and a value."""

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
    """The layer also adds the mean of its input to a buffer, in place."""

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


def exported():
    """The layer as a program for inputs of any length up to 4096."""
    layer = Layer().to(torch.bfloat16).eval()
    example = torch.zeros(2, 32, 64, dtype=torch.bfloat16)  # batch, length, width
    length = torch.export.Dim("length", min=2, max=4096)
    with torch.no_grad():
        return torch.export.export(layer, (example,), dynamic_shapes={"x": {1: length}})


if __name__ == "__main__":
    file = sys.argv[1] if len(sys.argv) > 1 else "layer.pt2"
    torch.export.save(exported().run_decompositions({}), file)
