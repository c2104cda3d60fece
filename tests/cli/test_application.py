"""The command line as contracted in DESIGN.md section 5: fields, streams and exit codes."""

import json
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from l2g2g import cli
from l2g2g.cli.help import BASELINE_NAMES
from l2g2g.errors import InputError, Interrupted
from l2g2g.graphs.block_model import BlockModel

FAST = ["--epochs", "3", "--dim", "4", "--patches", "2"]
EMBED_FIELDS = {
    *("num_nodes", "dim", "method", "preset", "epochs", "resumed_from_epoch", "num_patches"),
    *("seconds", "peak_memory_bytes", "output"),
}
EVALUATE_FIELDS = {
    *("method", "preset", "dataset", "protocol", "seed", "auc", "ap", "num_nodes", "num_edges", "num_features"),
    *("num_patches", "epochs", "dim", "best_auc", "kept_edge_fraction", "node_duplication", "largest_patch_nodes"),
    *("seconds", "peak_memory_bytes"),
}
FURTHER = ["mrr", "hits@1", "hits@10", "hits@50", "probe_accuracy", "probe_macro_f1"]
HARD = ["hard_mrr", "hard_hits@1", "hard_hits@10", "hard_hits@50"]
SECONDS = {"split", "partition", "train", "epoch_median", "synchronise", "assemble", "evaluate", "total"}


