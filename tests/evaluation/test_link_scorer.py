"""The combined scorer: columns from training edges alone, weights on validation pairs, an honest choice."""

import json

import numpy as np
import pytest

from l2g2g.core import score_inner_products
from l2g2g.errors import InputError
from l2g2g.evaluation.link_scorer import COLUMNS, FEATURE_COLUMN, LinkEvidence, LinkScorer, choose_scorer
from l2g2g.evaluation.links import link_scores
from l2g2g.evaluation.pair_features import feature_cosines
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Pairs, split_edges, split_links
from l2g2g.graphs.store import TrainingGraph, write_graph


def clustered_graph(seed=0, num_nodes=240, features=True):
    """Cliques with some edges left out, joined at random: common neighbours tell links."""
    generator = np.random.default_rng(seed)
    group = np.arange(num_nodes) // 12
    sources, targets = np.triu_indices(num_nodes, 1)
    chance = np.where(group[sources] == group[targets], 0.6, 0.005)
    chosen = generator.random(len(sources)) < chance
    table = generator.random((num_nodes, 4)).astype(np.float32) if features else None
    return Graph.from_arcs(sources[chosen], targets[chosen], num_nodes=num_nodes, features=table)


@pytest.fixture(scope="module")
def split():
    return split_links(clustered_graph(), seed=0)


def evidence_of(split, vectors=None, **more):
    noise = np.random.default_rng(1).normal(size=(split.train.num_nodes, 4))
    return LinkEvidence(split.train, noise if vectors is None else vectors, score_inner_products, split.train, **more)


def test_columns_by_hand():
    # 0 – 1, 1 – 2, 2 – 3, 3 – 4 and the pairs (0, 2) and (0, 3).
    graph = Graph.from_arcs([0, 1, 2, 3], [1, 2, 3, 4], features=np.array([[1.0], [0], [2], [-3], [1]], np.float32))
    vectors = np.arange(10.0).reshape(5, 2)
    evidence = LinkEvidence(graph, vectors, score_inner_products, graph)
    assert evidence.names == tuple(COLUMNS)
    found = dict(zip(evidence.names, evidence.columns(np.array([0, 0]), np.array([2, 3])).T.tolist(), strict=True))
    log = np.log
    assert found["vectors"] == [5, 7]
    np.testing.assert_allclose(found["log_degree_sum"], [log(2) + log(3)] * 2)
    np.testing.assert_allclose(found["log_degree_difference"], [log(3) - log(2)] * 2)
    np.testing.assert_allclose(found["log_degree_min"], [log(2)] * 2)
    assert found["has_no_neighbour"] == [0, 0]
    assert (found["common_neighbours"], found["has_common_neighbour"]) == ([1, 0], [1, 0])
    np.testing.assert_allclose(found["resource_allocation"], [0.5, 0])
    np.testing.assert_allclose(found["l3"], [0, 0.5])
    np.testing.assert_allclose(found["l3_by_degree"], [0, 0.5 / 6**0.5])
    assert found["has_l3"] == [0, 1]
    assert found[FEATURE_COLUMN] == [1, -1]


def test_cosines_of_sparse_and_dense_features_agree():
    graph = clustered_graph()
    import scipy.sparse as sp

    sparse = Graph(graph.adjacency, sp.csr_array(graph.features))
    ends = np.random.default_rng(0).integers(0, 240, (2, 50))
    np.testing.assert_allclose(feature_cosines(graph, *ends), feature_cosines(sparse, *ends), rtol=1e-5)


def test_vectors_that_know_nothing_are_passed_over(split):
    choice = choose_scorer("auto", evidence_of(split), split.validation)
    assert choice.chosen == "combined"
    assert choice.combined_auc > choice.vectors_auc + 0.2
    sources, targets, is_edge = split.test.endpoints()
    assert link_scores(is_edge, choice.combined(None, sources, targets)).auc > 0.9
    assert choice.describe()["scorer"] == "combined"


def test_vectors_that_know_all_are_kept(split):
    links = {tuple(sorted(pair)) for pair in [*split.validation.positive.tolist(), *split.test.positive.tolist()]}

    def know(_, sources, targets):
        return np.array(
            [float(tuple(sorted(p)) in links) for p in zip(sources.tolist(), targets.tolist(), strict=True)]
        )

    evidence = LinkEvidence(split.train, np.zeros((240, 1)), know, split.train)
    choice = choose_scorer("auto", evidence, split.validation)
    assert (choice.chosen, choice.vectors_auc) == ("vectors", 1.0)
    assert choose_scorer("combined", evidence, split.validation).chosen == "combined"


def test_a_held_out_edge_never_enters_a_column(tmp_path):
    """The columns of a store without its held-out edges are those of a graph that never had them."""
    graph = clustered_graph()
    held = split_edges(graph, seed=0)
    vectors = np.random.default_rng(1).normal(size=(240, 4))
    stored = write_graph(graph, tmp_path / "store")
    view = TrainingGraph(stored, held.rule, held.num_edges)
    sources, targets, _ = held.test.endpoints()
    from_store, from_memory, leaked = (
        LinkEvidence(each, vectors, score_inner_products, features).columns(sources, targets)
        for each, features in ((view, stored), (split_links(graph, seed=0).train, graph), (graph, graph))
    )
    np.testing.assert_allclose(from_store, from_memory, rtol=1e-4, atol=1e-4)
    assert not np.allclose(leaked, from_memory, rtol=1e-2, atol=1e-2)


def test_too_few_validation_pairs():
    graph = clustered_graph()
    few = Pairs(np.array([[0, 1]]), np.array([[0, 100]]))
    evidence = LinkEvidence(graph, np.ones((240, 1)), score_inner_products, None)
    assert FEATURE_COLUMN not in evidence.names
    assert choose_scorer("auto", evidence, few).describe()["validation_auc"] == {"vectors": None, "combined": None}
    with pytest.raises(InputError, match="at least 10"):
        choose_scorer("combined", evidence, few)


def test_weights_survive_json_and_a_constant_column(split):
    evidence = evidence_of(split)
    sources, targets, is_edge = split.validation.endpoints()
    values = evidence.columns(sources, targets)
    values[:, evidence.names.index("has_no_neighbour")] = 0
    scorer = LinkScorer.fit(evidence.names, values, is_edge)
    again = LinkScorer.from_dict(json.loads(json.dumps(scorer.to_dict())))
    np.testing.assert_array_equal(again.score(values), scorer.score(values))
    with pytest.raises(ValueError, match="columns"):
        LinkScorer.from_dict({"intercept": 0, "columns": {"other": [0, 1, 1]}})


def test_vectors_that_know_the_pairs_are_judged_by_what_they_would_have_known(noisy):
    """Vectors whose weights were fitted to the validation pairs would win by what they were told."""
    split = split_links(noisy, seed=0)
    evidence = evidence_of(split)
    own = choose_scorer("auto", evidence, split.validation)
    assert choose_scorer("auto", evidence, split.validation, crossed_auc=0.0).chosen == "combined"
    told = choose_scorer("auto", evidence, split.validation, crossed_auc=1.0)
    assert told.chosen == "vectors"
    assert told.describe()["validation_auc"] == {"vectors": 1.0, "combined": own.combined_auc}
