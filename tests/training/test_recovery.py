"""Trainings that collapse or explode come back, or say so."""

import math

import numpy as np
import pytest
import torch

from l2g2g.config import make_config
from l2g2g.errors import NumericalError
from l2g2g.graphs.datasets import load_dataset
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.training import loop
from l2g2g.training.recovery import embedding_trouble, loss_trouble


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
