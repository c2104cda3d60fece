"""Scoring: when the spectral baseline is left out, directions apart, and ranks of a score that knows the answer."""

import logging

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.runs import scoring
from l2g2g.runs.resources import Stopwatch
from l2g2g.runs.scoring import directed_measures, further_measures, score_spectral, spectral_dim


def test_the_spectral_baseline_is_left_out_where_it_is_too_large(planted, monkeypatch, caplog):
    split, config = split_links(planted), make_config("gae", dim=4)
    found = score_spectral(split.train, split.validation, config)
    assert 0.5 < found <= 1
    caplog.set_level(logging.INFO)
    assert score_spectral(split.train, split.validation, make_config("gae", dim=4, memory=1)) is None
    assert "it needs about" in caplog.text
    monkeypatch.setattr(scoring, "MOST_BASELINE_EDGES", planted.num_edges // 2)
    assert score_spectral(split.train, split.validation, config) is None
    assert "left out for large graphs" in caplog.text


def test_spectral_columns_fit_what_memory_leaves(monkeypatch):
    monkeypatch.setattr(scoring, "resident_memory", lambda: 10**9)
    assert spectral_dim(10**6, None) == scoring.SPECTRAL_DIM
    assert spectral_dim(10**6, 10**9 + 14 * 10**6 * 5) == 5
    assert spectral_dim(10**6, 10**9) == 2
    assert spectral_dim(1000, 10**10) == scoring.SPECTRAL_DIM


def test_both_questions_of_a_directed_graph(planted):
    assert directed_measures(planted, None, None, None) == {}
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(0, 60, (2, 900))
    graph = Graph.from_arcs(sources, targets, num_nodes=60, directed=True)
    test = split_links(graph).test
    arcs = set(zip(*graph.arcs.nonzero(), strict=True))

    def knows_links(_, ends, others):  # joined or not, but no directions
        pairs = zip(ends.tolist(), others.tolist(), strict=True)
        return np.array([float((u, v) in arcs or (v, u) in arcs) for u, v in pairs])

    found = directed_measures(graph, test, np.empty((60, 0)), knows_links)
    assert found == {"auc_joined": 1.0, "auc_direction": 0.5, "num_arcs": graph.arcs.nnz}


def test_a_score_that_knows_all_edges_ranks_them_first(planted):
    split, clock = split_links(planted), Stopwatch()
    known = planted.adjacency.toarray() != 0
    vectors = np.eye(4, dtype=np.float32)[planted.labels]
    how = {"seed": 0}

    def score(_, sources, targets):
        return known[sources, targets].astype(float)

    found = further_measures(planted, split.train, split.test, vectors, score, clock, **how)
    assert found["mrr"] == found["hits@1"] == pytest.approx(1)
    assert found["probe_accuracy"] == pytest.approx(1)
    assert {"rank", "rank_hard", "probe"} <= set(clock.seconds)
    nothing = further_measures(planted, split.train, None, None, score, clock, **how)
    assert set(nothing.values()) == {None}
