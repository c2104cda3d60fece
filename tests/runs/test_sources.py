"""Runs within a limit of memory: from a store or any source, equal to runs without a limit; refused early."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from l2g2g import L2G2G, cli
from l2g2g.config import make_config, parse_size
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import store_writer
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.splits import split_edges
from l2g2g.graphs.store import open_graph, write_graph
from l2g2g.graphs.store_writer import write_training_graph
from l2g2g.graphs.write import write_embedding
from l2g2g.models.masking import EpochDraws
from l2g2g.patches.store import has_patches, open_patches
from l2g2g.runs import candidate, sources
from l2g2g.runs import patches as run_patches
from l2g2g.runs.budget import StoredSizes, fit_budget, show_size
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph

SMALL = {"dim": 4, "hidden": 6, "patches": 3, "epochs": 6, "threads": 1, "min_overlap": 4, "target_overlap": 6}
SMALL["structure"] = "none"  # rounding turns eigenvectors, and losses with them
PLENTY = 10**11


@pytest.fixture
def store(noisy, tmp_path):
    return write_graph(noisy, tmp_path / "store")


@pytest.fixture
def from_disk(monkeypatch):
    """No graph fits the memory."""
    monkeypatch.setattr(sources, "fits_memory", lambda *_: False)


def run(arguments):
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, result.stdout, result.exception


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("paper", {"patches": 3}),
        ("default", {}),
        ("default", {"assembly": "mean", "rotate": True}),
        ("default", {"patience": 2, "epochs": 30, "mask_by": "nodes"}),
        ("default", {"method": "gae+l2g"}),
        ("default", {"method": "vl2g2g"}),
        ("default", {"encoder": "sage"}),
        ("default", {"encoder": "sage", "decoder": "cosine", "activation": "elu", "layers": 3}),
    ],
)
def test_a_limit_does_not_change_the_result(store, from_disk, monkeypatch, preset, options):
    method = options.get("method", "l2g2g")
    rest = {name: value for name, value in options.items() if name != "method"}
    config = make_config(method, preset, **{**SMALL, **rest})
    limited = embed_graph(store, replace(config, memory=PLENTY))
    monkeypatch.undo()
    free = embed_graph(store, config)
    np.testing.assert_allclose(limited.trained.history.losses, free.trained.history.losses, rtol=1e-5)
    np.testing.assert_allclose(limited.embedding, free.embedding, rtol=1e-3, atol=1e-4)
    validations = (np.array(run.trained.history.validations) for run in (limited, free))
    np.testing.assert_allclose(*validations, atol=1e-6)
    assert limited.patch_set.num_patches == free.patch_set.num_patches == 3


@pytest.mark.parametrize("name", ["plain", "islands"])
def test_graphs_without_features_or_in_pieces(request, name, tmp_path, from_disk):
    graph = request.getfixturevalue(name)
    stored = write_graph(graph, tmp_path / "store")
    config = make_config(**SMALL, memory=PLENTY)
    found = embed_graph(stored, replace(config, structure_width=8))
    assert found.embedding.shape == (graph.num_nodes, 4)
    assert np.isfinite(found.embedding).all()


def test_patches_of_a_store_are_used_again(store, from_disk):
    config = make_config(**SMALL, memory=PLENTY)
    embed_graph(store, config)
    assert has_patches(store.directory)
    before = open_patches(store.directory).folder.sha256
    embed_graph(store, replace(config, patches=None, lr=0.02))
    assert open_patches(store.directory).folder.sha256 == before
    assert embed_graph(store, replace(config, patches=2)).patch_set.num_patches == 2


def test_validation_edges_are_never_seen(store, from_disk, monkeypatch):
    seen = {}

    def look(model, batches, patch_set, settings, **others):
        seen["edges"] = set()
        for batch in batches:
            rows, columns = batch.adjacency.nonzero()
            seen["edges"] |= set(
                zip(batch.pairs.nodes[rows].tolist(), batch.pairs.nodes[columns].tolist(), strict=True)
            )
        for drawn in others["global_pairs"].pairs.draw(EpochDraws(0, 0)):
            seen["edges"] |= set(zip(drawn.pair_list.rows.tolist(), drawn.pair_list.columns.tolist(), strict=True))
        seen["validate"] = others["validate"]
        raise InputError("seen enough")

    monkeypatch.setattr(candidate, "Training", look)
    with pytest.raises(InputError, match="seen enough"):
        embed_graph(store, make_config(**SMALL, memory=PLENTY))
    pairs = seen["validate"].args[1]
    assert len(pairs.positive) > 5
    for u, v in (*pairs.positive.tolist(), *pairs.negative.tolist()):
        assert (u, v) not in seen["edges"]
        assert (v, u) not in seen["edges"]


OPTIONS = {
    "structure": ({"structure": "blend", "structure_width": 5}, 1e-3),  # eigenvectors of sums in another order
    "structure auto": ({"structure": "auto", "structure_width": 5, "patience": 2}, 1e-3),
    "feature width": ({"feature_width": 4}, 1e-4),
    "negatives by degree": ({"negative_sampling": "degree"}, 1e-5),
    "masked nodes": ({"mask_by": "nodes"}, 1e-5),
    "degree": ({"negative_sampling": "degree"}, 1e-5),
    "weighted loss": ({"weighted_loss": True}, 1e-5),
    "another decoder": ({"decoder": "distance"}, 1e-5),
    "variational": ({"method": "vl2g2g"}, 1e-5),
}


@pytest.fixture
def weighted_store(noisy, tmp_path):
    """Ten entries a row, so that features may be compressed, and edges of different weight."""
    generator = np.random.default_rng(0)
    features = (generator.random((noisy.num_nodes, 12)) + noisy.features).astype(np.float32)
    sources, targets = noisy.edges()
    weights = generator.integers(1, 5, len(sources)).astype(np.float32)
    heavy = noisy.with_edges(sources, targets, weights)
    return write_graph(replace(heavy, features=features, weighted=True), tmp_path / "store")


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_the_loss_of_memory(weighted_store, from_disk, monkeypatch, name):
    """Invariant 1, memory and disk; tests/training/test_ranks.py and tests/test_rank_stores.py have ranks."""
    options, tolerance = OPTIONS[name]
    config = make_config(**{"method": "l2g2g", **SMALL, "epochs": 2, "patience": 0, **options})
    limited = embed_graph(weighted_store, replace(config, memory=PLENTY))
    monkeypatch.undo()
    free = embed_graph(weighted_store, config)
    np.testing.assert_allclose(limited.trained.history.losses, free.trained.history.losses, rtol=tolerance)
    assert limited.config.structure == free.config.structure
    plain = embed_graph(weighted_store, make_config(**{**SMALL, "epochs": 2, "patience": 0}))
    if name != "structure auto":
        assert free.trained.history.losses[0] != pytest.approx(plain.trained.history.losses[0], rel=1e-6)


def test_what_needs_the_whole_graph_is_refused(store, from_disk):
    config = make_config(**SMALL, rotate=True, align_gradient="through", memory=PLENTY)
    with pytest.raises(InputError, match="all patches in one process, in memory"):
        embed_graph(store, config)
    with pytest.raises(InputError, match="has no directions"):
        embed_graph(store, make_config(**SMALL, directed=True, decoder="asymmetric", memory=PLENTY))


@pytest.mark.parametrize("name", ["plain", "noisy"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_weighted_loss_without_weights_is_refused_alike_everywhere(request, name, preset, tmp_path, monkeypatch):
    graph = request.getfixturevalue(name)
    stored = write_graph(graph, tmp_path / "store")
    config = make_config("l2g2g", preset, **SMALL, weighted_loss=True)
    limited = replace(config, memory=PLENTY)
    monkeypatch.setattr(run_patches, "cut_stored", lambda *_: pytest.fail("cut for nothing"))
    cases = ((graph, config), (stored, config), (stored, limited))
    calls = [partial(call, *source) for source in cases for call in (embed_graph, evaluate_graph)]
    for fits in (True, False):
        monkeypatch.setattr(sources, "fits_memory", lambda *_, fits=fits: fits)
        for call in calls:
            with pytest.raises(InputError) as caught:
                call()
            assert str(caught.value) == f"{graph.name}: its edges have no weights; leave --weighted-loss out"
    assert not has_patches(stored.directory)


@pytest.mark.parametrize("command", ["embed", "evaluate"])
def test_a_weighted_loss_without_weights_on_the_command_line(plain, tmp_path, monkeypatch, from_disk, command):
    edges = edge_list(plain, tmp_path / "edges.csv")
    store = str(write_graph(plain, tmp_path / "store").directory)
    options = ["--weighted-loss", *small_options(), *(["-o", str(tmp_path / "o.npy")] if command == "embed" else [])]
    for arguments in ([str(edges)], [store], [store, "--memory", "100GB"], [str(edges), "--memory", "90GB"]):
        _, printed, error = run([command, *arguments, *options])
        assert (error.exit_code, printed) == (2, "")
        assert "its edges have no weights; leave --weighted-loss out" in str(error)
    assert not (tmp_path / "o.npy").exists()


def test_a_weighted_loss_on_disk_counts_weights(plain, tmp_path, from_disk):
    sources_, targets = plain.edges()
    weights = np.random.default_rng(0).integers(1, 9, plain.num_edges).astype(float)
    graph = Graph.from_arcs(sources_, targets, weights, num_nodes=plain.num_nodes)
    stored = write_graph(graph, tmp_path / "store")
    config = make_config(**SMALL, memory=PLENTY)
    losses = [
        embed_graph(stored, replace(config, weighted_loss=counted)).trained.history.losses for counted in (True, False)
    ]
    assert not np.allclose(*losses)


def test_too_small_a_limit_is_refused_with_one_that_would_do():
    sizes = StoredSizes(1_000_000, 20_000_000, 100, 100.0)
    config = make_config(memory="800MB")
    with pytest.raises(ResourceError, match="too small; ") as caught:
        fit_budget(sizes, config, 1, "big", resident=300_000_000)
    named = parse_size(str(caught.value).split("too small; ")[1].split(" would do")[0])
    needs = fit_budget(sizes, replace(config, memory=named), 1, "big", resident=300_000_000)
    assert needs.total <= named
    with pytest.raises(ResourceError):
        fit_budget(sizes, replace(config, memory=int(0.95 * named)), 1, "big", resident=300_000_000)


def test_less_memory_more_patches():
    sizes = StoredSizes(1_000_000, 50_000_000, 100, 100.0)
    wide, narrow = (
        fit_budget(sizes, make_config(memory=size), 1, "big", resident=300_000_000) for size in ("16GB", "1500MB")
    )
    assert narrow.num_patches > wide.num_patches == 10
    assert narrow.patch < wide.patch
    with pytest.raises(ResourceError, match="12 patches"):
        fit_budget(sizes, make_config(memory="1200MB", patches=12), 1, "big", resident=300_000_000)


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("500mb", 5 * 10**8), ("1.5 GiB", 3 * 2**29), ("2000", 2000), ("1K", 1000)]
)
def test_sizes(text, size):
    assert parse_size(text) == size == make_config(memory=text).memory


@pytest.mark.parametrize("text", ["", "much", "-4GB", "4 XB", "iB"])
def test_sizes_that_are_none(text):
    with pytest.raises(InputError, match="--memory"):
        parse_size(text)


def test_show_size():
    assert [show_size(size) for size in (4 * 10**9, 1_234_567_890, 750_000_000, 1)] == [
        "4GB",
        "1.235GB",
        "750MB",
        "1MB",
    ]


def small_options():
    return [
        part
        for name, value in SMALL.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
        if "over" not in name
    ]


def test_embed_a_store_on_the_command_line(store, from_disk, tmp_path):
    output = tmp_path / "out.parquet"
    arguments = ["embed", str(store.directory), "-o", str(output), "--json", "--memory", "100GB", *small_options()]
    code, printed, error = run(arguments)
    assert code == 0, error
    row = json.loads(printed)
    assert (row["num_nodes"], row["num_patches"], row["epochs"]) == (120, 3, 6)
    assert read_embedding(output)[1].shape == (120, 4)
    assert run(["embed", str(store.directory), "-o", str(output), "--features", "x.npy"])[2].exit_code == 2


def edge_list(graph, path):
    sources, targets = graph.edges()
    lines = [f"n{source},n{target}\n" for source, target in zip(sources, targets, strict=True)]
    path.write_text("".join(lines))
    return path


def test_an_edge_list_goes_through_a_store_that_is_gone_afterwards(plain, tmp_path, monkeypatch, from_disk):
    path = edge_list(plain, tmp_path / "edges.csv")
    monkeypatch.setattr(store_writer, "_EDGE_FACTOR", 10**12)
    monkeypatch.setattr(sources.tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    output = tmp_path / "out.csv"
    command = ["embed", str(path), "-o", str(output), "--memory", "100GB", *small_options()]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.exception
    ids, vectors = read_embedding(output)
    assert vectors.shape == (120, 4)
    assert sorted(ids.tolist()) == sorted(f"n{node}" for node in range(120))
    assert list((tmp_path / "scratch").iterdir()) == []
    told = [line for line in result.stderr.splitlines() if line.startswith("preparing: ")]
    steps = ("reading edges", "numbering nodes", "joining node numbers to edges", "sorting edges")
    assert told == [f"preparing: {step} …" for step in steps]


def test_in_a_run_directory_the_store_stays_and_is_used_to_resume(plain, tmp_path, monkeypatch, from_disk):
    path = edge_list(plain, tmp_path / "edges.csv")
    monkeypatch.setattr(store_writer, "_EDGE_FACTOR", 10**12)
    arguments = ["embed", str(path), "-o", str(tmp_path / "out.csv"), "--memory", "100GB", *small_options()]
    arguments += ["--run-dir", str(tmp_path / "run"), "--json"]
    code, printed, _ = run(arguments)
    assert code == 0
    seconds = json.loads(printed)["seconds"]
    assert {"read", "number", "sort"} <= set(seconds)  # stages of the preparation, each by itself
    assert min(seconds["read"], seconds["number"], seconds["sort"]) > 0
    sha = open_graph(tmp_path / "run" / "store").sha256
    code, printed, error = run([*arguments, "--resume"])
    assert code == 0, error
    assert json.loads(printed)["resumed_from_epoch"] == 6
    assert open_graph(tmp_path / "run" / "store").sha256 == sha


def test_a_graph_that_fits_is_trained_as_ever(noisy, plain, tmp_path):
    path = edge_list(plain, tmp_path / "edges.csv")
    limited, free = tmp_path / "limited.npy", tmp_path / "free.npy"
    assert run(["embed", str(path), "-o", str(free), *small_options()])[0] == 0
    assert run(["embed", str(path), "-o", str(limited), "--memory", "100GB", *small_options()])[0] == 0
    np.testing.assert_array_equal(np.load(limited), np.load(free))


def test_a_limit_below_what_the_process_holds(plain, tmp_path):
    path = edge_list(plain, tmp_path / "edges.csv")
    _, _, error = run(["embed", str(path), "-o", str(tmp_path / "o.csv"), "--memory", "50MB"])
    assert error.exit_code == 3
    assert "would do" in str(error)


def test_ids_on_disk_are_written_in_all_formats(plain, tmp_path, monkeypatch):
    monkeypatch.setattr("l2g2g.graphs.write._ROWS", 50)
    named = replace(plain, node_ids=np.array([f"n{node}" for node in range(120)], dtype=object))
    stored = write_graph(named, tmp_path / "store")
    vectors = np.random.default_rng(0).random((120, 3), dtype=np.float32)
    from l2g2g.graphs.store import node_ids_of

    for ending in ("parquet", "csv", "txt", "npy"):
        path = tmp_path / f"out.{ending}"
        write_embedding(path, vectors, node_ids_of(stored))
        ids, found = read_embedding(path)
        assert ids.tolist() == named.node_ids.tolist()
        np.testing.assert_allclose(found, vectors, rtol=1e-6)


def test_patches_that_turn_out_too_large_are_cut_again(store, from_disk, monkeypatch):
    """The real largest patch decides, not the even share that was planned with."""
    real = run_patches.find_needs
    asked = []

    def needs_of(sizes, config, num_patches, threads, resident):
        asked.append(num_patches)
        found = real(sizes, config, num_patches, threads, resident)
        return replace(found, patch=0 if num_patches >= 4 else 2 * PLENTY)

    monkeypatch.setattr(run_patches, "find_needs", needs_of)
    monkeypatch.setattr(run_patches, "most_patches", lambda *_: 6)
    config = replace(make_config(**SMALL, memory=PLENTY), patches=None)
    monkeypatch.setattr(type(config), "num_patches", lambda self, _: 2)
    assert embed_graph(store, config).patch_set.num_patches == 4
    assert asked == [2, 4, 4]  # planned, cut, and what is then left
    with pytest.raises(ResourceError, match="largest of 2 patches"):
        embed_graph(store, replace(config, patches=2))


@pytest.mark.parametrize("limited", [True, False])
def test_evaluate_a_store_on_the_command_line(noisy, tmp_path, monkeypatch, limited):
    stored = write_graph(noisy, tmp_path / "store")
    monkeypatch.setattr(sources, "fits_memory", lambda *_: not limited)
    options = [*small_options(), "--json", "--method", "l2g2g", "--method", "gae+l2g", "--seed", "1"]
    code, printed, error = run(["evaluate", str(stored.directory), "--memory", "100GB", *options])
    assert code == 0, error
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [row["method"] for row in rows] == ["l2g2g", "gae+l2g"]
    assert all(0.3 < row["auc"] <= 1 for row in rows)
    code, printed, error = run(
        ["evaluate", str(stored.directory), "--memory", "100GB", "--protocol", "paper", *options]
    )
    assert code == 0, error
    assert all(json.loads(line)["protocol"] == "paper" for line in printed.splitlines())


def test_evaluation_within_a_limit_is_that_without(noisy, tmp_path, monkeypatch):
    rows = []
    for limited in (True, False):
        stored = write_graph(noisy, tmp_path / f"store-{limited}")
        monkeypatch.setattr(sources, "fits_memory", lambda *_, limited=limited: not limited)
        rows.append(evaluate_graph(stored, make_config(**SMALL, memory=PLENTY))[0])
    assert rows[0]["auc"] == pytest.approx(rows[1]["auc"], abs=1e-4)
    assert rows[0]["num_patches"] == rows[1]["num_patches"]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["heldout", "paper"])
def test_all_measures_of_a_store_are_those_of_memory(noisy, tmp_path, monkeypatch, protocol):
    """The same split and the same patches; ranks among candidates, and a probe of the labels."""
    labelled = replace(noisy, labels=np.arange(noisy.num_nodes) // 40)
    rows = []
    for limited in (True, False):
        stored = write_graph(labelled, tmp_path / f"store-{limited}")
        monkeypatch.setattr(sources, "fits_memory", lambda *_, limited=limited: not limited)
        config = make_config(**SMALL, memory=PLENTY)
        rows.append(evaluate_graph(stored, config, protocol=protocol, measures="all")[0])
    for name in ("auc", "ap", "mrr", "hits@10", "probe_accuracy"):
        assert rows[0][name] == pytest.approx(rows[1][name], abs=2e-3), name
    assert rows[0]["probe_accuracy"] > 0.4
    assert (rows[0]["mrr"] is None) == (protocol == "paper")
    in_memory, _ = evaluate_graph(labelled, make_config(**SMALL), protocol=protocol, measures="all")
    assert rows[0]["auc"] == pytest.approx(in_memory["auc"], abs=2e-3)


def test_the_pattern_of_some_nodes_is_read_from_disk(store):
    whole = store.to_graph().adjacency
    found = store.pattern_of(np.array([3, 50, 119]))
    for node in (3, 50, 119):
        assert found[[node]].indices.tolist() == whole[[node]].indices.tolist()
    assert found.nnz == whole[[3, 50, 119]].nnz


def test_the_training_graph_of_an_evaluation_lacks_what_is_tested(store, tmp_path):
    split = split_edges(store, seed=0)
    rows = split.of(store).train.row_blocks(weights=True)
    how = {"num_edges": split.num_edges, "weighted": store.weighted, "source": {}}
    train = write_training_graph(store, rows, tmp_path / "train", **how)
    expected = split.of(store.to_graph()).train
    found = train.to_graph()
    assert (found.adjacency != expected.adjacency).nnz == 0
    assert train.num_edges == split.num_edges == found.num_edges
    np.testing.assert_array_equal(found.features, expected.features)


def test_estimators_take_stores_and_limits(store, plain, tmp_path):
    model = L2G2G(dim=4, hidden=6, patches=3, epochs=3, threads=1, memory="100GB").fit(str(store.directory))
    assert model.embedding_.shape == (120, 4)
    assert model.config_.memory == 100 * 10**9
    assert model.history_.num_epochs == 3
    assert np.array_equal(model.transform(plain), model.embedding_)
    with pytest.raises(ResourceError, match="would do"):
        L2G2G(dim=4, memory="20MB").fit(str(edge_list(plain, tmp_path / "edges.csv")))


@pytest.mark.parametrize("method", ["gae", "fastgae", "vgae"])
def test_a_whole_graph_in_rows_is_refused_with_a_limit_that_would_do(store, from_disk, method):
    config = make_config(method, dim=4, hidden=6, epochs=3, threads=1, memory=10_000_000)
    with pytest.raises(ResourceError, match="too small; ") as caught:
        embed_graph(store, config)
    assert "patches" not in str(caught.value)
    named = parse_size(str(caught.value).split("too small; ")[1].split(" would do")[0])
    run = embed_graph(store, replace(config, memory=named + 10_000_000))
    assert run.embedding.shape == (store.num_nodes, 4)
    assert not has_patches(store.directory)
    assert run.kept_edge_fraction == 1.0


@pytest.mark.parametrize("ranks", [1, 4])
def test_tables_of_a_whole_graph_are_shared_by_ranks(ranks):
    config = make_config("gae", threads=1, memory=PLENTY)
    sizes = StoredSizes(1_000_000, 10_000_000, 100, 100.0, num_ranks=ranks)
    needs = fit_budget(sizes, config, 1, "sized", resident=0)
    alone = fit_budget(replace(sizes, num_ranks=1), config, 1, "sized", resident=0)
    assert needs.training <= alone.training
    assert needs.total > 20 * config.numbers_per_row * sizes.num_nodes / ranks
