"""Saved models: all that new nodes need comes back to the bit."""

import numpy as np
import pytest

from l2g2g import GAE, GAEL2G, L2G2G
from l2g2g.estimators.estimator import load_model

KINDS = {
    "features": GAE(dim=4, epochs=3),
    "compressed": L2G2G(dim=4, patches=2, epochs=3, preset="accurate", structure="none", hidden=4, feature_width=6),
    "blended": GAE(dim=4, epochs=3, structure="blend"),
    "patches": GAEL2G(dim=4, patches=2, epochs=3),
    "learned decoder": GAE(dim=4, epochs=3, decoder="product"),
    "direct": L2G2G(dim=16, patches=2, epochs=9, preset="accurate", structure="none", feature_width=0),
}


@pytest.fixture(scope="module")
def known(noisy):
    return noisy.induce(np.arange(0, 110))


@pytest.mark.parametrize("kind", KINDS)
def test_new_nodes_get_the_same_vectors_from_a_loaded_model(noisy, known, kind, tmp_path):
    model = KINDS[kind].fit(known)
    wanted = model.transform(noisy)
    assert (model.fitted.inputs.projection is not None) == (kind == "compressed")
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert type(loaded) is type(model)
    assert (loaded.transform(noisy) == wanted).all()
    assert loaded.n_features_in_ == model.n_features_in_ == 12
    assert loaded.score(noisy) == model.score(noisy)
    loaded.set_params(epochs=2).partial_fit(noisy) if kind != "patches" else None


def test_structure_alone_comes_back(plain, tmp_path):
    model = GAE(dim=4, epochs=3).fit(plain.induce(np.arange(110)))
    model.save(tmp_path)
    assert (GAE.load(tmp_path).transform(plain) == model.transform(plain)).all()


def test_edges_and_directions_come_back(tmp_path):
    arcs = np.array([(i, (i + step) % 40) for i in range(40) for step in (1, 2)] + [(1, 0)])
    model = L2G2G(dim=4, patches=2, epochs=3, directed=True).fit((arcs, None))
    model.save(tmp_path)
    known = load_model(tmp_path).published().known
    assert set(zip(*(part.tolist() for part in known.nonzero()), strict=True)) == {tuple(arc) for arc in arcs.tolist()}
    found, wanted = load_model(tmp_path).top_links(5), model.top_links(5)
    assert np.array_equal(found.sources, wanted.sources)
    assert np.array_equal(found.targets, wanted.targets)
