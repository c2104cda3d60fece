"""Invariant 1 of DESIGN.md 3.4: given the same patches and input columns, draws and one-epoch loss and gradient agree
between memory, disk and several ranks, for every option that changes them. The table is option x storage."""

from pathlib import Path

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import write_graph
from l2g2g.runs import sources
from l2g2g.runs.budget import Needs
from l2g2g.runs.embed import embed_graph

from .invariant_jobs import OPTIONS, SAME, SMALL, make_graph, run

pytestmark = pytest.mark.slow

PLENTY = 10**11
STORAGES = ["disk", "2 ranks", "3 ranks"]
# Columns made from the structure, and principal directions, are found by sums in another order.
TOLERANCE = {"structure": 1e-3, "feature width": 1e-4, "feature storage": 1e-4}
TOLERANCE |= {"gae structure": 1e-3, "gae feature storage": 1e-4}


def launch(processes, num_ranks, names, folder):
    script = Path(__file__).with_name("invariant_jobs.py")
    processes.run_ranks(num_ranks, script, folder, *names, timeout=600)
    found = {}
    for number, name in enumerate(names):
        parts = [dict(np.load(folder / f"{number}-{rank}.npz")) for rank in range(num_ranks)]
        losses, nodes = parts[0].pop("losses"), parts[0].pop("nodes")
        for part in parts[1:]:
            del part["losses"], part["nodes"]
        found[name] = losses, nodes, parts
    return found


def told(done, gradient):
    return np.array(done.trained.history.losses), done.patch_set.global_nodes, [gradient]


@pytest.fixture(scope="module")
def memory():
    return {name: told(*run(OPTIONS.get(name, {}))) for name in ["none", *OPTIONS]}


@pytest.fixture(scope="module")
def others(processes, tmp_path_factory):
    """(losses, patches, gradients of every rank) by storage and option."""
    found = {"disk": {}}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "fits_memory", lambda *_: False)
        patched.setattr(Needs, "spare", lambda *_: 0)  # nothing stays in memory
        for number, (name, options) in enumerate(OPTIONS.items()):
            stored = write_graph(make_graph(), tmp_path_factory.mktemp("disk") / str(number))
            found["disk"][name] = told(*run(options, stored, memory=PLENTY))
    for num_ranks in (2, 3):
        found[f"{num_ranks} ranks"] = launch(processes, num_ranks, list(OPTIONS), tmp_path_factory.mktemp("ranks"))
    return found


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_changes_the_loss(memory, name):
    losses, base = memory[name][0], memory[SAME.get(name, "none")][0]
    if name in SAME:
        np.testing.assert_allclose(losses, base, rtol=1e-5)
        base = memory["none"][0]
    assert not np.allclose(losses, base, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("where", STORAGES)
def test_patches_loss_and_gradient_agree_between_storages_and_ranks(memory, others, where, name):
    losses, nodes, (expected,) = memory[name]
    found_losses, found_nodes, gradients = others[where][name]
    np.testing.assert_array_equal(found_nodes, nodes)
    tolerance = TOLERANCE.get(name, 1e-5)
    np.testing.assert_allclose(found_losses, losses, rtol=tolerance)
    assert set(gradients[0]) == set(expected)
    separate = OPTIONS[name].get("share_encoder") is False or OPTIONS[name].get("method") == "gae+l2g"
    difference = size = 0.0
    for part, gradient in expected.items():
        own = [each[part] for each in gradients]
        if separate and part.startswith("encoders."):  # of which every rank has its own
            own = [sum(own)]
        for other in own[1:]:
            np.testing.assert_array_equal(other, own[0])  # ranks stay together
        difference += float(np.square(own[0] - gradient).sum())
        size += float(np.square(gradient).sum())
    assert difference**0.5 < max(1e-5, 10 * tolerance if name in TOLERANCE else 0) * size**0.5


def test_the_split_is_that_of_memory(tmp_path):
    graph = make_graph()
    one, other = split_links(graph, seed=3), split_links(write_graph(graph, tmp_path / "store"), seed=3)
    np.testing.assert_array_equal(one.test.positive, other.test.positive)
    np.testing.assert_array_equal(one.validation.negative, other.validation.negative)
    assert (one.train.adjacency != other.train.to_graph().adjacency).nnz == 0


def test_the_empty_cells(tmp_path, monkeypatch):
    """What needs all patches at once is refused from disk and on ranks; see `check_settings` for ranks."""
    monkeypatch.setattr(sources, "fits_memory", lambda *_: False)
    stored = write_graph(make_graph(), tmp_path / "store")
    config = make_config(**SMALL, rotate=True, align_gradient="through", memory=PLENTY)
    with pytest.raises(InputError, match="--align-gradient through needs all patches"):
        embed_graph(stored, config)