@pytest.fixture(scope="module")
def edges(tmp_path_factory, noisy):
    """The noisy planted graph as an edge list with names, and its features by name."""
    folder = tmp_path_factory.mktemp("graph")
    sources, targets = noisy.edges()
    lines = [f"n{u},n{v}" for u, v in zip(sources, targets, strict=True)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    rows = [",".join([f"n{node}", *map(repr, map(float, row))]) for node, row in enumerate(noisy.features)]
    head = ",".join(["id", *(f"f{column}" for column in range(noisy.num_features))])
    (folder / "features.csv").write_text("\n".join([head, *rows]) + "\n")
    return folder / "edges.csv"


@pytest.fixture
def with_features(edges):
    return [edges, "--features", edges.parent / "features.csv"]


def test_embed_prints_one_json_line_and_writes_the_ids(run, edges, with_features, tmp_path):
    output = tmp_path / "out.parquet"
    code, out, err = run("embed", *with_features, "-o", output, "--json", *FAST)
    assert (code, err) == (0, "")
    (line,) = out.splitlines()
    row = json.loads(line)
    assert set(row) >= EMBED_FIELDS
    assert (row["num_nodes"], row["dim"], row["method"], row["preset"]) == (120, 4, "l2g2g", "default")
    assert (row["epochs"], row["resumed_from_epoch"], row["num_patches"]) == (3, 0, 2)
    assert row["output"] == str(output)
    assert row["peak_memory_bytes"] > 2**20
    assert all(seconds >= 0 for seconds in row["seconds"].values())
    table = pq.read_table(output)
    assert table.column_names[0] == "id"
    first_ids = list(dict.fromkeys(",".join(edges.read_text().splitlines()[1:]).split(",")))
    assert table["id"].to_pylist() == first_ids  # order of first appearance
    vectors = np.array(table["embedding"].to_pylist())
    assert vectors.shape == (120, 4)
    assert np.isfinite(vectors).all()
    parts = f"{tmp_path}/parts/"
    code, out, _ = run("embed", *with_features, "-o", parts, "--json", *FAST)
    assert (code, json.loads(out)["output"]) == (0, parts)
    assert pq.read_table(tmp_path / "parts" / "part-00000.parquet").equals(table)


@pytest.fixture(scope="module")
def friends(edges):
    """The same edges under a header of unusual names."""
    path = edges.parent / "friends.csv"
    path.write_text(edges.read_text().replace("source,target", "person,friend"))
    return path


def test_what_the_first_row_was_taken_for_is_told(run, edges, friends, tmp_path):
    few = ["--method", "gae", "--epochs", 1, "--dim", 3]
    store = tmp_path / "store"
    told = f"read {friends}: columns person → friend, header skipped"
    for command in (["embed", friends, "-o", tmp_path / "o.npy", *few], ["prepare", friends, "--store", store]):
        code, out, err = run(*command)
        assert (code, err.splitlines()[0]) == (0, told)
        assert "header" not in out
    assert np.load(tmp_path / "o.npy").shape == (120, 3)
    bare = edges.parent / "bare.csv"
    bare.write_text(edges.read_text().replace("source,target\n", ""))
    _, _, err = run("evaluate", bare, *few)
    assert err.splitlines()[0] == f"read {bare}: no header, first row is an edge"


@pytest.mark.slow
def test_what_the_first_row_was_taken_for_is_not_told_to_programs(run, friends, tmp_path, monkeypatch):
    embed = ["embed", friends, "-o", tmp_path / "o.npy", "--method", "gae", "--epochs", 1, "--dim", 3]
    assert run(*embed, "--quiet") == (0, "", "")
    _, out, err = run(*embed, "--json")
    assert (json.loads(out)["num_nodes"], err) == (120, "")
    assert run("prepare", friends, "--store", tmp_path / "store", "--quiet") == (0, "", "")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert run("plan", friends)[2] == ""


@pytest.mark.parametrize("ending", [".csv", ".txt", ".npy"])
def test_every_output_format(run, edges, tmp_path, ending):
    output = tmp_path / f"out{ending}"
    assert run("embed", edges, "-o", output, "-q", "--method", "gae", "--epochs", 1, "--dim", 3) == (0, "", "")
    if ending == ".npy":
        assert np.load(output).shape == (120, 3)
        first_edge = edges.read_text().splitlines()[1]
        assert (tmp_path / "out.npy.ids.txt").read_text().split()[:2] == first_edge.split(",")
    else:
        first = output.read_text().splitlines()[0].replace('"', "")
        assert first == {".csv": "id,dim_0,dim_1,dim_2", ".txt": "120 3"}[ending]


def test_streams_results_on_stdout_and_messages_on_stderr(run, edges, tmp_path):
    arguments = ["embed", edges, "-o", tmp_path / "out.csv", "--method", "gae", "--epochs", 1]
    code, out, err = run(*arguments)
    assert code == 0
    assert out.startswith(f"{tmp_path / 'out.csv'}: 120 vectors, 16-dimensional, gae, 1 epochs")
    first, second, third = err.splitlines()
    assert first == f"read {edges}: columns source → target, header skipped"
    assert second.startswith("edges: 120 nodes, ")
    assert third.startswith("edges: best on the validation edges: ")
    assert run(*arguments, "--quiet") == (0, "", "")


def test_names_with_brackets_are_printed_as_they_are(run, edges, tmp_path):
    odd = tmp_path / "a[bold]b.csv"
    odd.write_text(edges.read_text())
    _, _, err = run("embed", odd, "-o", tmp_path / "out.csv", "--method", "gae", "--epochs", 0)
    assert err.startswith(f"read {odd}: columns source")
    assert "\na[bold]b: 120 nodes" in err


@pytest.mark.filterwarnings("default")
def test_warnings_are_messages_and_quiet_silences_them(run, tmp_path):
    # Two features cannot fix a rotation in eight dimensions: the alignment says so.
    ring = np.arange(60)
    np.save(tmp_path / "f.npy", np.random.default_rng(0).normal(size=(60, 1)))
    (tmp_path / "e.txt").write_text("\n".join(f"{u} {(u + step) % 60}" for u in ring for step in (1, 2)))
    arguments = ["embed", tmp_path / "e.txt", "--features", tmp_path / "f.npy", "-o", tmp_path / "out.csv"]
    arguments += ["--dim", 8, "--hidden", 2, "--patches", 3, "--epochs", 1, "--rotate", "--no-skip"]
    code, _, err = run(*arguments)
    assert code == 0
    told = [line for line in err.splitlines() if "share nodes that span too few dimensions" in line]
    assert told
    assert all(line.startswith("l2g2g: ") for line in told)
    assert ".py" not in err
    assert run(*arguments, "--quiet") == (0, "", "")
    code, out, err = run(*arguments, "--json")
    assert (code, err, len(out.splitlines())) == (0, "", 1)


def test_evaluate_prints_one_json_line_per_method_and_seed(run, with_features):
    methods = ["gae", "fastgae", "gae+l2g", "l2g2g"]
    asked = [part for method in methods for part in ("--method", method)]
    code, out, err = run("evaluate", *with_features, *asked, "--seeds", 2, "--json", *FAST)
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["seed"], row["method"]) for row in rows] == [(seed, name) for seed in (0, 1) for name in methods]
    for row in rows:
        assert set(row) >= EVALUATE_FIELDS
        assert set(row["seconds"]) >= SECONDS
        assert 0 <= row["auc"] <= 1
        assert 0 <= row["ap"] <= 1
        assert (row["dataset"], row["protocol"], row["best_auc"]) == ("edges", "heldout", None)
        assert (row["num_nodes"], row["num_features"], row["dim"], row["epochs"]) == (120, 12, 4, 3)
        assert row["num_patches"] == (2 if "l2g" in row["method"] else 1)
        assert 0 < row["kept_edge_fraction"] <= 1
        assert row["node_duplication"] >= 1
        assert row["seconds"]["total"] >= row["seconds"]["train"] > 0
    assert rows[0]["auc"] != rows[4]["auc"]


