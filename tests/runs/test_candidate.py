"""Candidates: one candidate has batches at a time, and a paused one goes on as if nothing had happened."""

import weakref
from dataclasses import replace

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.graphs.splits import split_links
from l2g2g.parallel.communicator import LOCAL
from l2g2g.runs.candidate import Candidates
from l2g2g.runs.patches import find_patches
from l2g2g.runs.resources import Stopwatch
from l2g2g.runs.spectral import StructuralColumns
from l2g2g.runs.training import run_split

SMALL = {"dim": 8, "hidden": 16, "patches": 3, "threads": 1}


@pytest.fixture
def noise(planted):
    """Features that say nothing: blending is tried."""
    return replace(planted, features=np.random.default_rng(1).normal(size=(planted.num_nodes, 12)).astype(np.float32))


@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_no_two_candidates_are_in_memory(noise, monkeypatch, method):
    begun = []
    begin = Candidates.begin

    def watch(self, *arguments):
        assert [each for each in begun if each() is not None] == []
        candidate = begin(self, *arguments)
        begun.extend(map(weakref.ref, (candidate, candidate.batches, candidate.training)))
        return candidate

    monkeypatch.setattr(Candidates, "begin", watch)
    options = {"structure_width": 8, "negative_sampling": "auto", "epochs": 40}
    run = run_split(split_links(noise), make_config(method, **options, **SMALL))
    assert {"blend, short", "degree, short"} <= set(run.chosen["validation_auc"])
    assert len(begun) >= 9


@pytest.mark.parametrize("options", [{}, {"method": "gae+l2g"}, {"method": "vgae"}], ids=str)
def test_a_paused_training_goes_on_to_the_same_weights(planted, options):
    config = make_config(**{"method": "l2g2g", "epochs": 12, "structure": "none", **SMALL, **options})
    split, clock = split_links(planted), Stopwatch()
    patches = find_patches(split.train, config, clock)
    candidates = Candidates(split, patches, None, None, LOCAL, StructuralColumns(split.train, config, LOCAL), clock)
    straight = candidates.begin(config).training
    straight.run()
    paused = candidates.begin(config)
    paused.training.run(5)
    resumed = candidates.resume(paused.pause()).training
    assert resumed.state.epoch == 5
    resumed.run()
    assert resumed.state.history.losses == straight.state.history.losses
    assert resumed.state.history.resumed_from_epoch == 0
    for name, value in straight.finish().model.state_dict().items():
        assert (resumed.finish().model.state_dict()[name] == value).all(), name


def test_eigenvectors_are_not_sought_where_the_features_explain_the_structure(planted, noise):
    config = make_config("l2g2g", structure_width=8, epochs=20, **SMALL)
    tried = {
        name: set(run_split(split_links(graph), config).chosen["validation_auc"])
        for name, graph in (("blocks", planted), ("noise", noise))
    }
    assert {"none, short", "spectral, rough"} <= tried["blocks"]
    assert not tried["blocks"] & {"spectral", "blend, short"}
    assert {"spectral", "blend, short"} <= tried["noise"]
