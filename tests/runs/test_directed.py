"""--directed from memory, from a store and on two ranks: the same pairs, losses and scores."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from l2g2g import cli
from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import write_graph
from l2g2g.runs import sources
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph

SMALL = {"patches": 3, "dim": 4, "hidden": 8, "epochs": 3, "threads": 1, "patience": 0, "directed": True}
OPTIONS = {
    "arcs and reversed arcs": {},
    "a symmetric decoder": {"decoder": "inner"},
    "weights": {"weighted_loss": True},
    "negatives by degree": {"negative_sampling": "degree"},
    "masked nodes": {"mask_by": "nodes"},
    "inside patches": {"scope": "inside"},
    "separate encoders": {"method": "gae+l2g", "decoder": "inner"},
}


@pytest.fixture(scope="module")
def graph(noisy):
    sources, targets = noisy.edges()
    generator = np.random.default_rng(0)
    way = generator.random(len(sources))
    forth, back = way < 0.8, way > 0.7
    sources, targets = np.concatenate([sources[forth], targets[back]]), np.concatenate([targets[forth], sources[back]])
    weights = generator.random(len(sources)).astype(np.float32) + 0.5
    how = {"num_nodes": noisy.num_nodes, "features": noisy.features, "directed": True, "name": "arrows"}
    return Graph.from_arcs(sources, targets, weights, **how)


@pytest.fixture(scope="module")
def store(graph, tmp_path_factory):
    return write_graph(graph, tmp_path_factory.mktemp("directed") / "store")


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_a_limit_does_not_change_the_result(store, monkeypatch, name):
    config = make_config(**{**SMALL, **OPTIONS[name]})
    free = embed_graph(store, config)
    monkeypatch.setattr(sources, "fits_memory", lambda *_: False)
    limited = embed_graph(store, replace(config, memory=10**11))
    np.testing.assert_allclose(limited.trained.history.losses, free.trained.history.losses, rtol=1e-5)
    np.testing.assert_allclose(limited.embedding, free.embedding, rtol=1e-3, atol=1e-4)


def test_directions_count(store):
    """The loss is another one than that of the same edges without directions."""
    directed = embed_graph(store, make_config(**SMALL, decoder="inner"))
    joined = replace(store.to_graph(), arcs=None)
    plain = embed_graph(joined, make_config(**{**SMALL, "directed": False}, decoder="inner"))
    assert directed.trained.history.losses[0] != pytest.approx(plain.trained.history.losses[0], rel=1e-6)


@pytest.mark.slow
def test_two_ranks_and_one_process_score_the_same(processes, graph, store):
    options = ["--directed", "--patches", 3, "--dim", 4, "--hidden", 8, "--epochs", 8, "--threads", 1, "--json"]
    command = ["evaluate", store.directory, *options]
    row = json.loads(processes.run_ranks(2, "-m", "l2g2g", *command))
    wanted, _ = evaluate_graph(graph, make_config(**{**SMALL, "epochs": 8, "patience": None}))
    assert row["num_arcs"] == wanted["num_arcs"] == graph.num_arcs
    for name in ("auc", "auc_joined", "auc_direction"):
        assert row[name] == pytest.approx(wanted[name], abs=0.03), name


def call(*arguments):
    result = CliRunner().invoke(cli.app, [str(part) for part in arguments])
    return result.exit_code, result.stdout, str(result.exception)


def test_a_store_is_prepared_with_its_directions(tmp_path):
    pairs = [(node, (node + step) % 60) for node in range(60) for step in (1, 2, 7)]
    (tmp_path / "e.csv").write_text("".join(f"{u},{v}\n" for u, v in pairs))
    for name, more in (("one", ["--directed"]), ("joined", [])):
        prepare = ["prepare", tmp_path / "e.csv", "--store", tmp_path / name, "--patches", 2, "--dim", 4, "--json"]
        code, out, _ = call(*prepare, *more)
        assert (code, json.loads(out)["directed"]) == (0, bool(more))
        assert json.loads(call(*prepare, *more)[1])["reused"] == {"graph": True, "patches": True}
    small = ["--epochs", 2, "--dim", 4, "--patches", 2, "--quiet"]
    assert call("embed", tmp_path / "one", "-o", tmp_path / "o.npy", "--directed", *small)[0] == 0
    for arguments, message in (
        (["embed", tmp_path / "one", "-o", tmp_path / "o.npy", *small], "keeps directions; add --directed"),
        (
            ["embed", tmp_path / "joined", "-o", tmp_path / "o.npy", "--directed", *small],
            "keeps no directions; write it with l2g2g prepare --directed",
        ),
        (["prepare", tmp_path / "e.csv", "--store", tmp_path / "one"], "holds the store of another graph"),
        (["prepare", tmp_path / "one"], "keeps directions; add --directed"),
    ):
        code, _, error = call(*arguments)
        assert code != 0
        assert message in error