@pytest.mark.slow
def test_evaluate_one_seed_again_gives_the_same_scores(run, edges):
    arguments = ["evaluate", edges, "-m", "l2g2g", "--seed", 7, "--json", *FAST]
    rows = [json.loads(run(*arguments)[1]) for _ in range(2)]
    assert rows[0]["seed"] == 7
    assert (rows[0]["auc"], rows[0]["ap"]) == (rows[1]["auc"], rows[1]["ap"])


def test_block_models_know_their_best_and_the_paper_protocol_is_labelled(run):
    base = ["evaluate", "sbm-small", "--method", "gae", "--epochs", 1, "--json"]
    heldout = json.loads(run(*base)[1])
    assert heldout["best_auc"] == pytest.approx(0.829, abs=0.02)
    assert (heldout["dataset"], heldout["num_nodes"], heldout["num_features"]) == ("sbm-small", 10_000, 100)
    paper = json.loads(run(*base, "--protocol", "paper", "--preset", "paper")[1])
    assert (paper["protocol"], paper["preset"]) == ("paper", "paper")


def test_evaluate_prints_a_table_for_people(run, edges):
    code, out, err = run("evaluate", edges, "--method", "gae", "--quiet", *FAST)
    assert (code, err) == (0, "")
    assert "held-out links" in out
    assert "gae" in out
    _, out, _ = run("evaluate", edges, "--method", "gae", "--protocol", "paper", "--quiet", *FAST)
    assert "self-loops included" in " ".join(out.split())


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Four blocks of 100 nodes as an archive with the blocks' names as labels, and without features."""
    blocks = BlockModel.planted(num_blocks=4, block_size=100, inside=0.15, outside=0.002).sample(0)
    rows = {"adj_indptr": blocks.adjacency.indptr, "adj_indices": blocks.adjacency.indices, "adj_shape": [400, 400]}
    path = tmp_path_factory.mktemp("labelled") / "blocks.npz"
    np.savez(path, **rows, labels=np.array(["north", "east", "south", "west"])[blocks.labels])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "accurate"])  # inner products, and a learned decoder
def test_all_measures_of_a_labelled_graph(run, labelled, preset):
    chosen = ["--preset", preset, "--method", "gae", "--epochs", 60, "--seed", 0, "--json", "--measures", "all"]
    code, out, err = run("evaluate", labelled, *chosen)
    assert (code, err) == (0, "")
    row = json.loads(out)
    assert set(row) >= EVALUATE_FIELDS
    assert row["seconds"].keys() >= {"rank", "probe", *SECONDS}
    assert row["hits@1"] <= row["hits@10"] <= row["hits@50"] <= 1
    assert row["mrr"] > 2 * 0.051  # twice what chance gives
    assert row["probe_accuracy"] > 0.8  # chance gives 0.25
    assert 0 < row["probe_macro_f1"] <= 1
    again = json.loads(run("evaluate", labelled, *chosen)[1])
    assert row["hard_hits@1"] <= row["hard_hits@10"] <= row["hard_hits@50"] <= 1
    assert 0.002 < row["hard_mrr"] <= row["mrr"]  # the last of 501 has 0.002
    assert [again[name] for name in FURTHER + HARD] == [row[name] for name in FURTHER + HARD]


@pytest.mark.slow
def test_measures_that_do_not_apply_are_null(run, edges, labelled):
    base = ["evaluate", "--method", "gae", "--json", *FAST]
    plain = json.loads(run(*base, labelled)[1])
    assert [plain[name] for name in FURTHER + HARD] == [None] * 10
    assert set(plain["seconds"]) == {*SECONDS, "choose"}
    unlabelled = json.loads(run(*base, edges, "--measures", "all")[1])
    assert unlabelled["mrr"] is not None
    assert (unlabelled["probe_accuracy"], unlabelled["probe_macro_f1"]) == (None, None)
    paper = json.loads(run(*base, labelled, "--protocol", "paper", "--measures", "all")[1])
    assert [paper[name] for name in FURTHER[:4]] == [None] * 4  # self-loops cannot be ranked
    assert paper["probe_accuracy"] is not None


