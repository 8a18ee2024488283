"""Two processes, a GPU each, that add up a tensor with NCCL. Each prints a checksum."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29511"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    x = torch.full((128 << 20,), float(rank + 1), device="cuda")
    for _ in range(3):
        y = x * 2
        dist.all_reduce(y)
    torch.cuda.synchronize()
    print("rank", rank, "sum", y.double().sum().item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
