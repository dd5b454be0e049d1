"""Small fits of real Lightning for the tests, with what they printed."""

import contextlib
import io
import logging
import os
import pathlib
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "collector" / "python"))

import torch
from torch.utils.data import DataLoader, TensorDataset

NAME = os.environ.get("TRAINGLASS_TEST_LIGHTNING", "lightning.pytorch")
if NAME == "pytorch_lightning":
    import pytorch_lightning as pl
else:
    import lightning.pytorch as pl

warnings.simplefilter("ignore")
for name in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)
BATCHES, VALIDATION = 12, 3


def say(*words):
    """A line that ranks with one output cannot break: under PYTHONUNBUFFERED print() writes
    its newline by itself, and another rank's line may come before it."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def loader(batches, workers=0):
    data = torch.arange(8.0 * batches * 2).reshape(-1, 8) / (16 * batches)
    return DataLoader(TensorDataset(data), batch_size=2, num_workers=workers)


class Net(pl.LightningModule):
    """`at_batch(module, epoch, batch)` runs inside training_step."""

    def __init__(self, at_batch=None, batches=BATCHES):
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(8, 4)
        self.at_batch, self.batches = at_batch, batches

    def training_step(self, batch, batch_idx):
        if self.at_batch is not None:
            self.at_batch(self, self.current_epoch + 1, batch_idx)
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        torch.special.erfcx(batch[0])  # nothing else runs it
        return self.layer(batch[0]).mean()

    test_step = predict_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return loader(self.batches)

    def val_dataloader(self):
        return loader(VALIDATION)

    test_dataloader = predict_dataloader = val_dataloader


class Saves(pl.Callback):
    """A checkpoint from within an epoch."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx == 4:
            trainer.save_checkpoint(self.path)


def trainer(*callbacks, **words):
    words.setdefault("max_epochs", 1)
    words.setdefault("logger", False)
    return pl.Trainer(
        accelerator="cpu",
        callbacks=list(callbacks),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **words,
    )


def fit(callback, module=None, **words):
    """What a fit printed; `error`: the exception that it has to end with."""
    error = words.pop("error", None)
    module = module or Net()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.ExitStack() as stack:
            if error is not None:
                stack.enter_context(expect(error))
            trainer(*([callback] if callback else []), **words).fit(module)
    return out.getvalue()


@contextlib.contextmanager
def expect(error):
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} did not come through")
