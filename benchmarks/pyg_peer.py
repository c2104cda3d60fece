"""PyG's GAE as a peer: the training graph goes out as files, seconds per epoch come back, or a reason why not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from l2g2g.graphs.graph import Features, Graph

SCRIPT = Path(__file__).resolve().parent / "pyg_epoch.py"
MANY_ARCS = 5_000_000  # from here on one epoch of PyG takes minutes and is measured without a warm one


class PyGSkipped(Exception):
    """PyG gives no figure here; the message says why."""


class PyGPeer:
    """A graph on disk as PyG wants it. The features are those that ours sees, dense."""

    def __init__(self, graph: Graph, features: Features) -> None:
        if importlib.util.find_spec("torch_geometric") is None:
            raise PyGSkipped("torch_geometric is not installed (pip install 'l2g2g[pyg]')")
        self.num_arcs = graph.adjacency.nnz
        self.folder = tempfile.TemporaryDirectory(prefix="l2g2g-pyg-")
        arcs = graph.adjacency.tocoo()
        np.save(Path(self.folder.name) / "edges.npy", np.stack([arcs.row, arcs.col]).astype(np.int32))
        dense = features.toarray() if hasattr(features, "toarray") else features
        np.save(Path(self.folder.name) / "features.npy", np.ascontiguousarray(dense, np.float32))

    @property
    def is_large(self) -> bool:
        """Whether a single epoch is all that one waits for."""
        return self.num_arcs > MANY_ARCS

    def measure(self, threads: int, clock: str = "wall", *, timeout: float = 1800) -> float:
        """Seconds per epoch."""
        epochs = 10 if self.num_arcs < 500_000 else 1
        command = [sys.executable, str(SCRIPT), self.folder.name, str(epochs), str(threads)]
        command += ["cold" if self.is_large else "warm", clock]
        variables = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise PyGSkipped(f"not finished after {timeout:.0f} s") from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}: memory?"]
            raise PyGSkipped(lines[-1])
        return float(json.loads(done.stdout.splitlines()[-1])["seconds"])
