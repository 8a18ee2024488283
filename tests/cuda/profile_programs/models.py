"""Models of transformers, with random weights: models.py llama|resnet eager|compiled|graph, or
models.py llama|resnet export FILE. Prints a checksum of the result."""
import sys

import torch
import transformers


def llama():
    config = transformers.LlamaConfig(num_hidden_layers=1, hidden_size=4096, intermediate_size=14336,
                                      num_attention_heads=32, num_key_value_heads=8, vocab_size=32000)
    tokens = torch.arange(8 * 2048).reshape(8, 2048) % 32000
    return transformers.LlamaModel(config), (tokens,), {"use_cache": False}


def resnet():
    model = transformers.ResNetModel(transformers.ResNetConfig())
    return model, (torch.randn(128, 3, 224, 224, dtype=torch.bfloat16),), {}


def main(name, how, *rest):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model, arguments, keywords = {"llama": llama, "resnet": resnet}[name]()
    model = model.to(torch.bfloat16).eval()
    if name == "resnet" and how != "export":
        model = model.to(memory_format=torch.channels_last)
        arguments = tuple(x.to(memory_format=torch.channels_last) for x in arguments)
    with torch.no_grad():
        if how == "export":
            program = torch.export.export(model, arguments, kwargs=keywords, strict=False)
            torch.export.save(program, rest[0])
            return
        run = torch.compile(model) if how == "compiled" else model
        for _ in range(2):
            y = run(*arguments, **keywords)
        if how == "graph":
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = run(*arguments, **keywords)
            graph.replay()
    torch.cuda.synchronize()
    print("sum", y.last_hidden_state.double().sum().item())


if __name__ == "__main__":
    main(*sys.argv[1:])
