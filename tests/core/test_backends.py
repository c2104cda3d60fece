"""Backends: a whole training by the native core and by the torch reference gives the same losses and vectors."""

from dataclasses import replace

import numpy as np
import pytest

from l2g2g import core
from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.graphs.splits import split_links
from l2g2g.runs.training import run_split

pytest.importorskip("l2g2g.core._native")
pytestmark = pytest.mark.usefixtures("usual_backend")


@pytest.mark.parametrize(
    ("method", "preset", "options"),
    [
        ("gae", "paper", {}),
        ("gae", "default", {}),
        ("gae", "default", {"decoder": "distance"}),
        ("gae", "default", {"negative_sampling": "degree"}),
        ("fastgae", "default", {}),
        ("gae+l2g", "paper", {"patches": 3, "dim": 4}),
        ("l2g2g", "default", {"patches": 3}),
        ("l2g2g", "accurate", {"patches": 3, "dim": 16}),
        ("vl2g2g", "default", {"patches": 3}),
    ],
)
def test_native_and_torch_train_alike(planted, method, preset, options):
    split = split_links(planted, seed=0)
    runs = []
    for backend in ("native", "torch"):
        config = make_config(method, preset, epochs=4, backend=backend, partition="metis", **options)
        runs.append(run_split(split, config))
    native, torch = (np.array(run.trained.history.losses) for run in runs)
    assert native == pytest.approx(torch, rel=1e-4)
    vectors = [run.embedding for run in runs]
    if options.get("decoder") == "distance":  # no distance sees a common shift, so that rounding decides it
        vectors = [each - each.mean(0) for each in vectors]
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-3 * np.abs(vectors[1]).max() + 1e-4


def test_fennel_and_overlaps_of_both_backends_are_the_same(planted):
    cuts = []
    for backend in ("native", "torch"):
        config = make_config("l2g2g", "paper", epochs=1, patches=3, dim=4, backend=backend)
        cuts.append(run_split(split_links(planted, seed=0), config).patch_set)
    assert (cuts[0].global_nodes == cuts[1].global_nodes).all()
    assert (cuts[0].offsets == cuts[1].offsets).all()


def test_native_is_refused_where_the_core_is_not_built(planted, monkeypatch):
    monkeypatch.setattr(core, "_native", None)
    with pytest.raises(InputError, match="not built"):
        run_split(split_links(planted, seed=0), make_config("gae", epochs=1, backend="native"))


def test_a_missing_core_is_told_once(planted, monkeypatch, caplog):
    from l2g2g.runs import resources

    monkeypatch.setattr(core, "_native", None)
    resources._warn_of_missing_core.cache_clear()
    split, config = split_links(planted, seed=0), make_config("gae", epochs=1, patience=0)
    for seed in (0, 1):
        run_split(split, replace(config, seed=seed))
    assert [record.getMessage() for record in caplog.records].count(resources.NO_NATIVE_CORE) == 1
