"""2,000 small launches, for the cost of counting: small.py [ELEMENTS]."""
import sys

import torch

x = torch.zeros(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20, device="cuda")
torch.cuda.synchronize()
for _ in range(2000):
    x.add_(1)
torch.cuda.synchronize()
print("sum", x.double().sum().item())
