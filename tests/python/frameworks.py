"""A small training in each of the frameworks that many people use; it knows nothing of
trainglass, and prints what the framework itself counted as JSON.

    python frameworks.py fastai|keras|ultralytics FOLDER
"""

import json
import os
import sys

BATCHES, VALIDATED, EPOCHS = 20, 5, 3


def fastai(_):
    import torch
    from fastai.basics import Callback, CrossEntropyLossFlat, DataLoader, DataLoaders, Learner

    def loader(batches):
        rows = torch.utils.data.TensorDataset(torch.randn(16 * batches, 32),
                                              torch.randint(0, 10, (16 * batches,)))
        return DataLoader(rows, bs=16)

    class Count(Callback):
        steps = validated = 0

        def after_step(self):
            Count.steps += 1

        def after_batch(self):
            Count.validated += not self.training

    learner = Learner(DataLoaders(loader(BATCHES), loader(VALIDATED)), torch.nn.Linear(32, 10),
                      loss_func=CrossEntropyLossFlat(), cbs=[Count()])
    learner.fit(EPOCHS, 1e-3)
    return {"steps": Count.steps, "validated": Count.validated, "epochs": EPOCHS}


def keras(_):
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as framework
    import numpy

    class Count(framework.callbacks.Callback):
        steps = validated = 0

        def on_train_batch_end(self, batch, logs=None):
            Count.steps += 1

        def on_test_batch_end(self, batch, logs=None):
            Count.validated += 1

    model = framework.Sequential([framework.layers.Input((32,)), framework.layers.Dense(10)])
    model.compile(framework.optimizers.Adam(1e-3),
                  framework.losses.SparseCategoricalCrossentropy(from_logits=True))
    random = numpy.random.default_rng(0)
    inputs = random.standard_normal((16 * BATCHES, 32), dtype="float32")
    targets = random.integers(0, 10, 16 * BATCHES)
    model.fit(inputs, targets, batch_size=16, epochs=EPOCHS, verbose=0, callbacks=[Count()],
              validation_data=(inputs[:16 * VALIDATED], targets[:16 * VALIDATED]))
    return {"steps": Count.steps, "validated": Count.validated, "epochs": EPOCHS}


def ultralytics(folder):
    """Its own loader never ends; a picture a batch, and no network."""
    import pathlib

    import numpy
    from PIL import Image

    os.environ["YOLO_CONFIG_DIR"] = os.environ["YOLO_OFFLINE"] = folder
    data = pathlib.Path(folder) / "data"
    for part, count in (("train", 8), ("val", 2)):
        for kind in range(2):
            (data / part / f"class{kind}").mkdir(parents=True)
        for number in range(count):
            pixels = numpy.random.default_rng(number).integers(0, 255, (32, 32, 3), dtype="uint8")
            Image.fromarray(pixels).save(data / part / f"class{number % 2}" / f"{number}.png")
    from ultralytics import YOLO

    counted = {"steps": 0, "validated": 0, "epochs": EPOCHS}

    def add(name):
        def count(_):
            counted[name] += 1
        return count

    model = YOLO("yolov8n-cls.yaml")
    model.add_callback("on_train_batch_end", add("steps"))
    model.add_callback("on_val_batch_end", add("validated"))
    model.train(data=str(data), epochs=EPOCHS, imgsz=32, batch=2, workers=0, device="cpu",
                project=folder, amp=False, plots=False, save=False, verbose=False, nbs=2,
                warmup_epochs=0)
    return counted


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
