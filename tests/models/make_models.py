"""Writes model files with which scripts/models tries the importers: make_models.py [-o FOLDER] [NAME...]

Needs PyTorch 2.13, transformers 5.23 and diffusers 0.42 (pip install --no-deps diffusers). Every model is
built from its configuration on the meta device, so without weights, with few layers, and is written twice:
NAME.raw.pt2 as exported, NAME.pt2 after run_decompositions({}).
"""
import argparse
import pathlib
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

BF16 = torch.bfloat16
META = torch.device("meta")
MODELS = {}


def model(build):
    """Registers a function that returns a module, its arguments and, where they differ, more of export's."""
    MODELS[build.__name__] = build
    return build


def on_meta(build, dtype=BF16):
    with META:
        return build().to(dtype).eval()


def ids(batch, length):
    return torch.zeros(batch, length, dtype=torch.long, device=META)


def real(*shape, dtype=BF16):
    return torch.zeros(*shape, dtype=dtype, device=META)


def of_transformers(model_class, config_class, dtype=BF16, **settings):
    import transformers

    config = getattr(transformers, config_class)(**settings)
    return on_meta(lambda: getattr(transformers, model_class)(config), dtype)


def decoder(model_class, config_class, length=1024, batch=1, **settings):
    settings = {"num_hidden_layers": 2, "use_cache": False, **settings}
    return of_transformers(model_class, config_class, **settings), (ids(batch, length),), {"kwargs": {"use_cache": False}}


# Encoder and decoder

@model
def t5():
    net = of_transformers("T5ForConditionalGeneration", "T5Config", num_layers=2, num_decoder_layers=2, use_cache=False)
    return net, (), {"kwargs": {"input_ids": ids(4, 512), "decoder_input_ids": ids(4, 128), "use_cache": False}}


@model
def bart():
    net = of_transformers("BartModel", "BartConfig", encoder_layers=2, decoder_layers=2, use_cache=False)
    return net, (), {"kwargs": {"input_ids": ids(4, 512), "decoder_input_ids": ids(4, 128), "use_cache": False}}


# Encoders of text

@model
def roberta():
    net = of_transformers("RobertaModel", "RobertaConfig", num_hidden_layers=2, max_position_embeddings=514)
    return net, (ids(8, 512), ids(8, 512) + 1)


# Images

@model
def vit():
    return of_transformers("ViTModel", "ViTConfig", num_hidden_layers=2), (real(32, 3, 224, 224),)


@model
def swin():
    net = of_transformers("SwinModel", "SwinConfig", depths=[2, 2], num_heads=[3, 6])
    return net, (real(16, 3, 224, 224),)


@model
def dinov2():
    return of_transformers("Dinov2Model", "Dinov2Config", num_hidden_layers=2, image_size=224), (real(16, 3, 224, 224),)


@model
def efficientnet():
    net = of_transformers("EfficientNetModel", "EfficientNetConfig", num_block_repeats=[1, 1, 1, 1, 1, 1, 1],
                          width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280)
    return net, (real(16, 3, 224, 224),)


@model
def mobilenet_v2():
    return of_transformers("MobileNetV2Model", "MobileNetV2Config"), (real(16, 3, 224, 224),)


@model
def segformer():
    net = of_transformers("SegformerForSemanticSegmentation", "SegformerConfig", depths=[1, 1, 1, 1])
    return net, (real(4, 3, 512, 512),)


class DoubleConvolution(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True))


class UNet(nn.Module):
    """Ronneberger et al. 2015, with padding."""

    def __init__(self, channels=(64, 128, 256, 512), classes=2):
        super().__init__()
        self.down = nn.ModuleList(DoubleConvolution(a, b) for a, b in zip((3,) + channels, channels))
        self.bottom = DoubleConvolution(channels[-1], channels[-1] * 2)
        self.raise_ = nn.ModuleList(nn.ConvTranspose2d(c * 2, c, 2, 2) for c in reversed(channels))
        self.up = nn.ModuleList(DoubleConvolution(c * 2, c) for c in reversed(channels))
        self.head = nn.Conv2d(channels[0], classes, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for raise_, block in zip(self.raise_, self.up):
            x = block(torch.cat([kept.pop(), raise_(x)], 1))
        return self.head(x)


@model
def unet():
    return on_meta(UNet), (real(2, 3, 256, 256),)


# Images and text

@model
def clip():
    import transformers

    text = transformers.CLIPTextConfig(num_hidden_layers=2)
    vision = transformers.CLIPVisionConfig(num_hidden_layers=2)
    config = transformers.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict())
    net = on_meta(lambda: transformers.CLIPModel(config))
    return net, (), {"kwargs": {"input_ids": ids(16, 77), "pixel_values": real(16, 3, 224, 224)}}


# Diffusion

@model
def diffusion_unet():
    from diffusers import UNet2DConditionModel

    net = on_meta(lambda: UNet2DConditionModel(
        sample_size=32, block_out_channels=(320, 640), layers_per_block=1, cross_attention_dim=768,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=8))
    time = torch.zeros(2, dtype=torch.long, device=META)
    return net, (real(2, 4, 32, 32), time, real(2, 77, 768)), {"kwargs": {"return_dict": False}}


