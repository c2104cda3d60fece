"""What a term of the degree gains, with and without test pairs that have an end without an edge in the training graph.

    python benchmarks/isolated_ends.py citeseer_planetoid power cora_ml --data-dir ../shared/data

Where every node of a graph has an edge, a node that has none in the training graph has one among the held-out edges:
a score that knows degrees knows that too. One line a graph; AUC in %, mean of the seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from l2g2g.config import make_config
from l2g2g.evaluation.links import link_scores
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.splits import Pairs, split_links
from l2g2g.runs.training import run_split


def measure(path: Path, seed: int, *, degree_term: bool) -> list[float]:
    """AUC of all test pairs and of those without an isolated end, and the share of edges and non-edges with one."""
    split = split_links(read_graph(str(path)), seed=seed)
    run = run_split(split, make_config("l2g2g", patches=10, seed=seed, degree_term=degree_term, threads=1))
    assert isinstance(split.test, Pairs)
    sources, targets, is_edge = split.test.endpoints()
    scores = run.trained.model.decoder.score(run.embedding, sources, targets)
    degrees = split.train.degrees
    isolated = (degrees[sources] == 0) | (degrees[targets] == 0)
    found = [link_scores(is_edge, scores).auc, link_scores(is_edge[~isolated], scores[~isolated]).auc]
    return [*found, float(isolated[is_edge].mean()), float(isolated[~is_edge].mean())]


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    print("| graph | edges, non-edges with an isolated end | all pairs: without, with | others: without, with |")
    print("|---|---|---|---|")
    for name in options.graphs:
        path = options.data_dir / f"{name}.npz"
        rows = np.array(
            [[measure(path, seed, degree_term=term) for seed in range(options.seeds)] for term in (False, True)]
        )
        (plain, other, edges, non_edges), (with_term, other_with_term, *_) = 100 * rows.mean(axis=1)
        shares = f"{edges:.0f} %, {non_edges:.0f} %"
        print(f"| {name} | {shares} | {plain:.2f}, {with_term:.2f} | {other:.2f}, {other_with_term:.2f} |", flush=True)


if __name__ == "__main__":
    main()
