"""Projections for the map: CPU seconds and neighbours kept of PCA, the default t-SNE, and other ways to t-SNE.

    python benchmarks/projections.py EMBEDDING [pca tsne long sklearn forces]

`long` is openTSNE with its usual 250 + 500 steps; `sklearn` is scikit-learn's t-SNE; `forces` a layout by springs
between the 15 nearest nodes and repulsion of random pairs, as UMAP's without its compiler. One thread.
docs/report.md has the table.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from pathlib import Path

import numpy as np

from l2g2g.evaluation.pair_features import unit_rows
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.neighbours.factors import factors_by, search_exactly
from l2g2g.reports.projection import neighbours_kept, project

STEPS, NEGATIVES = 200, 5


def long_tsne(vectors):
    from openTSNE import TSNE

    return np.asarray(TSNE(perplexity=15, metric="cosine", n_jobs=1, random_state=0).fit(vectors))


def sklearn_tsne(vectors):
    from sklearn.manifold import TSNE

    return TSNE(perplexity=15, init="pca", n_jobs=1, random_state=0).fit_transform(unit_rows(vectors))


def forces(vectors):
    """UMAP's forces (a = b = 1) on the graph of the 15 nearest, all edges in every step."""
    nodes, _ = search_exactly(factors_by(vectors, "cosine"), np.arange(len(vectors)), 15)
    sources, targets = np.repeat(np.arange(len(vectors)), 15), nodes.ravel()
    places = project(unit_rows(vectors)).astype(np.float64)
    places *= 10 / places.std()
    generator = np.random.default_rng(0)
    for step in range(STEPS):
        moves = np.zeros_like(places)
        apart = places[targets] - places[sources]
        pull = 2 * apart / (1 + (apart**2).sum(1, keepdims=True))
        for axis in range(2):
            moves[:, axis] += np.bincount(sources, pull[:, axis], len(places))
            moves[:, axis] -= np.bincount(targets, pull[:, axis], len(places))
        for _ in range(NEGATIVES):
            others = generator.integers(0, len(places), len(sources))
            apart = places[sources] - places[others]
            square = (apart**2).sum(1, keepdims=True)
            push = np.clip(2 * apart / ((0.001 + square) * (1 + square)), -4, 4)
            for axis in range(2):
                moves[:, axis] += np.bincount(sources, push[:, axis], len(places))
        places += (1 - step / STEPS) * np.clip(moves, -4, 4) * 0.25
    return places


WAYS = {
    "pca": project,
    "tsne": lambda vectors: project(vectors, "tsne"),
    "long": long_tsne,
    "sklearn": sklearn_tsne,
    "forces": forces,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embedding", type=Path)
    parser.add_argument("ways", nargs="*", default=["pca", "tsne"])
    options = parser.parse_args()
    _, vectors = read_embedding(options.embedding)
    for way in options.ways:
        started = time.process_time()
        places = WAYS[way](vectors)
        seconds = time.process_time() - started
        row = {"file": options.embedding.name, "num_nodes": len(vectors), "projection": way, "cpu_seconds": seconds}
        print(json.dumps({**row, "kept": neighbours_kept(vectors, places)}), flush=True)


if __name__ == "__main__":
    main()
