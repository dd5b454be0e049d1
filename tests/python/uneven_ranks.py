"""A fit of two ranks of which the second alone calls what is watched."""

import os
import sys

import lightning_jobs as jobs
import watched

from trainglass.lightning import PerformanceProfilerCallback


class Uneven(jobs.Net):
    def validation_step(self, batch, batch_idx):
        if self.global_rank == 1:
            watched.polygons(batch)
        return super().validation_step(batch, batch_idx)


if __name__ == "__main__":
    from importlib import import_module

    os.environ["MASTER_ADDR"] = "127.0.0.1"
    loggers = import_module(jobs.NAME + ".loggers")
    logger = loggers.CSVLogger(sys.argv[1], name="", version="")
    jobs.fit(PerformanceProfilerCallback(watch=["watched.polygons", "watched.numbers"]), Uneven(),
             logger=logger, log_every_n_steps=1, strategy="ddp_fork", devices=2,
             num_sanity_val_steps=0)
