"""Streaming FENNEL beside METIS: edges kept, balance and seconds, as JSON lines.

    python benchmarks/streaming_partition.py [--data-dir DIR] [--patches 10] [GRAPH ...]

Every graph is also cut with its nodes in a random order, as ids of large edge lists come.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store import write_graph
from l2g2g.patches.partition import DEFAULT_PASSES, partition, stream_partition

GRAPHS = ["sbm-large", "npm-deps", "npm-codep"]
PASSES = (1, 3, DEFAULT_PASSES)  # of the last, fewer where hardly anything moves any more


def shuffled(graph: Graph) -> Graph:
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    adjacency = graph.adjacency[order][:, order]
    adjacency.sort_indices()
    return replace(graph, adjacency=adjacency, features=None, labels=None, block_model=None)


def measure(graph: Graph, labels: np.ndarray, num_patches: int) -> dict[str, float]:
    sources, targets = graph.edges()
    largest = np.bincount(labels).max()
    return {
        "kept_edge_fraction": float(np.mean(labels[sources] == labels[targets])),
        "balance": float(largest * num_patches / graph.num_nodes),
    }


def compare(graph: Graph, order: str, num_patches: int) -> None:
    about = {"graph": graph.name, "order": order, "patches": num_patches}
    started = time.perf_counter()
    labels = partition(graph.adjacency, num_patches)
    seconds = time.perf_counter() - started
    print(json.dumps({**about, "partition": "metis", "seconds": seconds, **measure(graph, labels, num_patches)}))
    with tempfile.TemporaryDirectory() as folder:
        stored = write_graph(replace(graph, features=None, labels=None), folder)
        for passes in PASSES:
            started = time.perf_counter()
            labels = stream_partition(stored, num_patches, num_passes=passes)
            row = {**about, "partition": "streaming", "most_passes": passes, "seconds": time.perf_counter() - started}
            print(json.dumps({**row, **measure(graph, labels, num_patches)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--data-dir")
    parser.add_argument("--patches", type=int, default=10)
    options = parser.parse_args()
    for name in options.graphs:
        try:
            graph = read_graph(name, data_dir=options.data_dir)
        except InputError as error:
            print(json.dumps({"graph": name, "skipped": str(error)}))
            continue
        compare(graph, "as given", options.patches)
        compare(shuffled(graph), "shuffled", options.patches)


if __name__ == "__main__":
    main()
