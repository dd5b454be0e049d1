"""Hugging Face's Trainer, or a loop of Accelerate; they know nothing of trainglass.

    python huggingface_job.py trainer|evaluating|accumulating|accelerate FOLDER
"""

import sys

import torch

STEPS, ACCUMULATE = 12, 2  # updates of an epoch; batches of an update
EVALUATED = 3  # batches of an evaluation


class Rows(torch.utils.data.Dataset):
    def __init__(self, batches=STEPS * ACCUMULATE):
        self.batches = batches

    def __len__(self):
        return 8 * self.batches

    def __getitem__(self, index):
        return {"x": torch.full((4,), index / 100), "labels": torch.tensor([1.0])}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        out = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


def trainer(folder, **more):
    import transformers

    words = {"num_train_epochs": 1, "gradient_accumulation_steps": ACCUMULATE, **more}
    arguments = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=8, per_device_eval_batch_size=8,
        report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True,
        logging_strategy="no", seed=1, **words)
    transformers.Trainer(Net(), arguments, train_dataset=Rows(),
                         eval_dataset=Rows(EVALUATED)).train()


def evaluating(folder):
    trainer(folder, num_train_epochs=2, eval_strategy="epoch")


def accumulating(folder):
    trainer(folder, gradient_accumulation_steps=4 * ACCUMULATE)


def accelerate(folder):
    from accelerate import Accelerator

    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(1)
    globals()[sys.argv[1]](sys.argv[2])
