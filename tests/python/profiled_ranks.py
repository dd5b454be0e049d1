"""A fit of two ranks that both record a window, into the folder of the first word."""

import os
import sys

import lightning_jobs as jobs

from trainglass.lightning import ProfilerCallback

if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    callback = ProfilerCallback(rank="all", output_dir=sys.argv[1], warmup_steps=1,
                                profile_steps=3, lightning_report=False)
    trainer = jobs.trainer(callback, strategy="ddp_fork", devices=2, num_sanity_val_steps=0)
    trainer.fit(jobs.Net())
