"""Products and sums by NCCL on two GPUs: two_gpus.py processes (one for each GPU), or two_gpus.py one (a
process for both). Each process prints a checksum."""
import os
import sys

import torch
import torch.cuda.nccl
import torch.distributed as dist
import torch.multiprocessing as mp


def operands(rank):
    torch.manual_seed(rank)
    device = f"cuda:{rank}"
    return (torch.full((128 << 20,), float(rank + 1), device=device),
            torch.randn(4096, 4096, device=device, dtype=torch.bfloat16))


def work(rank):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29511"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    x, weight = operands(rank)
    for _ in range(3):
        y = x * 2
        dist.all_reduce(y)
        product = weight @ weight
        dist.all_reduce(product)
    torch.cuda.synchronize()
    print("rank", rank, "sum", y.double().sum().item(), product.double().sum().item(), flush=True)
    dist.destroy_process_group()


def work_alone():
    xs, weights = zip(*(operands(rank) for rank in range(2)))
    for _ in range(3):
        ys = [x * 2 for x in xs]
        torch.cuda.nccl.all_reduce(ys)
        products = [weight @ weight for weight in weights]
        torch.cuda.nccl.all_reduce(products)
    for rank, (y, product) in enumerate(zip(ys, products)):
        torch.cuda.synchronize(rank)
        print("rank", rank, "sum", y.double().sum().item(), product.double().sum().item(), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "one":
        work_alone()
    else:
        mp.spawn(work, nprocs=2)
