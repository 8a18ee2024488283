"""A transformer block: block.py eager|compiled|graph|train, or block.py export FILE. Prints a checksum
of the result."""
import sys

import torch


class Block(torch.nn.Module):
    def __init__(self, width=1024, heads=16):
        super().__init__()
        self.heads = heads
        self.ln1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)
        self.ln2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.ln2(x)), approximate="tanh"))


def main(how, file=None, runs=3):
    torch.manual_seed(0)
    block = Block().cuda().to(torch.bfloat16)
    x = torch.randn(32, 2048, 1024, device="cuda", dtype=torch.bfloat16)
    if how == "train":
        optimizer = torch.optim.Adam(block.parameters(), lr=1e-4)
        for _ in range(runs):
            optimizer.zero_grad()
            y = block(x)
            y.float().square().mean().backward()
            optimizer.step()
        print("sum", y.float().sum().item())
        return
    with torch.no_grad():
        if how == "export":
            torch.export.save(torch.export.export(block, (x,)), file)
            return
        run = block
        if how == "compiled":
            run = torch.compile(block)
            run(x)
        if how == "graph":
            graph = torch.cuda.CUDAGraph()
            for _ in range(2):
                y = block(x)
            with torch.cuda.graph(graph):
                y = block(x)
            for _ in range(runs):
                graph.replay()
        else:
            for step in range(runs):
                torch.cuda.nvtx.range_push(f"step {step}")
                y = run(x)
                torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    print("sum", y.float().sum().item())


if __name__ == "__main__":
    main(*sys.argv[1:])
