"""Warm start: training goes on in the old coordinates, and says how far known nodes went."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from l2g2g import GAE, GAEL2G, L2G2G, InputError
from l2g2g.config import make_config
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Pairs, sample_non_edges
from l2g2g.models.decoders.factors import AsymmetricDecoder, SignedDecoder
from l2g2g.runs import training
from l2g2g.runs.degree_term import TermTrial, TermWeights
from l2g2g.runs.warm_start import check_continues, find_rotation, find_turn


@pytest.fixture(scope="module")
def grown(noisy):
    return noisy.induce(np.random.default_rng(0).permutation(noisy.num_nodes))


@pytest.fixture(scope="module")
def before(grown):
    return grown.induce(np.arange(100))


def test_a_rotation_is_found_again():
    generator = np.random.default_rng(0)
    turn = np.linalg.qr(generator.normal(size=(5, 5)))[0].astype("f4")
    vectors = generator.normal(size=(40, 5)).astype("f4")
    assert find_rotation(vectors @ turn, vectors) == pytest.approx(turn.T, abs=1e-5)


def test_only_coordinates_of_one_weight_are_mixed():
    generator = np.random.default_rng(0)
    decoder = SignedDecoder(6)
    decoder.weights.data[:] = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, 9.0])
    turn = np.zeros((6, 6), "f4")
    turn[:3, :3], turn[3:5, 3:5] = (np.linalg.qr(generator.normal(size=(size, size)))[0] for size in (3, 2))
    turn[5, 5] = -1
    vectors = generator.normal(size=(40, 6)).astype("f4")
    assert find_turn(decoder, vectors @ turn, vectors) == pytest.approx(turn.T, abs=1e-5)
    ends = np.arange(20), np.arange(20, 40)
    assert decoder.score(vectors @ turn, *ends) == pytest.approx(decoder.score(vectors, *ends), abs=1e-4)
    assert find_turn(AsymmetricDecoder(6), vectors, vectors) is None


def test_a_term_of_the_degree_that_stays_is_not_declined(before, grown, monkeypatch):
    trial = TermTrial(0.5, 0.9, np.eye(8)[:, :6], TermWeights(1.0, 0.0, (0.0, 0.0, 0.5, 0.0)))
    monkeypatch.setattr(training, "try_term", lambda *_, **__: trial)
    model = L2G2G(dim=8, hidden=8, patches=2, epochs=5, structure="none").fit(before)
    assert model.config_.decoder == "signed"
    with pytest.raises(InputError, match="leave --no-degree-term out"):
        model.set_params(degree_term=False).partial_fit(grown)
    assert model.set_params(degree_term=True).partial_fit(grown).config_.decoder == "signed"


TRAINED = [{"structure": "none"}, {"structure": "blend"}, {"structure": "none", "preset": "accurate"}]


@pytest.mark.parametrize("options", TRAINED, ids=str)
def test_training_goes_on_and_reports_what_moved(grown, before, options):
    model = L2G2G(dim=8, hidden=8, patches=2, epochs=40, **options).fit(before)
    published, weights = model.embedding_.copy(), model.fitted.model.state_dict()
    kept = {name: value.clone() for name, value in weights.items()}
    model.set_params(epochs=15)
    fitted = model.fitted
    assert model.partial_fit(grown) is model
    assert all((kept[name] == value).all() for name, value in fitted.model.state_dict().items())  # the old run stays
    moved = model.movement_
    assert (moved.num_known, moved.num_new) == (100, 20)
    assert 0 < moved.num_unchanged < 100
    unchanged = np.flatnonzero(grown.degrees[:100] == before.degrees)
    assert moved.num_unchanged == len(unchanged)
    distances = np.linalg.norm(model.embedding_[unchanged] - published[unchanged], axis=1)
    assert moved.mean == pytest.approx(distances.mean(), rel=1e-5)
    cold = L2G2G(dim=8, hidden=8, patches=2, epochs=40, seed=1, **options).fit(grown).embedding_[unchanged]
    assert distances.mean() < 0.7 * np.linalg.norm(cold - published[unchanged], axis=1).mean()
    pairs = Pairs(np.stack(grown.edges(), axis=1).astype(int), sample_non_edges(grown, 500, np.random.default_rng(0)))

    assert evaluate_links(model.embedding_, pairs, model.fitted.model.decoder.score).auc > 0.7
    assert model.embedding_.shape == (120, 8)
    assert (model.transform(grown) == model.embedding_).all()


def test_spectral_vectors_go_on_with_the_decoder_that_they_have(grown, before):
    model = L2G2G(dim=8, preset="accurate", structure="spectral", epochs=5).fit(before)
    assert model.config_.decoder == "inner"
    model.partial_fit(grown)
    assert (model.config_.decoder, model.embedding_.shape) == ("inner", (120, 8))


def test_new_nodes_after_a_warm_start_are_turned_with_the_rest(grown, before):
    """The rotation onto the old vectors must hold for those who come later too: a twin lands on its original."""
    model = GAE(dim=4, epochs=30, lr=0.05).fit(before).partial_fit(grown)
    turn = model.fitted.frame.rotations[0].numpy()
    assert not np.allclose(turn, np.eye(4), atol=1e-3)
    nodes = np.arange(0, 120, 6)
    twins = grown[np.ix_(nodes, np.setdiff1d(np.arange(120), nodes))]
    twins = replace(twins, to_known=grown.adjacency[nodes], among=twins.among * 0, features=grown.features[nodes])
    found, wanted = model.transform(twins), model.embedding_[nodes]
    others = np.linalg.norm(found - np.roll(wanted, 1, axis=0), axis=1)
    assert np.linalg.norm(found - wanted, axis=1).mean() < 0.4 * others.mean()


def test_the_first_partial_fit_is_a_fit(before):
    first, second = GAE(dim=4, epochs=3).partial_fit(before), GAE(dim=4, epochs=3).fit(before)
    assert (first.embedding_ == second.embedding_).all()
    assert first.movement_ is None


def test_the_learning_rate_of_the_run_is_kept(grown, before):
    model = GAE(dim=4, epochs=3).fit(before)
    rate = model.config_.lr
    model.partial_fit(grown)
    assert model.config_.lr == model.fitted.config.lr == rate


def test_what_cannot_go_on_is_refused(grown, before):
    model = GAE(dim=4, epochs=2).fit(before)
    with pytest.raises(InputError, match="the model differs: dim was 4, is 6"):
        model.set_params(dim=6).partial_fit(grown)
    model.set_params(dim=4)
    with pytest.raises(InputError, match="trained on 12"):
        model.partial_fit(Graph(grown.adjacency))
    with pytest.raises(InputError, match="needs the whole graph"):
        model.partial_fit(grown[np.ix_(np.arange(100, 120), np.arange(100))])
    stranger = replace(grown, node_ids=np.array([f"x{node}" for node in range(120)], dtype=object))
    with pytest.raises(InputError, match="none of its nodes is known"):
        model.partial_fit(stranger)
    with pytest.raises(InputError, match=r"one encoder per patch.*align --anchor"):
        GAEL2G(dim=4, patches=2, epochs=2).fit(before).partial_fit(grown)


def test_what_the_run_had_decided_stays():
    config = make_config("gae", structure="auto")
    assert check_continues(replace(config, structure="blend"), config).structure == "blend"


@pytest.mark.slow
def test_columns_that_know_the_edges_are_not_validated_on_them(grown, before):
    """They would tell an edge that is held back from others at once, and training would never end."""
    model = GAE(dim=4, structure="blend", patience=2).fit(before)
    best = model.history_.best_epoch
    assert len(model.history_.validations) > 0
    model.partial_fit(grown)
    assert model.history_.validations == []
    assert model.history_.num_epochs == max(1, round(best / 5))
    assert model.set_params(epochs=2).partial_fit(grown).history_.num_epochs == 2
