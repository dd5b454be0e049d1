"""Trains a small residual network on synthetic pictures: a plain PyTorch script.

It knows nothing of trainglass. Run it alone or under `trainglass run -- python
examples/train_cnn.py`; the printed losses are the same to the last bit.

Pictures are float32 [batch, 3, SIDE, SIDE] in 0..1, labels int64 [batch] in 0..9: the
class is the angle of the stripes, so the network has something to learn.
"""

import argparse
import math
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 32
CLASSES = 10


class Stripes(Dataset):
    """Striped pictures, made on demand from their index: no file, no download."""

    def __init__(self, count, seed, decode_ms=0.0):
        self.count, self.seed, self.decode_ms = count, seed, decode_ms
        line = torch.linspace(-1, 1, SIDE)
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        label = int(torch.randint(CLASSES, (), generator=random))
        angle = math.pi * label / CLASSES
        phase = float(torch.rand((), generator=random)) * math.tau
        wave = torch.sin(12 * (self.x * math.cos(angle) + self.y * math.sin(angle)) + phase)
        noise = torch.randn(3, SIDE, SIDE, generator=random)
        if self.decode_ms:
            time.sleep(self.decode_ms / 1000)
        return wave.expand(3, -1, -1) * 0.5 + 0.5 + 0.3 * noise, label


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def make_model(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1),
        Block(width, width, 2),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, CLASSES),
    )


@torch.no_grad()
def validate(model, loader, device):
    """The share of right answers, 0 to 1."""
    model.eval()
    right = seen = 0
    for pictures, labels in loader:
        guess = model(pictures.to(device)).argmax(1)
        right += int((guess == labels.to(device)).sum())
        seen += len(labels)
    model.train()
    return right / max(seen, 1)


def train_epoch(model, loader, optimizer, device, options):
    """The mean loss of at most `options.steps` batches."""
    total, count = 0.0, 0
    for pictures, labels in loader:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=options.amp):
            loss = nn.functional.cross_entropy(model(pictures.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total, count = total + float(loss.detach()), count + 1
        if count == options.steps:
            break
    return total / max(count, 1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="per epoch, 0: all")
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=32, help="samples")
    parser.add_argument("--width", type=int, default=16, help="channels of the first block")
    parser.add_argument("--workers", type=int, default=0, help="of each DataLoader")
    parser.add_argument("--decode-ms", type=float, default=0.0, help="sleep per sample")
    parser.add_argument("--amp", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main():
    options = parse()
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    loader = DataLoader(
        Stripes(options.samples, 1, options.decode_ms),
        batch_size=options.batch,
        shuffle=True,
        num_workers=options.workers,
        pin_memory=device.type == "cuda",
        drop_last=True,
    )
    held_out = DataLoader(Stripes(max(options.samples // 8, 1), 2), batch_size=options.batch)
    model = make_model(options.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(1, options.epochs + 1):
        loss = train_epoch(model, loader, optimizer, device, options)
        right = validate(model, held_out, device)
        print(f"epoch {epoch} loss {loss!r} accuracy {right:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
