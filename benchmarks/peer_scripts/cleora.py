"""Cleora of the package pycleora: a training graph in a folder becomes vectors.npy and one JSON line.

Runs in an environment of its own (benchmarks/peers.py makes it) and imports nothing of ours.
Its seconds count from the list of edges in memory to the vectors: not imports, not files, not the warm-up,
and not the writing of edges as text, which is the only input the package takes.
"""

import argparse
import importlib.metadata
import json
import time
from pathlib import Path

import numpy as np
import pycleora


def embed(lines, num_nodes, options):
    """The package's embedding in the order of the nodes; a node without edges gets zeros. (num_nodes, dim)."""
    graph = pycleora.SparseMatrix.from_iterator(iter(lines), "complex::reflexive::node", num_workers=options.threads)
    found = pycleora.embed(
        graph,
        feature_dim=options.dim,
        num_iterations=options.iterations,
        whiten=options.whiten,
        seed=options.seed,
        num_workers=options.threads,
    )
    vectors = np.zeros((num_nodes, options.dim), np.float32)
    vectors[np.array(graph.entity_ids, np.int64)] = found
    return vectors


def main():
    """Read, warm up, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=pycleora.DEFAULT_NUM_ITERATIONS)
    parser.add_argument("--whiten", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    indptr, indices = (np.load(options.folder / f"{name}.npy") for name in ("indptr", "indices"))
    num_nodes = len(indptr) - 1
    rows = np.repeat(np.arange(num_nodes), np.diff(indptr))
    lines = [f"{row} {column}" for row, column in zip(rows, indices, strict=True) if row < column]
    embed(["0 1", "1 2", "2 0"], 3, options)
    wall, processor = time.perf_counter(), time.process_time()
    vectors = embed(lines, num_nodes, options)
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    np.save(options.folder / "vectors.npy", vectors)
    print(json.dumps({**spent, "version": importlib.metadata.version("pycleora")}))


if __name__ == "__main__":
    main()
