"""A job that uses torch.profiler with its own schedule, from its first step on."""

import torch
from torch.profiler import ProfilerActivity, profile, schedule

import jobs

model = jobs.network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = []


def ready(window):
    seen.extend(event.key for event in window.key_averages() if "ProfilerStep" in event.key)
    seen.append(sum(event.count for event in window.key_averages() if event.key == "aten::addmm"))


with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=1, active=3),
             on_trace_ready=ready) as window:
    for batch in jobs.DataLoader(jobs.samples(96), batch_size=8):
        optimizer.zero_grad()
        jobs.batch_loss(model, batch).backward()
        optimizer.step()
        window.step()
print(*seen)
