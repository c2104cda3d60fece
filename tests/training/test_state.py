"""The state of a training: captured and restored without the loss of a bit, whatever happened before."""

import math

import numpy as np
import pytest
import torch

from l2g2g.alignment.frame import Frame
from l2g2g.config import make_config
from l2g2g.errors import NumericalError
from l2g2g.graphs.datasets import load_dataset
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.training import loop
from l2g2g.training.adam import Adam
from l2g2g.training.state import LoopState, Recovery, embedding_trouble, loss_trouble


def fresh(seed=0):
    model = Autoencoder(6, 3, num_encoders=2, hidden=4, learn_bias=True, feature_mean=torch.ones(6), seed=seed)
    frame = Frame.identity(2, 3)
    return LoopState(model, Adam(model.parameters(), 0.1), frame, Recovery(model, frame))


def step(state, epoch):
    for parameter in state.model.parameters():
        parameter.grad = torch.full_like(parameter, 0.1 * (epoch + 1))
    state.optimiser.step()
    state.frame = Frame(state.frame.rotations, state.frame.translations + epoch, state.frame.scales)
    state.history.losses.append(1 / (epoch + 3))
    state.history.epoch_seconds.append(0.1)


def moved(with_best=True):
    state = fresh()
    for epoch in range(3):
        step(state, epoch)
    good = state.recovery.keep(state.frame)
    if with_best:
        state.best_model, state.best_frame, state.best_score = good, state.frame, 1 / 3
        state.history.best_epoch, state.waited = 3, 2
        state.history.validations = [(3, 1 / 3)]
    step(state, 3)
    state.history.losses[1] = math.nan
    state.recovery.count, state.recovery.rate_factor, state.recovery.trouble = 2, 0.3**2, "the loss became nan"
    return state


def bits(state):
    tensors, values = state.capture()
    return {name: (value.shape, value.numpy().tobytes()) for name, value in tensors.items()}, values


@pytest.mark.parametrize("with_best", [True, False])
def test_what_is_restored_is_what_was_captured(with_best):
    state, other = moved(with_best), fresh(seed=5)
    other.restore(*state.capture())
    assert bits(other) == bits(state)
    assert other.history.resumed_from_epoch == other.epoch == 4
    # ... and goes on as the first would have gone on.
    for each in (state, other):
        step(each, 4)
        each.frame = each.recovery.go_back("trouble", 5, each.optimiser)
        step(each, 5)
    assert bits(other) == bits(state)


def test_the_best_state_is_kept_once_where_it_is_the_last_good_one():
    state = moved()
    assert not any(name.startswith("best.") for name in state.capture()[0])
    state.recovery.keep(state.frame)
    other = fresh()
    other.restore(*state.capture())
    assert bits(other) == bits(state)
    name = "encoders.0.weights.0"
    assert torch.equal(other.best_model[name], state.best_model[name])
    assert not torch.equal(other.best_model[name], other.recovery.state[name])


def test_training_that_goes_on_does_not_change_what_was_captured():
    state = moved()
    tensors, _ = state.capture()
    before = {name: value.clone() for name, value in tensors.items()}
    step(state, 4)
    state.recovery.keep(state.frame)
    assert all(tensors[name].numpy().tobytes() == value.numpy().tobytes() for name, value in before.items())
    assert tensors["adam.steps.0"] == 4


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("history.losses", lambda value: value[None]),
        ("history.losses", lambda value: value[:-1]),
        ("history.validations", lambda value: value.T.contiguous().repeat(1, 3)),
        ("frame.rotations", lambda value: value[:1]),
        ("good_frame.scales", lambda value: value[None]),
        ("good.encoders.0.weights.0", lambda value: value[:1]),
        ("model.encoders.0.weights.0", lambda value: value[:1]),
        ("adam.means.0", lambda value: value.flatten()[:2]),
    ],
)
def test_tensors_of_other_shapes_are_not_restored(name, change):
    tensors, values = moved().capture()
    with pytest.raises((KeyError, TypeError, ValueError, RuntimeError)):
        fresh().restore({**tensors, name: change(tensors[name])}, values)


@pytest.mark.parametrize("change", [{"epoch": 7}, {"waited": math.inf}, {"recoveries": None}, {"best_epoch": "x"}])
def test_values_that_make_no_sense_are_not_restored(change):
    tensors, values = moved().capture()
    with pytest.raises((KeyError, TypeError, ValueError, OverflowError)):
        fresh().restore(tensors, {**values, **change})


# --- trainings that collapse or explode ---------------------------------------------------------------


def test_what_counts_as_trouble():
    assert loss_trouble(1.0, 1.4) is None
    assert loss_trouble(math.nan, 1.4) == "the loss became nan"
    assert "grew" in loss_trouble(1e4, 1.4)
    vectors = torch.randn(10, 3)
    assert embedding_trouble(vectors) is None
    assert embedding_trouble(torch.ones(10, 3)) == "all vectors became the same"
    assert embedding_trouble(torch.zeros(10, 3)) == "all vectors became the same"
    assert "finite" in embedding_trouble(vectors / 0)


def test_a_loss_that_fails_once_is_survived(monkeypatch):
    real, calls = loop.accumulate_gradients, []

    def fails_in_epoch_seven(*arguments):
        calls.append(1)
        return math.nan if len(calls) == 7 else real(*arguments)

    monkeypatch.setattr(loop, "accumulate_gradients", fails_in_epoch_seven)
    row, run = evaluate_graph(load_dataset("sbm-small"), make_config("gae", epochs=20, seed=0, structure="none"))
    assert row["recoveries"] == 1
    assert np.isfinite(run.embedding).all()
    assert row["auc"] > 0.7


def test_a_loss_that_always_fails_is_reported(monkeypatch):
    monkeypatch.setattr(loop, "accumulate_gradients", lambda *arguments: math.inf)
    with pytest.raises(NumericalError, match=r"the loss became inf in epoch 4.*lower the learning rate"):
        evaluate_graph(load_dataset("sbm-small"), make_config("gae", epochs=20, seed=0, structure="none"))
