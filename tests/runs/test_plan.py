"""Plans: what they are made of, and that they are near what a run takes."""

import itertools
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from l2g2g import cli
from l2g2g.cli import plan as plan_commands
from l2g2g.config import make_config
from l2g2g.errors import ResourceError
from l2g2g.graphs.formats import AS_FOUND
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store import write_graph
from l2g2g.runs.plan import GraphSizes, Sample, make_plan

LARGE = GraphSizes("large", 2_000_000, 20_000_000, 50, 50.0)


@pytest.fixture
def quick(monkeypatch):
    """Fixed seconds instead of a measurement, in a process of a fixed size: that of these tests grows as they run."""
    seconds = {"split": 0.1, "structure": 0.0, "partition": 1.0, "epoch": 0.1, "validation": 0.05, "assemble": 0.05}
    seconds["first_epoch"] = 0.3
    monkeypatch.setattr(Sample, "measure", lambda self, in_memory: dict(seconds))
    monkeypatch.setattr("l2g2g.runs.plan.resident_memory", lambda: 300_000_000)
    monkeypatch.setattr("l2g2g.runs.plan.available_cores", lambda: 4)
    monkeypatch.setattr("l2g2g.runs.traffic.local_rate", lambda: 1e9)


def test_sizes_of_a_graph_in_memory_and_on_disk_agree(planted, tmp_path):
    stored = write_graph(planted, tmp_path / "store")
    assert GraphSizes.of(planted) == GraphSizes.of(stored)


def test_the_cut_of_a_sample_counts_as_a_good_one():
    """Its edges are drawn without a real graph, so it cannot say how many of them to hide."""
    sample = Sample.of(GraphSizes("some", 200_000, 1_000_000, 8, 8.0), make_config(threads=1))
    assert sample.patch_set.num_patches > 1
    assert not sample.patch_set.is_cut_badly


def test_a_sample_has_the_shape_of_the_graph():
    sizes = GraphSizes("large", 1_000_000, 10_000_000, 30, 30.0)
    sample = Sample.of(sizes, make_config(threads=1))
    graph = sample.graph
    assert graph.num_nodes <= 80_000
    assert 2 * graph.num_edges / graph.num_nodes == pytest.approx(20, rel=0.15)
    assert graph.num_features == 30
    sparse = Sample.of(replace(sizes, sparse=True, entries_per_row=5.0), make_config(threads=1)).graph
    assert sparse.features.nnz / sparse.num_nodes == pytest.approx(5, rel=0.2)


@pytest.mark.slow
def test_time_grows_with_the_graph_and_shrinks_with_ranks(quick):
    config = make_config(threads=1, epochs=100, patience=0)
    small, large = (make_plan(replace(LARGE, num_nodes=n, num_edges=10 * n), config) for n in (10**6, 2 * 10**6))
    assert large.seconds["epoch"] == pytest.approx(2 * small.seconds["epoch"], rel=0.05)
    assert large.seconds["train"] == pytest.approx(100 * large.seconds["epoch"] + large.seconds["first_epoch"])
    assert large.seconds["first_epoch"] == pytest.approx(3 * large.seconds["epoch"])
    for ranks, share in ((2, 1 / 2), (4, 1 / 4), (8, 1 / 4)):  # of eight on four cores half wait
        shared = make_plan(LARGE, config, ranks=ranks).seconds
        assert shared["epoch"] == pytest.approx(share * large.seconds["epoch"] + shared["exchange"])
        assert shared["partition"] == large.seconds["partition"]


@pytest.mark.slow
def test_messages_take_the_time_of_the_network_and_memory_falls_with_ranks(quick):
    config = make_config(threads=1, epochs=10, patience=0)
    stored = replace(LARGE, on_disk=True)  # otherwise the first rank has to read it
    plans = [make_plan(stored, config, ranks=ranks) for ranks in (2, 4, 8, 16)]
    assert all(one.memory_bytes > other.memory_bytes for one, other in itertools.pairwise(plans))
    assert make_plan(LARGE, config).epoch_bytes == make_plan(LARGE, config).seconds["exchange"] == 0
    near, far = (make_plan(LARGE, config, ranks=8, hosts=2, network=rate) for rate in (1e9, 1e8))
    assert near.epoch_bytes == far.epoch_bytes > 0
    # Four ranks of a host share its network; beside the bytes there is the time of the messages.
    assert far.seconds["exchange"] - near.seconds["exchange"] == pytest.approx(4 * near.epoch_bytes * (1e-8 - 1e-9))
    spread = make_plan(LARGE, config, ranks=8, hosts=8, network=1e9)
    assert spread.seconds["exchange"] < near.seconds["exchange"]


