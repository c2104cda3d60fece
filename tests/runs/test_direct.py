"""Direct coordinates: the wider model scores a pair as the trained one does, plus what was weighed."""

from dataclasses import replace

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.graphs.splits import Pairs, split_links
from l2g2g.models.inputs import fit_inputs
from l2g2g.models.structure import DegreeTerm
from l2g2g.runs import training
from l2g2g.runs.direct import DirectWeights, choose_width, direct_auc, fit_direct
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.preparation import FeatureCounts
from l2g2g.runs.training import run_split
from l2g2g.training.rows import TrainingRows
from l2g2g.training.whole_pass import RowSource


@pytest.fixture
def words(noisy):
    """Rows of eleven words or so."""
    return replace(noisy, features=(noisy.features > -1.5).astype(np.float32))


SMALL = {"dim": 16, "patches": 3, "epochs": 8, "threads": 1, "structure": "none", "feature_width": 0}
WEIGHTS = DirectWeights(0.7, 0.8, 1.5, -0.3, 2.0, (0.5, -0.25, 0.125, 1.0))


def pairs_of(graph):
    return np.random.default_rng(0).integers(0, graph.num_nodes, (2, 200))


@pytest.mark.parametrize("scaling", ["centred", "unit"])
def test_scores_are_those_of_the_training_and_what_is_added(words, monkeypatch, scaling):
    split = split_links(words, seed=1)
    config = make_config("l2g2g", "accurate", **SMALL, feature_scaling=scaling)
    seen = {}

    def weigh(model, vectors, term, validation, num_trained, *, seed):
        sources, targets = pairs_of(words)
        own = vectors.copy()
        own[:, num_trained:] = 0
        seen["trained"] = model.decoder.score(own, sources, targets)
        seen["dim"], seen["validation"] = num_trained, validation
        return WEIGHTS

    monkeypatch.setattr(training, "fit_direct", weigh)
    run = run_split(split, config)
    assert run.embedding.shape == (words.num_nodes, 16)
    assert seen["dim"] == 12
    assert seen["validation"] is split.validation
    sources, targets = pairs_of(words)
    found = fit_inputs(RowSource(TrainingRows(split.train)), scaling=scaling, feature_width=2, seed=0)
    directions = found.read_nodes(split.train.read_features(slice(None)), slice(None))
    term = DegreeTerm.blank(split.train.degrees)
    added = replace(term, weights=np.array(WEIGHTS.degrees)).of(split.train.degrees).astype(np.float64)
    expected = 1.5 * seen["trained"] - 0.3 + added[sources] + added[targets]
    expected += 2.0 * (directions[sources] * directions[targets]).sum(axis=1)
    scores = run.trained.model.decoder.score(run.embedding, sources, targets)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    assert run.chosen["direct"] is True
    assert run.chosen["validation_auc"]["direct"] == 0.8


def test_weights_that_do_not_help_leave_the_scores_as_they_are(words, monkeypatch):
    config = make_config("l2g2g", "accurate", **SMALL)
    monkeypatch.setattr(training, "fit_direct", lambda *_, **__: DirectWeights(0.8, 0.8))
    run = run_split(split_links(words, seed=1), config)
    assert (run.embedding[:, 12:] == 0).all()
    assert run.chosen["direct"] is False


def test_what_is_missing_is_found(noisy):
    """An end of every link has no neighbour; the trained score is noise."""
    generator = np.random.default_rng(0)
    degrees = np.where(np.arange(400) < 100, 0, 5)
    links = np.stack([generator.integers(0, 100, 300), generator.integers(0, 400, 300)], axis=1)
    others = generator.integers(100, 400, (300, 2))
    config = make_config("l2g2g", "accurate", **SMALL)
    model = run_split(split_links(noisy, seed=1), config).trained.model
    vectors = generator.normal(size=(400, 16)).astype(np.float32)
    vectors[:, 12:] = 0
    found = fit_direct(model, vectors, DegreeTerm.blank(degrees), Pairs(links, others), 12, seed=0)
    assert found.auc > 0.95 > 0.6 > found.trained_auc
    none, five = replace(DegreeTerm.blank(degrees), weights=np.array(found.degrees)).of(np.array([0, 5]))
    assert none > five + 1
    assert found.features == 0
    same = fit_direct(model, vectors, DegreeTerm.blank(np.full(400, 5)), Pairs(links, others), 12, seed=0)
    assert not same.helps
    assert same.slope == 1
    assert same.degrees == (0, 0, 0, 0)


def test_degrees_of_the_final_graph_count(noisy):
    config = make_config("l2g2g", "accurate", **SMALL)
    run = embed_graph(noisy, config, keep=True)
    term = run.fitted.inputs.degree_term
    np.testing.assert_array_equal(term.degrees, noisy.degrees)


def test_how_many_there_are():
    config = make_config("l2g2g", "accurate")
    words = FeatureCounts(1000, 8000, 3000, 30_000)
    many_arcs = FeatureCounts(1000, 800_000, 300, 30_000)
    assert choose_width(words, 200, config) == 32
    assert choose_width(many_arcs, 200, config) == 2  # compressed
    assert choose_width(None, 200, config) == 2
    assert choose_width(words, 9, config) == 0
    assert choose_width(words, 200, replace(config, direct_width=0)) == 0
    for other in ({"encoder": "sage"}, {"decoder": "inner"}, {"rotate": True}, {"skip": False}):
        assert choose_width(words, 200, make_config("l2g2g", "accurate", **other)) == 0


def test_a_scorer_is_compared_with_cross_fitted_vectors():
    scores = {"trained": 0.7, "direct": 0.8, "degree term": 0.75, "spectral": 0.9}
    chosen = {"vectors": "trained", "validation_auc": scores}
    assert direct_auc(chosen) is None
    assert direct_auc({**chosen, "direct": True}) == 0.8
    assert direct_auc({**chosen, "degree_term": True}) == 0.75
    assert direct_auc({**chosen, "vectors": "spectral", "degree_term": True}) == 0.9
    assert direct_auc({**chosen, "degree_term": False}) is None
