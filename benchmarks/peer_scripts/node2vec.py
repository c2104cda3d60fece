"""node2vec of the package pecanpy: a training graph in a folder becomes vectors.npy and one JSON line.

Runs in an environment of its own (benchmarks/peers.py makes it) and imports nothing of ours.
Its seconds count from the CSR arrays in memory to the vectors: not imports, not files, not the warm-up.
"""

import argparse
import importlib.metadata
import json
import time
from pathlib import Path

import numpy as np
from pecanpy.pecanpy import FirstOrderUnweighted


def embed(indptr, indices, dim, seed, threads):
    """p = q = 1, 10 walks of 80 steps from every node, window 10, 1 epoch: the paper's settings. (num_nodes, dim).

    With p = q = 1 the walk is of first order, for which the package has its fastest class.
    """
    graph = FirstOrderUnweighted(p=1, q=1, workers=threads, random_state=seed)
    graph.set_node_ids([str(node) for node in range(len(indptr) - 1)])
    graph.indptr, graph.indices = indptr, indices
    graph.data = np.ones(len(indices), np.float32)
    return graph.embed(dim=dim)


def main():
    """Read, warm up, embed, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    indptr = np.load(options.folder / "indptr.npy").astype(np.uint32)
    indices = np.load(options.folder / "indices.npy").astype(np.uint32)
    nodes = np.arange(64)
    ring = np.sort(np.stack([(nodes - 1) % 64, (nodes + 1) % 64], axis=1), axis=1)
    embed(np.arange(0, 129, 2, dtype=np.uint32), ring.ravel().astype(np.uint32), 8, 0, options.threads)
    wall, processor = time.perf_counter(), time.process_time()
    vectors = embed(indptr, indices, options.dim, options.seed, options.threads)
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    np.save(options.folder / "vectors.npy", np.asarray(vectors, np.float32))
    print(json.dumps({**spent, "version": importlib.metadata.version("pecanpy")}))


if __name__ == "__main__":
    main()