@model
def dit():
    from diffusers import DiTTransformer2DModel

    net = on_meta(lambda: DiTTransformer2DModel(num_layers=2, sample_size=32))
    numbers = torch.zeros(4, dtype=torch.long, device=META)
    return net, (real(4, 4, 32, 32), numbers, numbers), {"kwargs": {"return_dict": False}}


# Decoders

@model
def gemma2():
    return decoder("Gemma2ForCausalLM", "Gemma2Config")


@model
def qwen3():
    return decoder("Qwen3ForCausalLM", "Qwen3Config", hidden_size=2048, intermediate_size=6144, num_attention_heads=16,
                   num_key_value_heads=8, head_dim=128)


@model
def phi():
    return decoder("PhiForCausalLM", "PhiConfig")


@model
def deepseek_v3():
    """Latent attention; two dense layers."""
    return decoder("DeepseekV3ForCausalLM", "DeepseekV3Config", hidden_size=2048, intermediate_size=8192,
                   num_attention_heads=16, num_key_value_heads=16, q_lora_rank=768, first_k_dense_replace=2,
                   vocab_size=32000)


class Experts(nn.Module):
    """A mixture of experts, each of a fixed capacity: as Switch and Mixtral are trained."""

    def __init__(self, width=1024, inner=3584, experts=8, chosen=2, capacity=256):
        super().__init__()
        self.chosen, self.capacity = chosen, capacity
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, 2 * inner))
        self.down = nn.Parameter(torch.empty(experts, inner, width))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        weights = torch.softmax(self.router(rows).float(), -1)
        best, _ = torch.topk(weights, self.chosen, -1)
        weights = torch.where(weights >= best[:, -1:], weights, 0.0)
        weights = weights / weights.sum(-1, keepdim=True)
        gains, which = torch.topk(weights.t(), self.capacity, -1)
        taken = rows[which.reshape(-1)].reshape(which.shape + rows.shape[-1:])
        gate, up = torch.bmm(taken, self.up).chunk(2, -1)
        made = torch.bmm(F.silu(gate) * up, self.down) * gains.unsqueeze(-1).to(x.dtype)
        return torch.zeros_like(rows).index_add(0, which.reshape(-1), made.reshape(-1, rows.shape[-1])).reshape(x.shape)


class ExpertsBlock(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.experts = Experts(width)

    def forward(self, x):
        return x + self.experts(self.norm(x))


@model
def experts():
    return on_meta(lambda: nn.Sequential(ExpertsBlock(), ExpertsBlock())), (real(1, 1024, 1024),)


@model
def mixtral():
    return decoder("MixtralForCausalLM", "MixtralConfig", length=512, hidden_size=1024, intermediate_size=3584,
                   num_attention_heads=16, num_key_value_heads=4)


@model
def qwen3_moe():
    return decoder("Qwen3MoeForCausalLM", "Qwen3MoeConfig", length=512, num_experts=16, num_experts_per_tok=4)


# State space and recurrence

@model
def mamba():
    return decoder("MambaForCausalLM", "MambaConfig", length=32)


@model
def mamba2():
    return decoder("Mamba2ForCausalLM", "Mamba2Config", length=512, hidden_size=1024, num_heads=32, head_dim=64)


class Lstm(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.embedding = nn.Embedding(10000, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 10000)

    def forward(self, words):
        rows, _ = self.lstm(self.embedding(words))
        return self.head(rows)


@model
def lstm():
    return on_meta(Lstm, torch.float32), (ids(16, 24),)


# Caches and dims

class CachedAttention(nn.Module):
    """One layer of a decoder that writes its keys and values to buffers."""

    def __init__(self, width=2048, heads=16, shared=4, length=4096):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * shared * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, shared, length, self.size))
        self.register_buffer("values", torch.zeros(1, shared, length, self.size))

    def forward(self, x, place):
        q = self.q(x).view(1, -1, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(1, -1, 2 * self.shared, self.size).transpose(1, 2).chunk(2, 1)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        mask = torch.arange(self.keys.shape[2], device=x.device)[None, :] <= place[:, None]
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(1, -1, self.heads * self.size))


@model
def kv_cache():
    return on_meta(CachedAttention), (real(1, 16, 2048), torch.zeros(16, dtype=torch.long, device=META))


@model
def llama_dims():
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=4096)
    net, _, settings = decoder("LlamaForCausalLM", "LlamaConfig", hidden_size=2048, intermediate_size=5504,
                               num_attention_heads=16, num_key_value_heads=4)
    return net, (ids(2, 512),), {**settings, "dynamic_shapes": {"input_ids": {0: batch, 1: length}, "use_cache": None}}


# Whole numbers

