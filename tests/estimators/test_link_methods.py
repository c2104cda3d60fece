import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from l2g2g import GAE, L2G2G, InputError
from l2g2g.estimators.estimator import load_model
from l2g2g.runs.artefact import Artefact, write_artefact


@pytest.fixture(scope="module")
def model(noisy):
    return L2G2G(dim=8, patches=2, epochs=30, seed=0).fit(noisy)


def test_neighbours_are_mostly_of_the_same_block(model, noisy):
    blocks = noisy.features.shape[0] // 30
    found = model.neighbours(np.arange(120), k=5)
    same = found.nodes // 30 == np.arange(120)[:, None] // 30
    assert blocks == 4
    assert same.mean() > 0.5  # a quarter by chance
    assert (found.nodes != np.arange(120)[:, None]).all()


def test_probabilities_tell_edges_from_others(model, noisy):
    sources, targets = noisy.edges()
    edges = model.predict_links(np.stack([sources, targets], axis=1))
    generator = np.random.default_rng(0)
    others = model.predict_links(generator.integers(0, 120, (len(sources), 2)))
    assert ((edges >= 0) & (edges <= 1)).all()
    assert edges.mean() > others.mean() + 0.1


def test_top_links_are_no_edges_and_the_likeliest(model, noisy):
    found = model.top_links(25)
    assert not noisy.adjacency.toarray()[found.sources, found.targets].any()
    np.testing.assert_allclose(
        found.probabilities, model.predict_links(np.stack([found.sources, found.targets], axis=1)), rtol=1e-5
    )
    every = np.stack(np.triu_indices(120, 1), axis=1)
    free = every[noisy.adjacency.toarray()[every[:, 0], every[:, 1]] == 0]
    assert np.sort(model.predict_links(free))[-25] == pytest.approx(found.probabilities[-1], rel=1e-5)


def test_after_loading(model, noisy, tmp_path):
    model.save(tmp_path)
    again = load_model(tmp_path)
    np.testing.assert_array_equal(again.predict_links([(0, 1)]), model.predict_links([(0, 1)]))
    for found in (again.top_links(3), again.top_links(3, noisy)):
        np.testing.assert_array_equal(found.sources, model.top_links(3).sources)


def test_a_model_without_its_edges_asks_for_them(model, noisy, tmp_path):
    held = model._artefact
    arrays = {name: array for name, array in held.arrays.items() if not name.startswith("edge")}
    write_artefact(tmp_path, "embed", Artefact(held.values, held.weights, arrays, "x").contents())
    again = load_model(tmp_path)
    with pytest.raises(InputError, match=r"top_links\(count, graph\)"):
        again.top_links(3)
    np.testing.assert_array_equal(again.top_links(3, noisy).sources, model.top_links(3).sources)


def test_names_in_and_names_out():
    edges = [(i, (i + step) % 40) for i in range(40) for step in (1, 2)]
    import networkx as nx

    graph = nx.Graph([(f"n{a}", f"n{b}") for a, b in edges])
    model = GAE(dim=4, epochs=3).fit(graph)
    found = model.neighbours("n7", k=3)
    assert found.nodes.shape == (1, 3)
    assert all(str(name).startswith("n") for name in found.nodes[0])
    assert model.predict_links([("n1", "n2")]).shape == (1,)
    assert model.top_links(4).sources.dtype == object
    with pytest.raises(InputError, match="no node 'm7'"):
        model.neighbours("m7")


@pytest.mark.parametrize("decoder", ["product", "distance"])
def test_other_decoders(noisy, decoder):
    model = GAE(dim=8, epochs=10, decoder=decoder).fit(noisy)
    found = model.top_links(5)
    pairs = np.stack([found.sources, found.targets], axis=1)
    np.testing.assert_allclose(found.probabilities, model.predict_links(pairs), rtol=1e-4)
    assert model.neighbours(3, k=2, metric="decoder").nodes.shape == (1, 2)


def test_not_before_fit():
    with pytest.raises(NotFittedError):
        GAE().neighbours([0])


def test_directions_count_only_where_the_decoder_knows_them(planted):
    import networkx as nx

    graph = nx.DiGraph([(int(u), int(v)) for u, v in zip(*planted.edges(), strict=True)])
    settings = {"dim": 4, "epochs": 3, "directed": True}
    both = GAE(decoder="inner", **settings).fit(graph).top_links(2000)
    assert not any(graph.has_edge(v, u) for u, v in zip(both.sources, both.targets, strict=True))
    one = GAE(**settings).fit(graph).top_links(2000)
    assert any(graph.has_edge(v, u) for u, v in zip(one.sources, one.targets, strict=True))
    assert not any(graph.has_edge(u, v) for u, v in zip(one.sources, one.targets, strict=True))
