"""New nodes: known vectors stay to the bit, and new ones land where they would have been."""

from dataclasses import replace
from functools import cache

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from l2g2g import GAE, GAEL2G, L2G2G, VGAE, VL2G2G, FastGAE, InputError
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph, NewNodes
from l2g2g.graphs.splits import Pairs, sample_non_edges
from l2g2g.runs.new_nodes import NewNodeWarning, embed_new_nodes, share_patches

NUM_NEW = 12
CASES = {
    "gae": GAE(dim=4, epochs=40),
    "vgae": VGAE(dim=4, epochs=40),
    "fastgae": FastGAE(dim=4, epochs=40),
    "whole pass": L2G2G(dim=4, patches=3, epochs=40),
    "mean of patches": L2G2G(dim=4, patches=3, epochs=40, assembly="mean", rotate=True, translate=True),
    "separate encoders": GAEL2G(dim=4, patches=3, epochs=40),
    "variational": VL2G2G(dim=4, patches=3, epochs=40),
    "accurate": L2G2G(dim=8, patches=3, epochs=40, preset="accurate"),
    "paper": L2G2G(dim=4, patches=3, epochs=40, lr=0.01, preset="paper"),
    "blended": GAE(dim=4, epochs=40, structure="blend"),
}

QUICK = ("gae", "whole pass", "mean of patches", "separate encoders")


@pytest.fixture(scope="module")
def mixed(noisy):
    """The noisy graph with its last nodes drawn from all blocks."""
    order = np.random.default_rng(0).permutation(noisy.num_nodes)
    return noisy.induce(order)


@pytest.fixture(scope="module")
def known(mixed):
    return mixed.induce(np.arange(mixed.num_nodes - NUM_NEW))


@pytest.fixture(scope="module")
def fitted(known):
    """A model of the known nodes by its name in CASES, trained once."""
    return cache(lambda case: clone(CASES[case]).fit(known))


def links_of_new(graph, num_known):
    """Links of new nodes, and as many pairs of them without one."""
    edges = np.stack(graph.edges(), axis=1).astype(np.int64)
    other = sample_non_edges(graph, 2000, np.random.default_rng(1))
    edges, other = (pairs[pairs[:, 1] >= num_known] for pairs in (edges, other))
    return Pairs(edges, other)


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_known_vectors_stay_and_new_ones_find_their_neighbours(mixed, known, fitted, case):
    model = fitted(case)
    vectors = model.transform(mixed)
    assert vectors.shape == (mixed.num_nodes, model.config_.dim)
    assert vectors.dtype == np.float32
    assert (vectors[: known.num_nodes] == model.embedding_).all()
    pairs = links_of_new(mixed, known.num_nodes)
    scorer = None
    if model.config_.decoder == "product":
        scorer = model.fitted.model.decoder.score
    here = evaluate_links(vectors, pairs, scorer).auc
    spoiled = vectors.copy()
    spoiled[known.num_nodes :] = np.roll(vectors[known.num_nodes :], 5, axis=0)
    assert here > 0.62
    assert here > evaluate_links(spoiled, pairs, scorer).auc + 0.05


@pytest.mark.parametrize(
    "case", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in ("paper", "blended"))]
)
def test_a_copy_of_a_known_node_lands_on_it(known, fitted, case):
    """New nodes with the features and neighbours of known ones; patches and frames must be the same for both."""
    model = fitted(case)
    nodes = np.arange(0, known.num_nodes, 7)
    twins = NewNodes(
        sp.csr_array(known.adjacency[nodes]),
        sp.csr_array((len(nodes), len(nodes)), dtype=np.float32),
        known.features[nodes],
    )
    found, wanted = model.transform(twins), model.embedding_[nodes]
    # A twin does not see itself among its neighbours' neighbours, and they have one neighbour more.
    apart = np.linalg.norm(found - wanted, axis=1)
    others = np.linalg.norm(found - np.roll(wanted, 1, axis=0), axis=1)
    assert apart.mean() < 0.4 * others.mean()
    assert (apart < others).mean() > 0.85


def test_only_new_edges_and_features_are_needed(mixed, known):
    model = GAE(dim=4, epochs=10).fit(known)
    wanted = model.transform(mixed)[known.num_nodes :]
    new, old = np.arange(known.num_nodes, mixed.num_nodes), np.arange(known.num_nodes)
    assert (model.transform(mixed[np.ix_(new, old)]) == wanted).all()
    # Edges between known nodes and features of theirs are not looked at.
    sources, targets = mixed.edges()
    touched = targets >= known.num_nodes
    features = mixed.features.copy()
    features[: known.num_nodes] = 0
    only = replace(mixed.with_edges(sources[touched], targets[touched]), features=features)
    assert (model.transform(only)[known.num_nodes :] == wanted).all()
    alone = model.transform((mixed.adjacency[new][:, old], mixed.features[new]))
    assert alone.shape == (NUM_NEW, 4)


