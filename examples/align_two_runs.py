"""Two independent runs of GAE on one graph, brought into one space: are they the same embedding up to a rotation?

Prints the distance of the two runs before and after alignment, and the held-out link AUC of each run and of
the aligned mean. Usage: python examples/align_two_runs.py [GRAPH]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from l2g2g import align, read_graph
from l2g2g.config import make_config
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.splits import split_links
from l2g2g.runs.training import run_split


def run(graph: Any = "sbm-small", epochs: int | None = None) -> dict[str, float]:
    """Train twice on the same split with different seeds, align, score."""
    split = split_links(read_graph(graph), seed=0)
    assert split.test is not None
    runs = [run_split(split, make_config("gae", seed=seed, epochs=epochs)).embedding for seed in (0, 1)]
    nodes = np.arange(len(runs[0]))
    aligned = align([(nodes, vectors) for vectors in runs])
    naive = (runs[0] + runs[1]) / 2
    found = {
        "residual_before": aligned.residuals.before,
        "residual_after": aligned.residuals.after,
        "auc_first": evaluate_links(runs[0], split.test).auc,
        "auc_second": evaluate_links(runs[1], split.test).auc,
        "auc_mean_without_alignment": evaluate_links(naive, split.test).auc,
        "auc_aligned_mean": evaluate_links(aligned.embedding, split.test).auc,
    }
    for name, value in found.items():
        print(f"{name:>28}  {value:.4f}")
    return found


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "sbm-small")
