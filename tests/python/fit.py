"""A fit of Lightning that knows nothing of trainglass: two epochs, validation, checkpoints."""

import sys

import lightning_jobs as jobs

accumulate = int(sys.argv[2]) if len(sys.argv) > 2 else 1
module = jobs.Net()
trainer = jobs.pl.Trainer(accelerator="cpu", max_epochs=2, logger=False, default_root_dir=sys.argv[1],
                          enable_progress_bar=False, enable_model_summary=False,
                          accumulate_grad_batches=accumulate)
trainer.fit(module)
print("losses", *(float(p.sum()).hex() for p in module.parameters()))
print("callbacks", *(type(c).__name__ for c in trainer.callbacks))
print("own", "save_checkpoint" in vars(trainer))