@pytest.mark.slow
def test_a_limit_puts_the_graph_on_disk_and_cuts_it_finer(quick):
    free = make_plan(LARGE, make_config(threads=1))
    limited = make_plan(LARGE, make_config(threads=1, memory="3GB"))
    assert free.in_memory
    assert free.disk_bytes == 0
    assert not limited.in_memory
    assert limited.memory_bytes <= 3 * 10**9 < free.memory_bytes
    assert limited.num_patches >= free.num_patches
    assert limited.disk_bytes > 4 * 2 * LARGE.num_edges
    with pytest.raises(ResourceError, match="would do"):
        make_plan(LARGE, make_config(threads=1, memory="600MB"))


@pytest.mark.slow
@pytest.mark.parametrize(("in_memory", "directed"), [(True, False), (False, True)])
def test_a_sample_is_trained(in_memory, directed):
    sizes = GraphSizes("tiny", 600, 2000, 8, 8.0)
    seconds = Sample.of(sizes, make_config(threads=1, dim=4, directed=directed)).measure(in_memory)
    assert seconds.pop("structure") == 0  # the graph has features
    assert seconds.pop("first_epoch") >= 0
    assert set(seconds) == {"split", "partition", "epoch", "validation", "assemble"}
    assert all(value > 0 for value in seconds.values())


def test_on_the_command_line(quick, tmp_path, planted):
    stored = write_graph(planted, tmp_path / "store")
    result = CliRunner().invoke(cli.app, ["plan", str(stored.directory), "--json", "--memory", "50GB", "--ranks", "2"])
    assert result.exit_code == 0, result.exception
    row = json.loads(result.stdout)
    assert {"num_patches", "memory_bytes", "disk_bytes", "seconds", "ranks", "epochs"} <= set(row)
    assert (row["ranks"], row["hosts"]) == (2, 1)
    for wrong, said in ((["--hosts", "2"], "more than --ranks 1"), (["--network", "fast"], "--network is 'fast'")):
        assert said in str(CliRunner().invoke(cli.app, ["plan", str(stored.directory), *wrong]).exception)
    told = CliRunner().invoke(cli.app, ["plan", "reddit-like"])
    assert told.exit_code == 0, told.exception
    assert told.stdout.startswith("reddit-like: 10 patches in memory")


@pytest.mark.slow
def test_directions_take_memory_and_are_checked(quick, tmp_path, planted):
    directed = make_config(threads=1, directed=True)
    assert Sample.of(LARGE, directed).graph.directed
    assert make_plan(LARGE, directed).memory_bytes > make_plan(LARGE, make_config(threads=1)).memory_bytes
    stored = write_graph(planted, tmp_path / "store")
    refused = CliRunner().invoke(cli.app, ["plan", str(stored.directory), "--directed"])
    assert "keeps no directions" in str(refused.exception)
    path = tmp_path / "arcs.csv"
    path.write_text("".join(f"{node},{(7 * node + 3) % 100}\n" for node in range(100)))
    told = CliRunner().invoke(cli.app, ["plan", str(path), "--directed", "--json"])
    assert told.exit_code == 0, told.exception
    assert json.loads(told.stdout)["in_memory"]


def test_stand_ins_need_not_be_drawn(monkeypatch):
    monkeypatch.setattr("l2g2g.graphs.read.read_graph", lambda *_, **__: pytest.fail("drew the graph"))
    sizes = plan_commands.find_sizes("yelp-like", None, None, AS_FOUND)
    assert (sizes.num_nodes, sizes.num_edges, sizes.num_features) == (716_847, 6_977_409, 300)


def test_only_long_runs_are_announced(quick, monkeypatch, planted):
    assert plan_commands.look_ahead(planted, make_config()) is None
    monkeypatch.setattr(plan_commands, "_LITTLE_WORK", 0)
    assert plan_commands.look_ahead(planted, make_config(threads=1, epochs=3)) is None
    monkeypatch.setattr(plan_commands, "_LONG", 0.0)
    line = plan_commands.look_ahead(planted, make_config(threads=1))
    assert line is not None
    assert "planted" in line


@pytest.mark.slow
def test_the_plan_of_a_small_graph_is_near_its_run():
    """The seconds of an epoch, within a wide factor on a busy machine; memory a test process cannot tell."""
    from l2g2g.runs.embed import embed_graph

    graph = read_graph("sized-6000-40000-32")
    config = make_config(threads=1, epochs=6, patience=0)
    expected = make_plan(GraphSizes.of(graph), config).seconds["epoch"]
    measured = min(embed_graph(graph, config).trained.history.epoch_seconds)
    assert measured / 4 < expected < 4 * measured
