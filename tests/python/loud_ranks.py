"""A fit of two ranks that say what they measure, of which the second has no room for counts."""

import os
from unittest import mock

import lightning_jobs as jobs

from trainglass.lightning import PerformanceProfilerCallback


class Crowded(PerformanceProfilerCallback):
    def setup(self, trainer, pl_module, stage=None):
        if trainer.global_rank == 0:
            return super().setup(trainer, pl_module, stage)
        with mock.patch("trainglass.watch.loaders.Tally", side_effect=OSError("no room")):
            return super().setup(trainer, pl_module, stage)


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    callback = Crowded(verbose=True, include_training=True, watch=["lightning_jobs.loader"])
    trainer = jobs.trainer(callback, strategy="ddp_fork", devices=2, num_sanity_val_steps=0)
    trainer.fit(jobs.Net())
