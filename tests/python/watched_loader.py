"""A loop of PyTorch whose loader collates with a slow function, which it watches.

    python watched_loader.py fork|spawn|forkserver BATCHES
"""

import sys

import torch
import trainglass
import watched


class Samples:
    """16 numbers each; of torch alone, so that workers begin fast."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return [torch.full((16,), float(index))]


def main():
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(
        Samples(4 * int(sys.argv[2])), batch_size=4, num_workers=2,
        multiprocessing_context=sys.argv[1], collate_fn=watched.uses_polygons)
    with trainglass.watching("watched.polygons") as watching:
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
        ((label, counts),) = watching.take()
    print(label, counts.calls)


if __name__ == "__main__":
    main()
