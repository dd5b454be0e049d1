"""A fit of Lightning that knows nothing of trainglass: two epochs, validation, checkpoints.

    python fit.py FOLDER [accumulated batches] [ranks] [strategy]
"""

import sys

import lightning_jobs as jobs


def fit(folder, accumulate=1, ranks=1, strategy="ddp"):
    module = jobs.Net()
    words = {"devices": int(ranks), "strategy": strategy} if int(ranks) > 1 else {}
    trainer = jobs.pl.Trainer(accelerator="cpu", max_epochs=2, logger=False, default_root_dir=folder,
                              enable_progress_bar=False, enable_model_summary=False,
                              accumulate_grad_batches=int(accumulate), **words)
    trainer.fit(module)
    jobs.say("losses", *(float(p.detach().sum()).hex() for p in module.parameters()))
    if trainer.is_global_zero:
        jobs.say("callbacks", *(type(c).__name__ for c in trainer.callbacks))
        jobs.say("own", "save_checkpoint" in vars(trainer))


if __name__ == "__main__":  # spawned ranks import this file
    fit(*sys.argv[1:])
