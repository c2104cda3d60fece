import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from usearch.index import Index

from l2g2g import GAE
from l2g2g.estimators.estimator import load_model
from l2g2g.graphs.write import write_embedding

NAMES = np.array([f"n{number}" for number in range(120)], dtype=object)


@pytest.fixture(scope="module")
def model(noisy):
    return GAE(dim=8, epochs=20, seed=0).fit(noisy)


@pytest.fixture(scope="module")
def edges(tmp_path_factory, noisy):
    path = tmp_path_factory.mktemp("graph") / "edges.csv"
    lines = [f"n{u},n{v}" for u, v in zip(*noisy.edges(), strict=True)]
    path.write_text("source,target\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", params=[".parquet", ".csv", ".txt", ".npy", "/"])
def vectors(request, model, tmp_path_factory):
    path = f"{tmp_path_factory.mktemp('vectors')}/out{request.param}"
    write_embedding(path, model.embedding_, NAMES)
    return path


@pytest.fixture(scope="module")
def one_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "out.parquet"
    write_embedding(path, model.embedding_, NAMES)
    return path


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model.save(path)
    return path


def test_neighbours_from_every_format(run, vectors, model):
    code, out, err = run("neighbours", vectors, "n3", "n9", "-k", 4, "--json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["node"] for row in rows] == ["n3", "n9"]
    expected = model.neighbours([3, 9], k=4)
    for row, nodes, scores in zip(rows, expected.nodes, expected.scores, strict=True):
        assert [item["node"] for item in row["neighbours"]] == [f"n{node}" for node in nodes]
        np.testing.assert_allclose([item["score"] for item in row["neighbours"]], scores, rtol=1e-4)
        assert (row["exact"], row["recall"], row["metric"]) == (True, None, "cosine")


def test_neighbours_for_people(run, one_file):
    code, out, _ = run("neighbours", one_file, "n3", "-k", 2)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "n3"
    assert len(lines) == 3
    assert lines[1].startswith("  n")


def test_neighbours_of_a_saved_model_by_its_decoder(run, folder, model):
    code, out, _ = run("neighbours", folder, "3", "-k", 2, "--metric", "decoder", "--json")
    assert code == 0
    found = json.loads(out)
    expected = model.neighbours([3], k=2, metric="decoder")
    assert [item["node"] for item in found["neighbours"]] == expected.nodes[0].tolist()


def test_all_nodes_into_a_table(run, one_file, tmp_path):
    code, out, _ = run("neighbours", one_file, "--all", "-k", 3, "-o", tmp_path / "near.parquet", "-q")
    assert (code, out) == (0, "")
    table = pq.read_table(tmp_path / "near.parquet").to_pydict()
    assert len(table["node"]) == 360
    assert table["rank"][:3] == [1, 2, 3]


def test_the_index_is_a_file_that_usearch_reads(run, one_file, tmp_path, model):
    code, out, _ = run("neighbours", one_file, "--index", tmp_path / "v.usearch", "--json")
    row = json.loads(out)
    assert code == 0
    assert row["index"] == str(tmp_path / "v.usearch")
    assert (row["num_nodes"], row["dim"], row["metric"]) == (120, 8, "cosine")
    assert row["recall"] > 0.9
    index = Index.restore(str(tmp_path / "v.usearch"))
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    found = index.search(unit[3].astype(np.float32), 5)
    assert found.keys[0] == 3
    assert set(found.keys[1:].tolist()) == set(model.neighbours([3], k=4).nodes[0].tolist())
    _, _, err = run("neighbours", one_file, "--index", tmp_path / "v.usearch")
    assert "v.usearch: index of 120 vectors by cosine; it finds " in err


def test_an_index_in_a_file_says_its_recall(run, one_file, tmp_path):
    code, out, _ = run("neighbours", one_file, "n3", "--index", tmp_path / "index", "--json")
    row = json.loads(out)
    assert (code, row["exact"]) == (0, False)
    assert 0.9 < row["recall"] <= 1
    _, _, err = run("neighbours", one_file, "n3", "--index", tmp_path / "index")
    assert "of the true neighbours" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nn3"], "no node 'nn3'; did you mean 'n3'"),
        ([], "name the nodes"),
        (["n3", "--all"], "not both"),
        (["n3", "-k", "0"], "at least 1"),
        (["n3", "--metric", "inne"], "did you mean 'inner'"),
        (["n3", "--exact", "--index", "x"], "give one of them"),
        (["n3", "-o", "x.html"], "unknown ending"),
    ],
)
def test_one_line_for_what_cannot_be_done(run, one_file, arguments, message):
    code, out, err = run("neighbours", one_file, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_no_such_embedding(run, tmp_path):
    code, _, err = run("neighbours", tmp_path / "nothing.npy", "n1")
    assert code == 2
    assert "no such embedding file" in err


def test_pairs_by_inner_product(run, one_file, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("n1,n2\nn3,n100\n")
    code, out, err = run("predict", one_file, "--pairs", tmp_path / "pairs.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert err.splitlines() == [
        f"read {tmp_path / 'pairs.csv'}: no header, first row is an edge",
        "probabilities are not calibrated: no validation pairs are kept here",
    ]
    assert [(row["source"], row["target"]) for row in rows] == [("n1", "n2"), ("n3", "n100")]
    score = model.embedding_[1] @ model.embedding_[2]
    assert float(rows[0]["score"]) == pytest.approx(score, rel=1e-4)
    assert float(rows[0]["probability"]) == pytest.approx(1 / (1 + np.exp(-score)), rel=1e-4)


def test_pairs_by_the_decoder_of_a_model(run, folder, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("1,2\n3,100\n")
    code, out, _ = run("predict", folder, "--pairs", tmp_path / "pairs.csv", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    np.testing.assert_allclose([row["probability"] for row in rows], model.predict_links([(1, 2), (3, 100)]))


def test_top_links_of_a_file_and_its_graph(run, one_file, edges, noisy, tmp_path):
    code, out, err = run("predict", one_file, "--top", 12, "--graph", edges, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(rows)) == (0, "", 12)
    assert all(row["recall"] is None for row in rows)
    ends = np.array([[int(row["source"][1:]), int(row["target"][1:])] for row in rows])
    assert not noisy.adjacency.toarray()[ends[:, 0], ends[:, 1]].any()
    code, out, err = run("predict", one_file, "--top", 12, "--graph", edges, "-o", tmp_path / "top.csv")
    assert (code, out) == (0, "")
    assert "12 links by --scorer vectors, exact" in err
    assert "not calibrated" in err
    with (tmp_path / "top.csv").open(newline="") as file:
        assert [row["source"] for row in csv.DictReader(file)] == [row["source"] for row in rows]


@pytest.mark.parametrize("decoder", ["inner", "product", "distance"])
def test_a_run_directory_knows_its_decoder_and_its_edges(run, edges, noisy, tmp_path, decoder):
    folder, output = tmp_path / "run", tmp_path / "out.npy"
    fast = ["--epochs", 5, "--dim", 4, "--patches", 2, "--decoder", decoder]
    assert run("embed", edges, "-o", output, "--run-dir", folder, "-q", *fast)[0] == 0
    code, out, err = run("predict", folder, "--top", 5, "--json", "--scorer", "vectors")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    ends = np.array([[int(row[end][1:]) for end in ("source", "target")] for row in rows])
    assert not noisy.adjacency.toarray()[ends[:, 0], ends[:, 1]].any()
    lines = "".join(f"{row['source']},{row['target']}\n" for row in rows)
    (tmp_path / "pairs.csv").write_text(lines)
    _, out, _ = run("predict", folder, "--pairs", tmp_path / "pairs.csv", "--json", "--scorer", "vectors")
    again = [json.loads(line)["probability"] for line in out.splitlines()]
    np.testing.assert_allclose(again, [row["probability"] for row in rows], rtol=1e-4)
    plain = json.loads(run("predict", output, "--pairs", tmp_path / "pairs.csv", "--json")[1].splitlines()[0])
    assert plain["score"] != pytest.approx(rows[0]["score"], rel=1e-6)  # a file has no bias and no decoder


@pytest.fixture(scope="module")
def finished(tmp_path_factory, edges):
    """A run with enough validation pairs for a link model."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    generator = np.random.default_rng(0)
    sources, targets = np.triu_indices(200, 1)
    chosen = generator.random(len(sources)) < np.where(sources // 20 == targets // 20, 0.5, 0.01)
    pairs = np.stack([sources[chosen], targets[chosen]], axis=1)
    hidden = generator.random(len(pairs)) < 0.1
    graph = folder.parent / "graph.csv"
    graph.write_text("".join(f"n{u},n{v}\n" for u, v in pairs[~hidden]))
    from l2g2g import cli

    with pytest.raises(SystemExit) as stop:
        cli.main(["embed", str(graph), "-o", str(folder.parent / "out.npy"), "--run-dir", str(folder), "-q"])
    assert stop.value.code == 0
    return folder, {(f"n{u}", f"n{v}") for u, v in pairs[hidden]}


@pytest.mark.slow
@pytest.mark.parametrize("scorer", ["vectors", "combined", "auto"])
def test_the_expected_precision_of_a_list_is_near_the_true_one(run, finished, scorer):
    folder, hidden = finished
    options = "--top", 100, "--scorer", scorer, "--missing-share", 0.11
    code, out, err = run("predict", folder, *options, "--json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0].keys() >= {"source", "target", "probability", "score", "recall", "scorer", "missing_share"}
    assert rows[0]["scorer"] in (("vectors", "combined") if scorer == "auto" else (scorer,))
    expected, pairs = rows[0]["expected_precision"], {(row["source"], row["target"]) for row in rows}
    assert expected == pytest.approx(np.mean([row["probability"] for row in rows]), rel=1e-6)
    observed = np.mean([pair in hidden or pair[::-1] in hidden for pair in pairs])
    assert observed > 0.05
    assert 0.5 < expected / observed < 2
    code, _, err = run("predict", folder, *options)
    assert f"100 links by --scorer {rows[0]['scorer']}" in err
    assert "are expected to be links, assuming that 11 % as many links are missing as are known" in err


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("scorer", ["auto", "vectors"])
def test_python_gives_the_probabilities_of_the_command(run, finished, scorer):
    folder, _ = finished
    _, out, _ = run("predict", folder, "--top", 20, "--scorer", scorer, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    loaded = load_model(folder)
    found = loaded.top_links(20, scorer=scorer)
    assert found.sources.tolist() == [row["source"] for row in rows]
    np.testing.assert_allclose(found.probabilities, [row["probability"] for row in rows], rtol=1e-5)
    pairs = list(zip(found.sources.tolist(), found.targets.tolist(), strict=True))
    np.testing.assert_allclose(loaded.predict_links(pairs, scorer=scorer), found.probabilities, rtol=1e-4)


def test_pairs_have_the_probabilities_of_the_list(run, finished, tmp_path):
    folder, _ = finished
    _, out, _ = run("predict", folder, "--top", 5, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    (tmp_path / "pairs.csv").write_text("".join(f"{row['source']},{row['target']}\n" for row in rows))
    code, out, err = run("predict", folder, "--pairs", tmp_path / "pairs.csv", "--json")
    assert (code, err) == (0, "")
    again = [json.loads(line) for line in out.splitlines()]
    assert "expected_precision" not in again[0]
    np.testing.assert_allclose([row["probability"] for row in again], [row["probability"] for row in rows], rtol=1e-3)
    code, _, err = run("predict", folder, "--top", 5, "--missing-share", 0, "-q")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "--missing-share is 0" in err


def test_a_training_of_an_evaluation_by_its_name(run, edges, tmp_path):
    folder = tmp_path / "run"
    fast = ["--epochs", 2, "--dim", 4, "--patches", 2, "--run-dir", folder, "--json"]
    assert run("evaluate", edges, "-m", "gae", "-m", "l2g2g", *fast)[0] == 0
    code, _, _ = run("neighbours", folder, "n3", "--training", "l2g2g-seed-0")
    assert code == 0
    code, _, err = run("neighbours", folder, "n3", "--training", "vgae-seed-0")
    assert code == 2
    assert "it holds gae-seed-0, l2g2g-seed-0" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--pairs FILE"),
        (["--top", "3", "--pairs", "x.csv"], "not both"),
        (["--top", "3"], "--graph"),
        (["--top", "0", "--graph", "EDGES"], "at least 1"),
        (["--pairs", "missing.csv"], "no such file of pairs"),
        (["--top", "3", "--graph", "EDGES", "--scorer", "best"], "choose from vectors, combined, auto"),
        (["--top", "3", "--graph", "EDGES", "--scorer", "combined"], "--scorer combined is fitted to validation pairs"),
        (["--top", "3", "--graph", "EDGES", "--missing-share", "0.1"], "no validation pairs to calibrate by"),
        (["--top", "3", "--features", "EDGES"], "--features belong to the nodes of --graph"),
    ],
)
def test_one_line_for_what_cannot_be_predicted(run, one_file, edges, arguments, message):
    code, out, err = run("predict", one_file, "-q", *[edges if word == "EDGES" else word for word in arguments])
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
