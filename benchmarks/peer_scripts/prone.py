"""ProNE of the package nodevectors: a training graph in a folder becomes vectors.npy and one JSON line.

Runs in an environment of its own (benchmarks/peers.py makes it) and imports nothing of ours.
Its seconds count from the CSR matrix in memory to the vectors: not imports, not files, not the warm-up.
"""

import argparse
import importlib.metadata
import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from nodevectors import ProNE


def embed(adjacency, dim, seed):
    """The package's defaults: 10 Chebyshev terms, mu 0.2, theta 0.5, which are its paper's. (num_nodes, dim)."""
    np.random.seed(seed)  # noqa: NPY002 - the package draws from numpy's global generator
    return ProNE(n_components=dim, verbose=False).fit_transform(adjacency)


def main():
    """Read, warm up, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)  # this peer takes it from the environment's variables
    options = parser.parse_args()
    indptr, indices = (np.load(options.folder / f"{name}.npy") for name in ("indptr", "indices"))
    num_nodes = len(indptr) - 1
    adjacency = sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(num_nodes, num_nodes))
    ring = sp.csr_matrix(np.roll(np.eye(64, dtype=np.float32), 1, axis=0))
    embed(ring + ring.T, 8, 0)
    wall, processor = time.perf_counter(), time.process_time()
    vectors = embed(adjacency, options.dim, options.seed)
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    np.save(options.folder / "vectors.npy", np.asarray(vectors, np.float32))
    print(json.dumps({**spent, "version": importlib.metadata.version("nodevectors")}))


if __name__ == "__main__":
    main()
