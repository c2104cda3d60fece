"""`l2g2g split` and `evaluate --split`: the scores of evaluate alone, from memory, a store and ranks; refusals."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import write_graph
from l2g2g.graphs.write import write_embedding
from l2g2g.runs import sources

FAST = ["--epochs", 6, "--dim", 4, "--hidden", 6, "--patches", 3, "--threads", 1]
CHANGES = {"seconds", "peak_memory_bytes", "split", "messages"}


@pytest.fixture(scope="module")
def files(noisy, tmp_path_factory):
    """(edges, features, a store) of the noisy graph; in all of them nodes have the same order."""
    folder = tmp_path_factory.mktemp("graph")
    lines = [f"{u},{v},{1 + (u + v) % 3}" for u, v in zip(*noisy.edges(), strict=True)]
    (folder / "edges.csv").write_text("source,target,weight\n" + "\n".join(lines) + "\n")
    np.save(folder / "features.npy", noisy.features)
    write_graph(noisy, folder / "store")
    return folder / "edges.csv", folder / "features.npy", folder / "store"


@pytest.fixture
def ask(run):
    """A command that succeeds: its JSON lines."""

    def call(*arguments):
        code, out, err = run(*arguments, "--json")
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return call


def alike(row):
    """What must be the same bits."""
    return {name: value for name, value in row.items() if name not in CHANGES}


def test_the_split_of_a_command(run, noisy, files, tmp_path):
    code, out, err = run("split", files[2], "-o", tmp_path / "new" / "split", "--seed", 4, "--json")
    assert (code, err) == (0, "")
    row = json.loads(out)
    num_edges = noisy.num_edges
    held = {"validation": int(0.05 * num_edges), "test": int(0.1 * num_edges)}
    assert row["train"] == num_edges - sum(held.values())
    assert {name: row[name]["edges"] for name in held} == {name: row[name]["non_edges"] for name in held} == held
    assert (row["graph"], row["seed"], row["output"]) == ("noisy", 4, str(tmp_path / "new" / "split"))
    table = pq.read_table(tmp_path / "new" / "split" / "test.parquet")
    expected = split_links(noisy, seed=4).test
    assert table["source"].to_pylist() == np.concatenate([expected.positive, expected.negative])[:, 0].tolist()
    code, out, err = run("split", files[2], "-o", tmp_path / "new" / "split")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'new' / 'split'}: {row['train']:,} edges to train on")
    assert run("split", files[2], "-o", tmp_path / "new" / "split", "--quiet") == (0, "", "")


@pytest.mark.parametrize("options", [[], ["--directed"]], ids=["undirected", "directed"])
@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_a_pinned_split_gives_the_same_bits(ask, files, tmp_path, method, options):
    edges, features, _ = files
    base = ["evaluate", edges, "--features", features, "-m", method, "--measures", "all", "--seed", 5, *FAST, *options]
    ask("split", edges, "--features", features, "-o", tmp_path / "split", "--seed", 5, *options)
    (expected,), (found,) = ask(*base), ask(*base, "--split", tmp_path / "split")
    assert alike(found) == alike(expected)
    assert found["split"] == str(tmp_path / "split")
    assert 0.3 < found["auc"] <= 1
    ask("split", edges, "--features", features, "-o", tmp_path / "split", "--seed", 6, *options)
    (other,) = ask(*base, "--split", tmp_path / "split")
    assert other["auc"] != found["auc"]


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
def test_a_pinned_split_of_a_store_gives_the_same_bits(ask, files, tmp_path, monkeypatch, limited):
    monkeypatch.setattr(sources, "fits_memory", lambda *_: not limited)
    store = files[2]
    ask("split", store, "-o", tmp_path / "split", "--seed", 2)
    base = ["evaluate", store, "--seed", 2, "--memory", "20GB", *FAST]
    (expected,), (found,) = ask(*base), ask(*base, "--split", tmp_path / "split")
    assert alike(found) == alike(expected)


def test_memory_and_store_split_alike(ask, files, tmp_path):
    edges, features, store = files
    ask("split", store, "-o", tmp_path / "disk", "--seed", 8)
    ask("split", edges, "--features", features, "-o", tmp_path / "memory", "--seed", 8)
    for name in ("train", "validation", "test"):
        one, two = (pq.read_table(tmp_path / where / f"{name}.parquet") for where in ("disk", "memory"))
        assert one.equals(two.select(["source", "target", "label"]))  # only the edge list has weights
    assert two.num_rows > 100


@pytest.mark.slow
@pytest.mark.parametrize("source", ["memory", "store"])
def test_two_ranks_on_a_pinned_split(processes, ask, files, tmp_path, source):
    edges, features, store = files
    graph = [store] if source == "store" else [edges, "--features", features]
    ask("split", *graph, "-o", tmp_path / "split", "--seed", 3)
    command = ["evaluate", *graph, "--split", tmp_path / "split", "--seed", 1, *FAST]
    (one,) = ask(*command)
    two = json.loads(processes.run_ranks(2, "-m", "l2g2g", *command, "--json"))
    assert two["auc"] == pytest.approx(one["auc"], abs=0.005)
    assert two["split"] == one["split"]


def test_several_seeds_train_on_one_split(ask, files, tmp_path):
    ask("split", files[2], "-o", tmp_path / "split")
    rows = ask(
        "evaluate", files[2], "--split", tmp_path / "split", "--seeds", 2, "-m", "gae", *FAST, "--structure", "none"
    )
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows[0]["auc"] != rows[1]["auc"]


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True])
def test_another_split_is_not_resumed(run, ask, files, tmp_path, stored):
    graph = [files[2]] if stored else [files[0], "--features", files[1]]
    for seed in (0, 1):
        ask("split", *graph, "-o", tmp_path / f"split-{seed}", "--seed", seed)
    base = ["evaluate", *graph, "--run-dir", tmp_path / "run", *FAST]
    (first,) = ask(*base, "--split", tmp_path / "split-0")
    for other in (["--split", tmp_path / "split-1"], []):
        code, _, err = run(*base, "--resume", *other)
        assert code == 2
        assert "cannot be resumed, this run differs" in err
        assert "settings pinned_split not the same" in err
    (again,) = ask(*base, "--resume", "--split", tmp_path / "split-0")
    assert (again["auc"], again["resumed_from_epoch"]) == (first["auc"], first["epochs"])


@pytest.fixture
def vectors(noisy, tmp_path):
    """Vectors made elsewhere: the blocks with a little noise, at very different lengths."""
    generator = np.random.default_rng(0)
    table = np.eye(4)[np.arange(noisy.num_nodes) // 30] + 0.1 * generator.normal(size=(noisy.num_nodes, 4))
    return (table * np.exp(2 * generator.normal(size=(noisy.num_nodes, 1)))).astype(np.float32)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".txt", ".npy", ".arrow"])
def test_vectors_made_elsewhere(run, ask, files, vectors, tmp_path, ending):
    ask("split", files[2], "-o", tmp_path / "split")
    write_embedding(tmp_path / f"out{ending}", vectors)
    command = ["evaluate", "--split", tmp_path / "split", "--embedding", tmp_path / f"out{ending}"]
    (row,) = ask(*command)
    assert (row["scorer"], row["num_nodes"], row["dim"], row["protocol"]) == ("cosine", 120, 4, "heldout")
    assert row["auc"] == row["by_scorer"]["cosine"]["auc"] > row["by_scorer"]["inner"]["auc"]
    assert row["validation_auc"] == row["by_scorer"]["cosine"]["validation_auc"]
    assert row["validation_auc"] > row["by_scorer"]["inner"]["validation_auc"]
    assert 0.8 < row["auc"] <= 1
    assert 0.5 < row["ap"] <= 1
    code, out, _ = run(*command)
    assert code == 0
    assert f"AUC {100 * row['auc']:.2f} %" in out
    assert "by cosine (chosen on validation pairs); inner product AUC" in out


def test_vectors_of_a_run_score_as_the_run_does(ask, files, tmp_path):
    """The vectors of an evaluation, scored again as a file: GAE scores by inner products."""
    ask("split", files[2], "-o", tmp_path / "split", "--seed", 1)
    base = ["evaluate", files[2], "--split", tmp_path / "split", "--seed", 1, "-m", "gae"]
    (row,) = ask(*base, "--run-dir", tmp_path / "run", *FAST)
    from l2g2g.cli.neighbours import open_published

    published = open_published(tmp_path / "run")
    write_embedding(tmp_path / "out.npy", published.vectors)
    (again,) = ask("evaluate", "--split", tmp_path / "split", "--embedding", tmp_path / "out.npy")
    assert again["by_scorer"]["inner"]["auc"] == pytest.approx(row["auc"], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate"], "GRAPH is missing"),
        (["evaluate", "--split", "SPLIT"], "GRAPH is missing"),
        (["evaluate", "STORE", "--split", "NOWHERE"], "train.parquet: no such folder"),
        (["evaluate", "STORE", "--split", "STORE"], "train.parquet: no such file; a split has train.parquet"),
        (["evaluate", "STORE", "--split", "SPLIT", "--protocol", "paper"], "leave out --split or --protocol"),
        (["evaluate", "EDGES", "--split", "SPLIT", "--directed"], "undirected graph; leave --directed out"),
        (["evaluate", "sbm-small", "--split", "SPLIT"], "120 nodes, but sbm-small has 10,000"),
        (["evaluate", "--embedding", "VECTORS"], "add --split DIR"),
        (["evaluate", "STORE", "--split", "SPLIT", "--embedding", "VECTORS"], "scores finished vectors; leave"),
        (
            ["evaluate", "--split", "SPLIT", "--embedding", "VECTORS", "-m", "gae"],
            "--method does nothing; leave it out",
        ),
        (["evaluate", "--split", "SPLIT", "--embedding", "VECTORS", "--dim", "3"], "--dim does nothing"),
        (["evaluate", "--split", "SPLIT", "--embedding", "VECTORS", "--run-dir", "x"], "--run-dir does nothing"),
        (["evaluate", "--split", "SPLIT", "--embedding", "NOWHERE"], "no such embedding file"),
        (["evaluate", "--split", "SPLIT", "--embedding", "FEW"], "row 1: no node"),
        (["split", "EDGES"], "--output"),
        (["split", "EDGES", "-o", "EDGES"], "is a file; give a folder"),
        (["split", "EDGES", "-o", "STORE"], "holds graph, which no split wrote"),
        (["split", "EDGES", "-o", "NEW", "--protocol", "paper"], "--protocol paper: files hold a heldout split only"),
        (["split", "STORE", "-o", "NEW", "--directed"], "keeps no directions"),
        (["split", "STORE", "-o", "NEW", "--features", "VECTORS"], "leave --features out"),
        (["split", "NOWHERE.csv", "-o", "NEW"], "no such file"),
        (["split", "TINY", "-o", "NEW"], "leave none to train on"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    run, ask, files, vectors, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    ask("split", files[2], "-o", tmp_path / "split")
    write_embedding(tmp_path / "out.npy", vectors)
    write_embedding(tmp_path / "few.csv", vectors[:2])
    (tmp_path / "tiny.csv").write_text("a,b\nb,c\n")
    places = {"SPLIT": "split", "VECTORS": "out.npy", "FEW": "few.csv", "NEW": "new", "TINY": "tiny.csv"}
    places |= {"EDGES": files[0], "STORE": files[2], "NOWHERE": "nowhere", "NOWHERE.csv": "nowhere.csv"}
    code, out, err = run(*(places.get(each, each) for each in arguments))
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("l2g2g: ")
    assert message in last
    assert not (tmp_path / "new").exists()


def test_a_training_edge_that_is_tested_is_refused(run, ask, files, tmp_path):
    ask("split", files[2], "-o", tmp_path / "split")
    (path,) = (tmp_path / "split").glob("train.parquet")
    train, test = pq.read_table(path), pq.read_table(path.with_name("test.parquet"))
    pq.write_table(pa.concat_tables([train, test.slice(2, 1)]), path)
    code, _, err = run("evaluate", files[2], "--split", tmp_path / "split", "--quiet")
    assert code == 2
    assert f"train.parquet: row {train.num_rows + 1}: " in err
    assert "is also in test.parquet, row 3; keep it in one file" in err


def test_a_split_larger_than_the_limit_of_memory_is_refused(run, ask, files, tmp_path, monkeypatch):
    ask("split", files[2], "-o", tmp_path / "split")
    monkeypatch.setattr("l2g2g.runs.environment.resident_memory", lambda: 10**9 - 4000)
    code, _, err = run("evaluate", files[2], "--split", tmp_path / "split", "--memory", "1GB", "--quiet")
    assert code == 3
    assert "train.parquet: unpacks to at least" in err
