"""Fits of Lightning with one feature of training each, every one with dropout, from one seed.

    python features.py FOLDER callbacks|none NAME...     prints what each has become, bit by bit
"""

import contextlib
import hashlib
import io
import os
import sys

import lightning_jobs as jobs
import torch
from torch.utils.checkpoint import checkpoint


class Net(jobs.Net):
    """Dropout uses up random numbers: one more or one fewer and every weight differs."""

    def __init__(self, recomputed=False):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, 4))
        self.recomputed, self.losses = recomputed, []

    def forward(self, x):
        x = checkpoint(self.layers, x, use_reentrant=False) if self.recomputed else self.layers(x)
        return self.layer(torch.nn.functional.pad(x, (0, 4)))

    def training_step(self, batch, batch_idx):
        loss = self(batch[0]).square().mean()
        self.losses.append(loss.detach())
        return loss

    def validation_step(self, batch, batch_idx):
        self.losses.append(self(batch[0]).mean().detach())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Ranks(Net):
    """Each rank tells what it has become: with ddp_fork it ends with its fit."""

    def on_fit_end(self):
        jobs.say("became", "ranks", self.global_rank, became(self))


class Stepped(Net):
    """Steps of its own, as manual optimization has them."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, batch_idx))
        optimizer.step()


def compiled():
    net = Net()
    net.layers = torch.compile(net.layers, backend="aot_eager")
    return net


FEATURES = {
    "plain": (Net, {}),
    "mixed": (Net, {"precision": "bf16-mixed"}),
    "accumulated": (Net, {"accumulate_grad_batches": 3, "gradient_clip_val": 0.1}),
    "recomputed": (lambda: Net(recomputed=True), {}),
    "compiled": (compiled, {}),
    "manual": (Stepped, {}),
    "interval": (Net, {"val_check_interval": 3}),
    "ranks": (Ranks, {"strategy": "ddp_fork", "devices": 2}),
}


def became(net):
    """Weights, the optimizer's state, losses and the random numbers that come next."""
    optimizer = net.optimizers().state_dict()["state"]
    tensors = [*net.state_dict().values(), *(v for row in optimizer.values() for v in row.values()),
               *net.losses, torch.get_rng_state()]
    bits = hashlib.sha256()
    for tensor in tensors:
        bits.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return f"{len(tensors)} {bits.hexdigest()}"


def ours(folder):
    from trainglass.lightning import PerformanceProfilerCallback, ProfilerCallback

    return [
        ProfilerCallback(profile_epochs=[1, 2], warmup_steps=1, profile_steps=6, with_stack=True,
                         with_flops=True, rank="all", output_dir=folder),
        PerformanceProfilerCallback(watch=["lightning_jobs.loader"], include_training=True,
                                    log_interval=2),
    ]


def fit(folder, name, callbacks):
    make, words = FEATURES[name]
    torch.manual_seed(11)
    net = make()
    trainer = jobs.trainer(*callbacks, max_epochs=2, **words)
    with contextlib.redirect_stdout(io.StringIO()) if name != "ranks" else contextlib.nullcontext():
        trainer.fit(net)
    if name != "ranks":
        jobs.say("became", name, 0, became(net))


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    for name in sys.argv[3:]:
        fit(sys.argv[1], name, ours(os.path.join(sys.argv[1], name)) if sys.argv[2] == "callbacks" else [])
