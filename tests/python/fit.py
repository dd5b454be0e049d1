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
# One write: print() writes the line's end by itself where Python is unbuffered, and ranks that
# end at one instant share the pipe.
sys.stdout.write("losses " + " ".join(float(p.detach().sum()).hex() for p in module.parameters()) + "\n")
sys.stdout.flush()
if trainer.is_global_zero:
    print("callbacks", *(type(c).__name__ for c in trainer.callbacks))
    print("own", "save_checkpoint" in vars(trainer))
