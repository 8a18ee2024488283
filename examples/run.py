#!/usr/bin/env python3
"""Runs the decoder layer of layer.py once on a GPU, for `fusecalc profile` to count."""

import torch

from layer import Layer

layer = Layer().to("cuda", torch.bfloat16).eval()
x = torch.randn(2, 32, 64, dtype=torch.bfloat16).to("cuda")
with torch.no_grad():
    layer(x)
torch.cuda.synchronize()
