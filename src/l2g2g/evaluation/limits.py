"""Limits: what the model that generated a graph allows at best."""

from __future__ import annotations

from l2g2g.evaluation.links import LinkScores, link_scores
from l2g2g.graphs.graph import EdgeModel
from l2g2g.graphs.splits import Pairs


def best_link_scores(block_model: EdgeModel, pairs: Pairs) -> LinkScores:
    """The scores of the true edge probabilities on these very pairs: no embedding does better on average."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, block_model.edge_probability(sources, targets))
