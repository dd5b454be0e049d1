"""A fit of Lightning that knows nothing of trainglass: two epochs, validation, checkpoints.

    python fit.py FOLDER [accumulated batches] [ranks]
"""

import sys

import lightning_jobs as jobs

accumulate, ranks = (int(word) for word in [*sys.argv[2:], 1, 1][:2])
module = jobs.Net()
words = {"devices": ranks, "strategy": "ddp"} if ranks > 1 else {}
trainer = jobs.pl.Trainer(accelerator="cpu", max_epochs=2, logger=False, default_root_dir=sys.argv[1],
                          enable_progress_bar=False, enable_model_summary=False,
                          accumulate_grad_batches=accumulate, **words)
trainer.fit(module)
jobs.say("losses", *(float(p.detach().sum()).hex() for p in module.parameters()))
if trainer.is_global_zero:
    jobs.say("callbacks", *(type(c).__name__ for c in trainer.callbacks))
    jobs.say("own", "save_checkpoint" in vars(trainer))
