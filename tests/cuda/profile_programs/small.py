"""2,000 small launches, for the cost of counting."""
import torch

x = torch.zeros(1 << 20, device="cuda")
torch.cuda.synchronize()
for _ in range(2000):
    x.add_(1)
torch.cuda.synchronize()
print("sum", x.sum().item())