class Int8Linear(nn.Module):
    """Weights of 8 bits and a scale for each row, as torchao keeps them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.register_buffer("weight", torch.zeros(outputs, inputs, dtype=torch.int8))
        self.register_buffer("scale", torch.zeros(outputs, 1, dtype=BF16))
        self.bias = nn.Parameter(torch.zeros(outputs, dtype=BF16))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


class DynamicInt8Linear(Int8Linear):
    """Rows of the input become 8 bits, too."""

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        whole = torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)
        rows = torch._int_mm(whole.reshape(-1, whole.shape[-1]), self.weight.t()).reshape(*x.shape[:-1], -1)
        return rows.to(x.dtype) * scale * self.scale.view(-1) + self.bias


@model
def int8():
    with META:
        net = nn.Sequential(Int8Linear(1024, 4096), nn.GELU(), DynamicInt8Linear(4096, 1024)).eval()
    return net, (real(4, 512, 1024),)


# Attention written out

class WrittenAttention(nn.Module):
    def __init__(self, width=1024, heads=16, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


@model
def written_attention():
    return on_meta(WrittenAttention), (real(4, 1024, 1024),)


class SafeCausalAttention(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


class SafeAttention(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@model
def safe_attention():
    """Attention that is decomposed to primitives, with the softmax that minds rows without keys."""
    heads = tuple(real(4, 16, 1024, 64) for _ in "qkv")
    mask = torch.zeros(4, 1, 1024, 1024, dtype=torch.bool, device=META)
    return SafeAttention(), heads + (mask,), {"decompositions": None}


@model
def safe_causal_attention():
    """The same with a mask that is made in the graph, and fewer key heads."""
    arguments = real(4, 16, 1024, 64), real(4, 4, 1024, 64), real(4, 4, 1024, 64)
    return SafeCausalAttention(), arguments, {"decompositions": None}


# Training: loss and gradients of all parameters, as one graph

class Loss(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, target):
        return F.cross_entropy(self.net(x).flatten(0, -2).float(), target.flatten())


def trained(net, x, target, table=None):
    return Loss(net.to(BF16)), (x, target), {"gradients": table or {}}


def core_ops():
    """What PyTorch decomposes to primitives, but for attention, whose rows' sums it would write in full."""
    table = torch._decomp.core_aten_decompositions()
    for name in [op for op in table.keys() if "flash_attention" in str(op)]:
        table.pop(name)
    return table


@model
def train_mlp(table=None):
    net = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.LayerNorm(4096), nn.Linear(4096, 1000))
    return trained(net, torch.zeros(2048, 1024, dtype=BF16), torch.zeros(2048, dtype=torch.long), table)


@model
def train_mlp_core():
    return train_mlp(core_ops())


class Block(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.second(x))))


@model
def train_transformer(table=None):
    net = nn.Sequential(nn.Embedding(8192, 768), Block(), Block(), nn.Linear(768, 8192))
    words = torch.zeros(4, 512, dtype=torch.long)
    return trained(net, words, words, table)


@model
def train_transformer_core():
    return train_transformer(core_ops())


@model
def train_convolutions():
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(128, 1000))
    return trained(net, torch.zeros(32, 3, 64, 64, dtype=BF16), torch.zeros(32, dtype=torch.long))


class Adam(nn.Module):
    """A step of an optimiser, which overwrites what it knows of the parameters."""

    def __init__(self, rows=4096, columns=4096):
        super().__init__()
        self.register_buffer("weight", torch.zeros(rows, columns))
        self.register_buffer("mean", torch.zeros(rows, columns))
        self.register_buffer("square", torch.zeros(rows, columns))

    def forward(self, gradient):
        gradient = gradient.float()
        self.mean.lerp_(gradient, 0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        self.weight.mul_(1 - 1e-4).addcdiv_(self.mean, self.square.sqrt().add_(1e-8), value=-1e-3)
        return self.weight.to(BF16)


@model
def train_adam():
    return on_meta(Adam, torch.float32), (real(4096, 4096),)


def without_weights(program):
    """Tensors on the meta device are written without their elements."""
    for name, tensor in program.state_dict.items():
        parameter = isinstance(tensor, nn.Parameter)
        program.state_dict[name] = nn.Parameter(tensor.to(META)) if parameter else tensor.to(META)
    return program


def with_gradients(program, table):
    """As torch.export.experimental._export_forward_backward, with decompositions to choose."""
    from torch.export.exported_program import _decompose_exported_program

    return _decompose_exported_program(program, cia_to_decomp={}, python_decomp_table=table, joint_loss_index=0,
                                       decompose_custom_triton_ops=False)


def write(name, folder):
    net, arguments, *more = MODELS[name]()
    settings = dict(more[0]) if more else {}
    table = settings.pop("decompositions", {})  # None: to the core ops of ATen
    gradients = settings.pop("gradients", None)
    with torch.set_grad_enabled(gradients is not None):
        program = torch.export.export(net, arguments, strict=False, **settings)
        if gradients is not None:
            program = with_gradients(program, gradients)
        decomposed = program.run_decompositions(table)
    torch.export.save(without_weights(program), folder / f"{name}.raw.pt2")
    torch.export.save(without_weights(decomposed), folder / f"{name}.pt2")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="folder", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(MODELS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    failed = []
    for name in given.names or MODELS:
        try:
            write(name, given.folder)
            print(name, flush=True)
        except Exception as error:  # the other models are written all the same
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
