"""A program that profiles itself with torch.profiler, which wants CUPTI, too. Prints a checksum."""
import torch

x = torch.ones(64 << 20, device="cuda")
activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
with torch.profiler.profile(activities=activities) as profiler:
    for _ in range(10):
        x = x * 2
    torch.cuda.synchronize()
print("sum", x.double().sum().item())
print("its own events:", len(profiler.events()))
