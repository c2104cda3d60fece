"""Seconds per epoch of PyG's GAE (GCNConv), in a process of its own so that it may run out of memory alone.

Usage: python benchmarks/pyg_epoch.py FOLDER EPOCHS THREADS warm|cold wall|cpu.
FOLDER holds edges.npy (2, num_arcs) and features.npy.
Prints one JSON line: the difference of a long and a short training, divided by the difference of their epochs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch_geometric.nn import GAE, GCNConv

Clock = Callable[[], float]


class Encoder(torch.nn.Module):
    """Two graph convolutions, as in the paper."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.first, self.second = GCNConv(num_features, 32), GCNConv(32, 16)

    def forward(self, features: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(features, edges).relu(), edges)


def train(features: torch.Tensor, edges: torch.Tensor, num_epochs: int, clock: Clock) -> float:
    """Seconds of a training from its start."""
    started = clock()
    model = GAE(Encoder(features.shape[1]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(num_epochs):
        optimiser.zero_grad()
        model.recon_loss(model.encode(features, edges), edges).backward()
        optimiser.step()
    return clock() - started


def main(folder: Path, num_epochs: int, threads: int, warm: bool, clock: Clock) -> None:
    """Measure and print."""
    victim = Path("/proc/self/oom_score_adj")
    if victim.exists():
        victim.write_text("1000")  # where memory runs out, this process goes and not the benchmark
    torch.set_num_threads(threads)
    edges = torch.from_numpy(np.load(folder / "edges.npy")).long()
    features = torch.from_numpy(np.load(folder / "features.npy"))
    ring = torch.arange(100)
    train(torch.randn(100, 8), torch.stack([ring, ring.roll(1)]), 2, clock)  # loads what the first call loads
    if warm:
        train(features, edges, 1, clock)
        seconds = (train(features, edges, 1 + num_epochs, clock) - train(features, edges, 1, clock)) / num_epochs
    else:  # an epoch of minutes: one of them, with the building of the model, which takes milliseconds
        seconds = train(features, edges, 1, clock)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[sys.argv[5]]
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "warm", clock)
