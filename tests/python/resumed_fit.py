"""A fit of Lightning that knows nothing of trainglass, and one that goes on where a
checkpoint in the middle of the first one's second epoch was made. It prints a line for
each batch: its epoch, from 1, and its number.

    python resumed_fit.py FOLDER first|second
"""

import pathlib
import sys

import lightning_jobs as jobs


class Saves(jobs.pl.Callback):
    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.current_epoch == 1 and batch_idx == 4:
            trainer.save_checkpoint(self.path)


def trainer(folder, *callbacks):
    return jobs.pl.Trainer(accelerator="cpu", max_epochs=2, logger=False, default_root_dir=folder,
                           enable_progress_bar=False, enable_model_summary=False,
                           num_sanity_val_steps=0, callbacks=list(callbacks))


def fit(folder, which):
    path = pathlib.Path(folder) / "within.ckpt"
    module = jobs.Net(lambda module, epoch, batch: jobs.say("batch", epoch, batch))
    if which == "first":
        trainer(folder, Saves(path)).fit(module)
    else:
        trainer(folder).fit(module, ckpt_path=str(path))


if __name__ == "__main__":
    fit(*sys.argv[1:])
