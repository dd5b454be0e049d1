"""Trains a small network on made-up pictures with Lightning, configured by Hydra.

    python examples/train_lightning.py experiment=synthetic_debug trainer.max_epochs=3 \\
        callbacks.profiler.enabled=true callbacks.profiler.profile_epochs=[1,2] \\
        callbacks.profiler.profile_steps=50
    python examples/train_lightning.py model=resnet profiling.enabled=true \\
        profiling.schedule_every_n_steps=25

Needs torch, lightning and hydra-core, and the package trainglass (`pip install .`; from
the repository it is found without). The configuration is in examples/conf, the callbacks'
in config/callbacks.
"""

import pathlib
import sys

import hydra
import lightning as L
import torch
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = pathlib.Path(__file__).resolve().parents[1]
try:
    from trainglass.lightning import from_config
except ImportError:
    sys.path.insert(0, str(ROOT / "collector" / "python"))
    from trainglass.lightning import from_config

CLASSES = 10


class Blobs(Dataset):
    """Pictures [3, side, side] whose class is where their bright spot lies."""

    def __init__(self, count, side, seed):
        self.count, self.side, self.seed = count, side, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        label = index % CLASSES
        picture = torch.rand(3, self.side, self.side, generator=random)
        picture[:, label * self.side // CLASSES] += 1.0
        return picture, label


class Classifier(L.LightningModule):
    def __init__(self, learning_rate):
        super().__init__()
        self.learning_rate = learning_rate

    def loss(self, batch):
        pictures, labels = batch
        return nn.functional.cross_entropy(self.network(pictures), labels)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)


class BaselineCNN(Classifier):
    def __init__(self, width, learning_rate):
        super().__init__(learning_rate)
        self.network = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * width, CLASSES),
        )


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class ResNet(Classifier):
    def __init__(self, width, learning_rate):
        super().__init__(learning_rate)
        self.network = nn.Sequential(
            Block(3, width),
            Block(width, 2 * width),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, CLASSES),
        )


MODELS = {"BaselineCNN": BaselineCNN, "ResNet": ResNet}
LOGGERS = {
    "csv": "CSVLogger",
    "tensorboard": "TensorBoardLogger",
    "wandb": "WandbLogger",
    "mlflow": "MLFlowLogger",
}


def make_loader(data, count, seed, shuffle):
    return DataLoader(
        Blobs(count, data.side, seed),
        batch_size=data.batch_size,
        shuffle=shuffle,
        num_workers=data.workers,
    )


def make_logger(name):
    if name == "none":
        return False
    if name not in LOGGERS:
        raise ValueError(f"logger={name}: write none, {', '.join(LOGGERS)}")
    kind = getattr(L.pytorch.loggers, LOGGERS[name])
    return kind() if name == "mlflow" else kind(save_dir="outputs")


@hydra.main(version_base="1.3", config_path="conf", config_name="train_lightning")
def main(config: DictConfig) -> None:
    L.seed_everything(config.seed, verbose=False)
    count = max(1, round(config.data.samples * config.data.subsample_percentage))
    callbacks = list(hydra.utils.instantiate(config.callbacks).values())
    trainer = L.Trainer(
        **config.trainer,
        callbacks=[*callbacks, from_config(config)],
        logger=make_logger(config.logger),
        enable_checkpointing=False,
        enable_progress_bar=False,
        log_every_n_steps=10,
    )
    model = MODELS[config.model.name](config.model.width, config.training.learning_rate)
    trainer.fit(
        model,
        make_loader(config.data, count, 1, shuffle=True),
        make_loader(config.data, max(1, count // 8), 2, shuffle=False),
    )


if __name__ == "__main__":
    if "--config-dir" not in sys.argv:
        sys.argv[1:1] = ["--config-dir", str(ROOT / "config")]
    main()