BASELINE_OPTIONS = [part for name in BASELINE_NAMES for part in ("-m", name)]


def test_baselines_have_the_fields_of_trained_methods(run, labelled, tmp_path):
    code, out, err = run("evaluate", labelled, *BASELINE_OPTIONS, "--seed", 1, "--dim", 4, "--json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["method"] for row in rows] == list(BASELINE_NAMES)
    for row in rows:
        assert set(row) >= {*EVALUATE_FIELDS, "chosen"}
        assert set(row["seconds"]) >= SECONDS
        assert (row["epochs"], row["num_patches"], row["dim"]) == (0, 1, 4 if row["method"] == "spectral" else 0)
    assert rows[0]["chosen"]["scorer"] in ("inner", "cosine")
    assert run("split", labelled, "-o", tmp_path / "split", "--seed", 1, "-q")[0] == 0
    _, out, _ = run(
        "evaluate", labelled, *BASELINE_OPTIONS, "--split", tmp_path / "split", "--seed", 1, "--dim", 4, "--json"
    )
    pinned = [json.loads(line) for line in out.splitlines()]
    assert [row["auc"] for row in pinned] == [row["auc"] for row in rows]
    assert run("prepare", labelled, "--store", tmp_path / "store", "-q")[0] == 0
    _, out, _ = run("evaluate", tmp_path / "store", *BASELINE_OPTIONS, "--seed", 1, "--dim", 4, "--json")
    stored = [json.loads(line) for line in out.splitlines()]
    assert [row["auc"] for row in stored] == pytest.approx([row["auc"] for row in rows], abs=1e-6)


def test_baselines_stand_in_the_table_beside_a_method(run, labelled):
    code, out, err = run("evaluate", labelled, "-m", "l3", "-m", "gae", "--scorer", "auto", "--quiet", *FAST)
    assert (code, err) == (0, "")
    assert all(word in out for word in ("l3", "gae", "scorer"))
    code, _, err = run("evaluate", labelled, "-m", "spectrl", "-q")
    assert code == 2
    assert "did you mean 'spectral'?" in err


@pytest.mark.parametrize("from_store", [False, True])
def test_the_combined_scorer_is_chosen_and_told(run, labelled, tmp_path, from_store):
    graph = labelled
    if from_store:
        graph = tmp_path / "store"
        assert run("prepare", labelled, "--store", graph, "-q")[0] == 0
    base = ["evaluate", graph, "-m", "gae", "--json", "--structure", "none", *FAST]
    plain, combined, chosen = (json.loads(run(*base, "--scorer", each)[1]) for each in ("vectors", "combined", "auto"))
    assert plain["chosen"] == {"scorer": "vectors"}
    assert combined["chosen"]["scorer"] == "combined"
    assert combined["vectors_auc"] == chosen["vectors_auc"] == plain["auc"]
    told = chosen["chosen"]["validation_auc"]
    better = "combined" if told["combined"] > told["vectors"] else "vectors"
    assert chosen["chosen"]["scorer"] == better
    assert chosen["auc"] == {"combined": combined, "vectors": plain}[better]["auc"]
    code, _, err = run(*base, "--scorer", "other")
    assert code == 2
    assert "unknown scorer 'other'" in err


@pytest.mark.slow
def test_the_table_of_all_measures(run, labelled):
    _, out, _ = run("evaluate", labelled, "--method", "gae", "--quiet", *FAST)
    assert "MRR" not in out
    code, out, err = run("evaluate", labelled, "--method", "gae", "--quiet", "--measures", "all", *FAST)
    assert (code, err) == (0, "")
    assert all(name in out for name in ("MRR", "Hits@10", "probe", "hard negatives"))


def test_datasets_as_table_and_as_json(run, tmp_path):
    np.savez(tmp_path / "my_own.npz", x=np.zeros(1))  # listed, not read
    code, out, err = run("datasets", "--json", "--data-dir", tmp_path)
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert (code, err) == (0, "")
    assert {"sbm-small", "sbm-large-sparse", "sbm-large", "sbm-large-dense", "cora-ml", "my-own"} <= set(rows)
    assert rows["sbm-small"]["num_nodes"] == 10_000
    assert rows["my-own"]["available"]
    assert not rows["cora-ml"]["available"]
    code, out, _ = run("datasets")
    assert code == 0
    assert "sbm-small" in out


def test_named_data_sets_are_found_with_either_spelling(run, noisy, tmp_path):
    matrix = noisy.adjacency
    np.savez(
        tmp_path / "cora_ml.npz",
        adj_data=matrix.data,
        adj_indices=matrix.indices,
        adj_indptr=matrix.indptr,
        adj_shape=matrix.shape,
    )
    for name in ("cora-ml", "cora_ml"):
        code, out, err = run(
            "embed", name, "--data-dir", tmp_path, "-o", tmp_path / "o.csv", "--json", "--method", "gae", "--epochs", 1
        )
        assert (code, err) == (0, "")
        assert json.loads(out)["num_nodes"] == 120


def test_no_validation_trains_on_all_edges(run, edges, tmp_path):
    base = ["embed", edges, "--method", "gae", "--epochs", 3, "--json"]
    run(*base, "-o", tmp_path / "held.npy")
    run(*base, "-o", tmp_path / "all.npy", "--no-validation")
    assert np.abs(np.load(tmp_path / "held.npy") - np.load(tmp_path / "all.npy")).max() > 1e-4


@pytest.mark.slow
def test_options_reach_the_run(run, edges, tmp_path):
    # With an alignment in the loop, which a shared encoder has only where it is asked for.
    base = ["embed", edges, "--json", *FAST, "--rotate", "--translate", "--structure", "none"]
    seen = {}
    for name, extra in {
        "plain": [],
        "random": ["--partition", "random"],
        "linear": ["--encoder", "linear"],
        "layers": ["--layers", "1"],
        "all": ["--pairs", "all"],
        "fixed": ["--negatives", "fixed"],
        "separate": ["--separate-encoders"],
        "still": ["--no-translate"],
        "unturned": ["--no-rotate"],
        "scaled": ["--scale"],
        "often": ["--refresh-every", "1"],
        "fast": ["--lr", "0.1"],
        "seed": ["--seed", "1"],
        "direct": ["--no-skip"],
        "open": ["--mask", "0"],
        "inside": ["--scope", "inside"],
        "mean": ["--assembly", "mean"],
        "share": ["--score-fraction", "0.5"],
        "dropped": ["--feature-dropout", "0.3"],
    }.items():
        code, _, err = run(*base, "-o", tmp_path / f"{name}.npy", *extra)
        assert (code, err) == (0, ""), name
        seen[name] = np.load(tmp_path / f"{name}.npy").tobytes()
    assert len(set(seen.values())) == len(seen)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["embed"], 2, "Missing argument"),
        (["embed", "EDGES", "-o", "o.csv", "--dim", "many"], 2, "--dim"),
        (["embed", "EDGES", "-o", "o.csv", "--nonsense"], 2, "No such option"),
        (["embed", "EDGES", "-o", "o.csv", "--seed", "-1"], 2, "--seed is -1"),
        (["embed", "EDGES", "-o", "o.csv", "-q", "--patches", "500"], 2, "500 patches were asked for"),
        (["embed", "EDGES", "-o", "o.csv", "-q", "--device", "cuda:99", "-m", "gae"], 3, "device 'cuda:99'"),
        (["embed", "EDGES", "-o", "o.csv", "-q", "--lr", "1e20", "-m", "gae", "--epochs", "5"], 4, "learning rate"),
        (["embed", "EDGES", "-o", "o.csv", "-q", "--lr", "1e20", "-m", "gae", "--epochs", "1"], 4, "learning rate"),
        (["evaluate", "EDGES", "--seeds", "2", "--seed", "1"], 2, "not both"),
        (["evaluate", "EDGES", "--seeds", "0"], 2, "--seeds is 0"),
        (["evaluate", "EDGES", "--protocol", "both"], 2, "unknown protocol 'both'"),
        (["evaluate", "EDGES", "--measures", "both"], 2, "unknown measures 'both'"),
        (["evaluate", "EDGES", "--method", "gea"], 2, "did you mean 'gae'"),
        (["datasets", "--data-dir", "/no/such/folder"], 2, "/no/such/folder: no such folder"),
        (["embed", "cora-ml", "-o", "o.csv"], 2, "--data-dir"),
    ],
)
def test_exit_codes_and_one_line_of_explanation(run, edges, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    found, out, err = run(*[edges if argument == "EDGES" else argument for argument in arguments])
    assert (found, out) == (code, "")
    (line,) = err.splitlines()
    assert line.startswith("l2g2g: ")
    assert message in line
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where_it_failed():
    with pytest.raises(InputError, match="no such file"):
        cli.main(["embed", "nothing.csv", "-o", "out.csv", "--debug"])


def test_interruption_leaves_with_130(run, edges, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("l2g2g.training.loop.Training.run", interrupt)
    code, out, err = run("embed", edges, "-o", tmp_path / "out.csv", "-q")
    assert (code, out, err) == (130, "", "l2g2g: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_that_compiled_code_passed_on_as_an_error_is_one(run, edges, tmp_path, monkeypatch):
    def leave(*_, **__):
        raise SystemError("returned a result with an exception set") from Interrupted(signal.SIGTERM)

    monkeypatch.setattr("l2g2g.training.loop.Training.run", leave)
    code, out, err = run("embed", edges, "-o", tmp_path / "out.csv", "-q")
    assert (code, out, err) == (143, "", "l2g2g: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_not_there_leaves_with_3(run, edges, tmp_path, monkeypatch):
    def exhaust(*_, **__):
        raise MemoryError

    monkeypatch.setattr("l2g2g.training.loop.Training.run", exhaust)
    code, _, err = run("embed", edges, "-o", tmp_path / "out.csv", "-q")
    assert code == 3
    assert err.startswith("l2g2g: not enough memory")


def test_help_and_version(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert all(command in out for command in ("embed", "evaluate", "datasets"))
    code, out, _ = run("--version")
    assert code == 0
    assert out.splitlines()[0].startswith("l2g2g ")
    assert all(word in out for word in ("native core", "python", "torch", "device", "threads"))
    assert "numba" not in out
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "embed" in out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["embd"], "Did you mean 'embed'?"),
        (["embed", "x", "--epoch", "3"], "did you mean --epochs?"),
        (["embed", "x", "-o", "out.npy", "-m", "l2g2"], "did you mean 'l2g2g'?"),
        (["embed", "x", "-o", "out.npy", "--preset", "acurate"], "did you mean 'accurate'?"),
        (["embed", "sbm-smal", "-o", "out.npy"], "did you mean 'sbm-small'?"),
        (["embed", "x"], "l2g2g embed --help"),
    ],
)
def test_what_may_be_meant(run, arguments, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert hint in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_as_a_module_and_in_a_new_process(edges, tmp_path):
    """Both streams for real; what a start loads is tested in tests/test_start.py."""
    command = [sys.executable, "-m", "l2g2g", "embed", str(edges), "-o", str(tmp_path / "out.csv")]
    done = subprocess.run(
        [*command, "--json", "-m", "gae", "--epochs", "1"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["num_nodes"] == 120


def test_directed_graphs_end_to_end(run, edges, tmp_path):
    # Names in the edge list are in order, so that every edge points to the larger number.
    code, out, _ = run("evaluate", edges, "-m", "l2g2g", "--directed", "--json", *FAST)
    row = json.loads(out)
    assert code == 0
    assert {"auc_joined", "auc_direction", "num_arcs"} <= set(row)
    assert row["num_arcs"] == row["num_edges"]
    output = tmp_path / "out.npy"
    code, _, _ = run("embed", edges, "-o", output, "--directed", "--quiet", *FAST)
    assert code == 0
    assert np.load(output).shape == (row["num_nodes"], 4)
    code, out, _ = run("evaluate", edges, "-m", "gae", "--json", *FAST)
    assert "auc_direction" not in json.loads(out)


@pytest.mark.parametrize("option", [["--decoder", "cosine"], ["--decoder", "distance"], ["--structure", "blend"]])
def test_decoders_and_inputs_are_options(run, with_features, option):
    code, out, _ = run("evaluate", *with_features, "-m", "gae", "--json", *FAST, *option)
    assert code == 0
    assert 0 <= json.loads(out)["auc"] <= 1


def test_weights_in_the_loss_are_an_option(run, tmp_path):
    lines = [f"{u},{(u + step) % 40},{1 + u % 3}" for u in range(40) for step in (1, 2)]
    path = tmp_path / "weighted.csv"
    path.write_text("\n".join(lines) + "\n")
    code, _, _ = run("evaluate", path, "-m", "gae", "--weighted-loss", "--json", *FAST)
    assert code == 0
    code, _, err = run("evaluate", "sbm-small", "-m", "gae", "--weighted-loss", "--json", *FAST)
    assert (code, "no weights" in err) == (2, True)
    code, _, _ = run("evaluate", path, "-m", "gae", "--negative-sampling", "degree", "--json", *FAST)
    assert code == 0
