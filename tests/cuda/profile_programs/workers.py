"""Two workers and their parent use the GPU: workers.py fork|spawn."""
import multiprocessing
import sys


def work(which):
    import torch
    x = torch.ones(64 << 20, device="cuda")
    for _ in range(10):
        x = x + which
    return x.double().sum().item()


if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print("sums", sorted(pool.map(work, [1, 2])))
    if sys.argv[1] == "spawn":
        print("parent", work(3))
