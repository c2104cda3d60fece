"""Degree term: the score of a pair is that of the vectors plus a function of each degree, in as many dimensions."""

from dataclasses import replace

import networkx
import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.models.structure import DegreeTerm
from l2g2g.runs import training
from l2g2g.runs.degree_term import TermTrial, TermWeights, _leading_turn, crossed_auc, term_auc, try_term
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.training import run_split

SMALL = {"dim": 16, "patches": 3, "epochs": 8, "threads": 1, "structure": "none"}
WEIGHTS = TermWeights(1.5, -0.3, (0.5, -0.25, 0.125, 1.0))


@pytest.fixture(scope="module")
def hubs():
    """A graph whose hubs have triangles: low degrees tell most of the links."""
    edges = np.array(networkx.powerlaw_cluster_graph(1500, 3, 0.3, seed=1).edges())
    return Graph.from_arcs(edges[:, 0], edges[:, 1], num_nodes=1500, name="hubs")


@pytest.mark.parametrize("has_features", [True, False])
def test_scores_are_those_of_the_vectors_and_what_is_added(noisy, hubs, monkeypatch, has_features):
    graph = noisy if has_features else hubs
    split, seen = split_links(graph, seed=1), {}
    sources, targets = np.random.default_rng(0).integers(0, graph.num_nodes, (2, 200))

    def find(vectors, term, validation, *, seed):
        found = try_term(vectors, term, validation, seed=seed)
        turned = vectors @ found.turn
        seen["scores"] = (turned[sources] * turned[targets]).sum(axis=1)
        return TermTrial(0.5, 0.9, found.turn, WEIGHTS)

    monkeypatch.setattr(training, "try_term", find)
    run = run_split(split, make_config("l2g2g", **SMALL))
    assert run.embedding.shape == (graph.num_nodes, 16)
    assert run.config.decoder == "signed"
    assert run.chosen["degree_term"] is True
    term = replace(DegreeTerm.blank(split.train.degrees), weights=np.array(WEIGHTS.degrees))
    added = term.of(split.train.degrees).astype(np.float64)
    expected = 1.5 * seen["scores"] - 0.3 + added[sources] + added[targets]
    scores = run.trained.model.decoder.score(run.embedding, sources, targets)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_a_term_that_does_not_help_changes_nothing(noisy, monkeypatch):
    split = split_links(noisy, seed=1)
    plain = run_split(split, make_config("l2g2g", **SMALL, degree_term=False))
    assert "degree_term" not in plain.chosen
    monkeypatch.setattr(training, "try_term", lambda *_, **__: TermTrial(0.8, 0.8, np.eye(16)[:, 2:], WEIGHTS))
    run = run_split(split, make_config("l2g2g", **SMALL))
    assert run.chosen["degree_term"] is False
    assert run.config.decoder == "inner"
    np.testing.assert_array_equal(run.embedding, plain.embedding)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_hubs_with_triangles_need_it(hubs, method):
    plain, _ = evaluate_graph(hubs, make_config(method, patches=4, degree_term=False, threads=1))
    row, run = evaluate_graph(hubs, make_config(method, patches=4, threads=1))
    assert row["chosen"]["degree_term"]
    assert row["auc"] > plain["auc"] + 0.01
    assert run.embedding.shape[1] == 16


def test_weights_are_found_and_cross_fitted():
    generator = np.random.default_rng(0)
    scores, basis = generator.normal(size=400), generator.normal(size=(400, 4))
    basis[:200, 2] += 2  # of the edges
    found = TermWeights.fit_sample(scores + 3.0, basis, 200)
    assert found.degrees[2] > 3 * max(abs(found.degrees[place]) for place in (0, 1, 3))
    assert 0.9 < crossed_auc(np.abs(scores) + basis[:, 2], basis, 200, 0) <= 1
    noise = generator.normal(size=(400, 4))
    assert term_auc(np.arange(400.0), noise, 200) == 0.0  # edges score lowest: nothing to add a term to
    assert crossed_auc(np.arange(400.0), noise, 200, 0) == 0.0


def test_degrees_of_the_final_graph_count(hubs):
    run = embed_graph(hubs, make_config("l2g2g", dim=16, patches=3, threads=1, structure="spectral"), keep=True)
    assert run.chosen["degree_term"]
    term = run.fitted.inputs.degree_term
    at_degree = term.of(hubs.degrees)
    height = 0.2
    np.testing.assert_allclose(run.embedding[:, -2], height * (1 + at_degree), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.embedding[:, -1], height * (at_degree - 1), rtol=1e-4, atol=1e-5)


def test_where_there_is_none():
    assert make_config("l2g2g").tries_degree_term
    for other in ({"encoder": "sage"}, {"decoder": "cosine"}, {"rotate": True}, {"skip": False}, {"dim": 4}):
        assert not make_config("l2g2g", **other).tries_degree_term
    assert not make_config("l2g2g", "paper").tries_degree_term
    assert not make_config("l2g2g", degree_term=False).tries_degree_term


def test_vectors_that_fit_into_fewer_dimensions_keep_products_and_hardly_move():
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(50, 6)) * [3.0, 3.0, 2.0, 1.0, 1e-4, 1e-4]
    turned = vectors @ _leading_turn(vectors.T @ vectors)
    np.testing.assert_allclose(turned @ turned.T, vectors @ vectors.T, atol=1e-6)
    np.testing.assert_allclose(turned, vectors[:, :4], atol=1e-3)
