"""Patches of a store: used again where the same would be cut, or where `prepare` cut them and no option objects."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from l2g2g import cli
from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import open_graph, write_graph
from l2g2g.patches.store import open_patches
from l2g2g.runs import patches as run_patches
from l2g2g.runs.patches import find_patches
from l2g2g.runs.resources import Stopwatch

CONFIG = make_config(dim=4, patches=3, threads=1)
OPEN = replace(CONFIG, patches=None)
CHANGES = [{"patches": 4}, {"partition": "fennel"}, {"partition": "random"}, {"seed": 1}, {"target_overlap": 12}]
CHANGES += [{"min_overlap": 7}, {"patch_degree": 2.0}]


def cut(store, config):
    """(SHA-256, what the patches were cut by) of the patches that a run would use."""
    found = find_patches(store, config, Stopwatch()).on_disk
    return found.folder.sha256, found.settings


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_patches_that_a_run_cut_serve_only_the_same_cut(noisy, tmp_path, change):
    store = write_graph(noisy, tmp_path / "store")
    first, _ = cut(store, CONFIG)
    assert cut(store, CONFIG)[0] == first
    assert cut(store, OPEN)[0] == first  # a number that nobody asked for
    assert cut(store, replace(CONFIG, **change))[0] != first
    assert cut(store, CONFIG)[0] == first  # whatever was there in between


def test_what_decides_nothing_is_not_compared(noisy, tmp_path):
    store = write_graph(noisy, tmp_path / "store")
    config = replace(CONFIG, partition="fennel")
    first, settings = cut(store, config)
    assert settings["seed"] is None
    assert cut(store, replace(config, seed=7, epochs=3, lr=0.5))[0] == first


def prepare(graph, folder, partition):
    write_graph(graph, folder)
    arguments = ["prepare", str(folder), "--patches", "4", "--dim", "5", "--partition", partition]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    return open_graph(folder), open_patches(folder).folder.sha256


@pytest.mark.parametrize("partition", ["metis", "streaming"])
def test_prepared_patches_serve_settings_that_leave_it_open(noisy, tmp_path, partition):
    store, prepared = prepare(noisy, tmp_path / "store", partition)
    assert cut(store, OPEN)[0] == prepared  # overlaps for 5 dimensions do for 4
    assert cut(store, replace(CONFIG, patches=4, dim=5))[0] == prepared
    if partition == "streaming":
        assert cut(store, replace(OPEN, seed=3))[0] == prepared


@pytest.mark.parametrize("change", [{"dim": 6}, {"partition": "fennel"}, {"seed": 1}, {"patches": 3}], ids=str)
def test_prepared_patches_give_way_to_what_is_asked_for(noisy, tmp_path, change):
    store, prepared = prepare(noisy, tmp_path / "store", "metis")
    assert cut(store, replace(OPEN, **change))[0] != prepared


def test_patches_that_were_too_large_to_be_widened_are_not_cut_again(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    hubs, others = generator.integers(0, 60, 20_000), generator.integers(60, 2400, 20_000)
    far = (others + 4 * generator.integers(1, 100, 20_000)) % 2400
    graph = Graph.from_arcs(np.append(hubs, others), np.append(others, far), num_nodes=2400, name="hubs")
    store = write_graph(graph, tmp_path / "store")
    config = make_config(dim=4, patches=4, threads=1, structure="none", partition="fennel")
    monkeypatch.setattr(run_patches, "resident_memory", lambda: 0)
    wide = find_patches(store, replace(config, memory=10**9), Stopwatch())
    assert wide.patch_set.num_widened > 0
    limit = wide.needs.total - 1
    narrow = find_patches(store, replace(config, memory=limit), Stopwatch())
    assert narrow.patch_set.num_widened == 0
    assert narrow.patch_set.is_cut_badly
    cuts = []
    monkeypatch.setattr(run_patches, "cut_stored", lambda *arguments: cuts.append(arguments))
    again = find_patches(store, replace(config, memory=limit), Stopwatch())
    assert again.digest() == narrow.digest()
    assert cuts == []
    monkeypatch.undo()
    monkeypatch.setattr(run_patches, "resident_memory", lambda: 0)
    # More memory than was refused, or no limit: widened as a new cut would be.
    assert find_patches(store, replace(config, memory=10**9), Stopwatch()).digest() == wide.digest()
