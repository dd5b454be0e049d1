"""Trains a small GPT on the text of the Python library: a plain PyTorch script.

It knows nothing of trainglass; see train_cnn.py. Gradients are accumulated over
`--micro` batches per update, so a step here is several batches, as in real language
model training. `torchrun --nproc-per-node 2 examples/train_gpt.py` trains with gloo or
nccl, one process per rank.

Tokens are bytes: int64 [batch, context] in 0..255.
"""

import argparse
import contextlib
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Text(Dataset):
    """Windows of `context` + 1 bytes of the sources of Python's own library."""

    def __init__(self, context, windows, first):
        folder = pathlib.Path(os.__file__).parent
        text = b"".join(path.read_bytes() for path in sorted(folder.glob("[a-h]*.py")))
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.context, self.windows, self.first = context, windows, first

    def __len__(self):
        return self.windows

    def __getitem__(self, index):
        span = len(self.bytes) - self.context - 1
        start = (self.first + index) * 7919 % span
        window = self.bytes[start : start + self.context + 1].long()
        return window[:-1], window[1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, context, width, heads, layers):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model, batch, device):
    tokens, targets = (part.to(device) for part in batch)
    return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def update(model, batches, optimizer, device):
    """One optimizer update from a list of micro-batches; returns their mean loss."""
    optimizer.zero_grad()
    total = 0.0
    for index, batch in enumerate(batches):
        last = index == len(batches) - 1
        quiet = contextlib.nullcontext() if last or not dist.is_initialized() else model.no_sync()
        with quiet:
            loss = loss_of(model, batch, device) / len(batches)
            loss.backward()
        total += float(loss.detach())
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="optimizer updates")
    parser.add_argument("--micro", type=int, default=4, help="batches per update")
    parser.add_argument("--batch", type=int, default=8, help="windows per batch and rank")
    parser.add_argument("--context", type=int, default=128, help="bytes")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main():
    options = parse()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if ranks > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(0)
    model = Gpt(options.context, options.width, options.width // 32, options.layers).to(device)
    if options.compile:
        model = torch.compile(model)
    if ranks > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    windows = options.steps * options.micro * options.batch
    loader = DataLoader(
        Text(options.context, windows, rank * windows),
        batch_size=options.batch,
        num_workers=options.workers,
    )
    batches = iter(loader)
    for step in range(options.steps):
        loss = update(model, [next(batches) for _ in range(options.micro)], optimizer, device)
        if rank == 0:
            print(f"step {step} loss {loss!r}", flush=True)
    if ranks > 1:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