def test_ids_tell_who_is_known(tmp_path):
    ring = nx.relabel_nodes(nx.circulant_graph(40, [1, 2]), {node: f"n{node}" for node in range(40)})
    model = GAE(dim=3, epochs=5).fit(ring)
    grown = nx.Graph([("new", "n3"), ("n3", "n7"), ("new", "n4")])
    found = model.transform(grown)
    assert (found[1] == model.embedding_[3]).all()
    assert (found[[2, 3]] == model.embedding_[[7, 4]]).all()
    assert np.isfinite(found[0]).all()
    model.save(tmp_path)
    assert (GAE.load(tmp_path).transform(grown) == found).all()


def test_structure_alone_needs_a_way_to_known_nodes(mixed):
    known, new = np.arange(100), np.arange(100, 120)
    plain = replace(mixed, features=None)
    model = L2G2G(dim=4, patches=2, epochs=40).fit(plain.induce(known))
    vectors = model.transform(plain)
    pairs = links_of_new(plain, 100)
    assert evaluate_links(vectors, pairs).auc > 0.7
    with pytest.raises(InputError, match="no edge leads to a known node"):
        model.transform(plain.induce(new), new_graph=True)
    new_nodes = plain[np.ix_(new, known)]
    cut = sp.csr_array(new_nodes.to_known)
    cut.data[: cut.indptr[1]] = 0
    cut.eliminate_zeros()
    lost = replace(new_nodes, to_known=cut, among=sp.csr_array((20, 20), dtype=np.float32))
    with pytest.warns(NewNodeWarning, match="1 new nodes are linked to no known one"):
        assert np.isfinite(embed_new_nodes(model.fitted, lost)).all()


@pytest.mark.parametrize("case", ["gae", "whole pass", "separate encoders"])
def test_an_entirely_new_graph_with_the_same_features(mixed, case):
    """Two graphs without a common node, whose features say which block a node is in."""
    generator, half = np.random.default_rng(0), mixed.num_nodes // 2
    features = (
        np.eye(4)[mixed.labels] @ generator.normal(size=(4, 12)) + 0.3 * generator.normal(size=(120, 12))
    ).astype("f4")
    told = replace(mixed, features=features)
    first, second = told.induce(np.arange(half)), told.induce(np.arange(half, told.num_nodes))
    model = CASES[case].fit(first)
    vectors = model.transform(second, new_graph=True)
    pairs = Pairs(
        np.stack(second.edges(), axis=1).astype(np.int64), sample_non_edges(second, 200, np.random.default_rng(0))
    )
    assert evaluate_links(vectors, pairs).auc > 0.65
    if case == "gae":  # no patch, no neighbour that is known: the encoder alone
        again = model.transform(second.induce(np.arange(second.num_nodes)[::-1]), new_graph=True)[::-1]
        assert again == pytest.approx(vectors, abs=1e-5)


def test_what_does_not_fit_the_model_is_refused(mixed, known):
    model = GAE(dim=4, epochs=2).fit(known)
    with pytest.raises(InputError, match="has 0 features, the model was trained on 12"):
        model.transform(Graph(mixed.adjacency))
    with pytest.raises(InputError, match="50 nodes that no ids tell apart"):
        model.transform(mixed.induce(np.arange(50)))
    assert (model.transform(Graph(known.adjacency)) == model.embedding_).all()  # nobody is new: nothing is needed


def test_patches_are_shared_out_by_neighbours():
    membership = sp.csr_array(np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]))
    to_known = sp.csr_array(np.array([[1.0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 2]], np.float32))
    among = np.zeros((5, 5), np.float32)
    among[0, 1] = among[1, 0] = among[1, 2] = among[2, 1] = 1
    shares = share_patches(membership, NewNodes(to_known, sp.csr_array(among)))
    assert shares[0].tolist() == [0.75, 0.25, 0]
    assert (shares[[1, 2]] == shares[0]).all()  # heard of through others, one after the other
    assert shares[3] == pytest.approx(np.full(3, 1 / 3))  # nobody leads to it
    assert shares[4].tolist() == [0, 0, 1]
