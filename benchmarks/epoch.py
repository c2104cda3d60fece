"""Seconds per epoch of GAE, ours beside PyG's on the same data in one run: `make bench`.

Both train the paper's model (F → 32 → 16, raw one-hot or binary features, two negatives per edge, Adam).
Wall time: the difference of a long and a short training divided by the difference of their epochs.
Prints one JSON line per graph and a table; medians of the repeats.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from l2g2g.config import make_config
from l2g2g.experiment import run_split
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.splits import LinkSplit, split_links

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def time_ours(split: LinkSplit, method: str, epochs: tuple[int, int]) -> float:
    """Seconds per epoch of ours."""
    spent = []
    for count in epochs:
        started = time.perf_counter()
        run_split(split, make_config(method, "paper", epochs=count))
        spent.append(time.perf_counter() - started)
    return (spent[1] - spent[0]) / (epochs[1] - epochs[0])


def time_pyg(graph: Graph, num_epochs: int) -> float:
    """Seconds per epoch of PyG's GAE with GCNConv, its first epoch not counted."""
    from torch_geometric.nn import GAE, GCNConv

    class Encoder(torch.nn.Module):
        def __init__(self, num_features: int) -> None:
            super().__init__()
            self.first, self.second = GCNConv(num_features, 32), GCNConv(32, 16)

        def forward(self, features: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(features, edges).relu(), edges)

    torch.set_num_threads(os.cpu_count() or 1)  # all cores for the peer, whatever ours chose
    arcs = graph.adjacency.tocoo()
    edges = torch.from_numpy(np.stack([arcs.row, arcs.col]).astype(np.int64))
    dense = graph.features.toarray() if hasattr(graph.features, "toarray") else graph.features
    features = torch.from_numpy((dense > 0).astype(np.float32))
    model = GAE(Encoder(features.shape[1]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    started = time.perf_counter()
    for epoch in range(num_epochs + 1):
        if epoch == 1:
            started = time.perf_counter()
        optimiser.zero_grad()
        model.recon_loss(model.encode(features, edges), edges).backward()
        optimiser.step()
    return (time.perf_counter() - started) / num_epochs


def measure(name: str, repeats: int) -> dict:
    """Interleave the peers, so that a change of load hits both."""
    graph = read_graph(name, data_dir=DATA)
    split = split_links(graph, seed=0)
    large = graph.num_edges > 500_000
    ours, patches, pyg = [], [], []
    for _ in range(repeats):
        ours.append(time_ours(split, "gae", (2, 12) if large else (10, 110)))
        patches.append(time_ours(split, "l2g2g", (2, 12) if large else (10, 110)))
        pyg.append(time_pyg(split.train, 1 if large else 10))
    return {
        "dataset": graph.name,
        "arcs": int(split.train.adjacency.nnz),
        "gae_seconds": statistics.median(ours),
        "l2g2g_seconds": statistics.median(patches),
        "pyg_gae_seconds": statistics.median(pyg),
        "times_faster": statistics.median(pyg) / statistics.median(ours),
        "times_faster_range": [min(pyg) / max(ours), max(pyg) / min(ours)],
        "repeats": repeats,
        "threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="sbm-small,cora-ml,sbm-large")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    table = Table(title="Seconds per epoch, medians")
    for column in ("graph", "arcs", "GAE ms", "L2G2G ms", "PyG GAE ms", "times faster"):
        table.add_column(column, justify="right")
    for name in options.datasets.split(","):
        if not name.startswith("sbm") and not DATA.exists():
            Console(stderr=True).print(f"{name}: skipped, {DATA.name} is not beside the project")
            continue
        row = measure(name, options.repeats)
        print(json.dumps(row), flush=True)
        milliseconds = [f"{1000 * row[key]:.1f}" for key in ("gae_seconds", "l2g2g_seconds", "pyg_gae_seconds")]
        table.add_row(row["dataset"], f"{row['arcs']:,}", *milliseconds, f"{row['times_faster']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
