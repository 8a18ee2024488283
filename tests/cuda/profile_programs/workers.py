"""Two workers use the GPU, and then their parent where they are spawned: workers.py fork|spawn (a pool, which
kills its workers), or workers.py processes (forked ones, which end by os._exit)."""
import multiprocessing
import sys


def work(which):
    import torch
    x = torch.ones(64 << 20, device="cuda")
    for _ in range(10):
        x = x + which
    return x.double().sum().item()


def work_and_send(which, results):
    results.put(work(which))


def main(how):
    if how == "processes":
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        workers = [context.Process(target=work_and_send, args=(which, results)) for which in (1, 2)]
        for worker in workers:
            worker.start()
        print("sums", sorted(results.get() for _ in workers))
        for worker in workers:
            worker.join()
        return
    with multiprocessing.get_context(how).Pool(2) as pool:
        print("sums", sorted(pool.map(work, [1, 2])))
    if how == "spawn":
        print("parent", work(3))


if __name__ == "__main__":
    main(sys.argv[1])
