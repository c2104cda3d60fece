"""`l2g2g cluster` and `l2g2g classify` on a run and on files: tables, what is said about them, and what is refused."""

import json

import duckdb
import numpy as np
import pandas as pd
import pytest

from l2g2g import classify_nodes, find_clusters, read_embedding
from l2g2g.graphs.write import write_embedding

BLOCKS = np.repeat(np.arange(4), 30)
NAMES = [f"n{row}" for row in range(120)]


@pytest.fixture(scope="module")
def files(tmp_path_factory, planted):
    """An embedding file of four groups, its graph and labels of half its nodes."""
    folder = tmp_path_factory.mktemp("analyse")
    noise = np.random.default_rng(0).normal(size=(120, 6))
    write_embedding(folder / "v.parquet", np.eye(6)[BLOCKS] + 0.1 * noise, np.array(NAMES, dtype=object))
    lines = [f"n{u},n{v}" for u, v in zip(*planted.edges(), strict=True)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    labels = [f"n{row},block {BLOCKS[row]},{row}" for row in range(0, 120, 2)]
    (folder / "labels.csv").write_text("id,group,rank\n" + "\n".join(labels) + "\n")
    return folder


def test_clusters_of_a_file(run, files, tmp_path):
    code, out, err = run("cluster", files / "v.parquet", "-o", tmp_path / "c.csv")
    assert (code, err) == (0, f"wrote {tmp_path / 'c.csv'}\n")
    assert "4 clusters by kmeans, the count of the highest silhouette" in out
    assert "modularity" not in out
    table = pd.read_csv(tmp_path / "c.csv", index_col="id")
    ids, vectors = read_embedding(files / "v.parquet")
    expected = find_clusters(vectors, ids).to_pandas()
    assert table["cluster"].tolist() == expected["cluster"].tolist()
    assert table.loc["n5", "similarity"] == pytest.approx(expected.loc["n5", "similarity"], abs=1e-6)
    assert len(set(table["cluster"].iloc[:30])) == 1


def test_the_graph_gives_the_modularity(run, files):
    code, out, _ = run("cluster", files / "v.parquet", "--graph", files / "edges.csv", "--json")
    row = json.loads(out)
    assert code == 0
    assert (row["num_clusters"], row["criterion"], row["sizes"]) == (4, "modularity", [30] * 4)
    assert row["modularity"] == max(row["criterion_by_count"].values()) > 0.5
    assert row["silhouette"] > 0.8
    assert row["nodes"]["id"] == NAMES
    assert {name: len(values) for name, values in row["nodes"].items()} == dict.fromkeys(
        ("id", "cluster", "similarity"), 120
    )


def test_without_an_output_there_is_a_summary_and_not_every_node(run, files):
    code, out, err = run("cluster", files / "v.parquet", "-k", 3)
    assert (code, len(out.splitlines())) == (0, 4)
    assert err == "the table of all 120 nodes: -o FILE (.csv, .parquet or .jsonl), or --json\n"
    arguments = ("classify", files / "v.parquet", "--labels", files / "labels.csv", "--column", "group")
    code, out, err = run(*arguments)
    assert (code, len(out.splitlines()), len(err.splitlines())) == (0, 1, 1)
    assert run(*arguments, "-q") == (0, "", "")


def test_classes_from_labels_of_half_the_nodes(run, files, tmp_path):
    arguments = ("classify", files / "v.parquet", "--labels", files / "labels.csv")
    code, out, _ = run(*arguments, "--column", "group", "-o", tmp_path / "p.parquet", "--json")
    row = json.loads(out)
    assert code == 0
    assert (row["num_labelled"], row["num_classes"], row["majority"]) == (60, 4, 0.25)
    assert row["accuracy_low"] < row["accuracy"] == 1
    table = pd.read_parquet(tmp_path / "p.parquet").set_index("id")
    assert table["predicted"].tolist() == [f"block {block}" for block in BLOCKS]
    assert table.loc["n1", "label"] == ""
    assert table.loc["n2", "label"] == "block 0"
    ids, vectors = read_embedding(files / "v.parquet")
    expected = classify_nodes(vectors, table["label"].tolist(), ids).to_pandas()
    np.testing.assert_allclose(table["confidence"], expected["confidence"], rtol=1e-5)
    code, out, _ = run(*arguments, "--column", "group", "--classifier", "knn", "-o", tmp_path / "p.csv")
    assert code == 0
    assert "accuracy 100.0 % on held-out labels (95 % interval 94.0 to 100.0 %), the largest class alone 25.0 %" in out


def test_what_cannot_be_done_is_told_in_one_line(run, files, tmp_path):
    for arguments, message in (
        (["cluster", tmp_path / "none"], "no such embedding file or run directory"),
        (["cluster", files / "v.parquet", "-o", "c.txt"], "unknown ending"),
        (["cluster", files / "v.parquet", "--method", "dbscan"], "choose from kmeans, hdbscan"),
        (["classify", files / "v.parquet"], "keeps no labels; give them with --labels FILE"),
        (["classify", files / "v.parquet", "--labels", files / "labels.csv"], "--column with one of group, rank"),
        (["classify", files / "v.parquet", "--labels", files / "labels.csv", "--column", "x"], "no column 'x'"),
        (["classify", files / "v.parquet", "--training", "x"], "is an embedding file"),
    ):
        code, _, err = run(*arguments)
        assert code == 2
        (line,) = err.splitlines()
        assert message in line


def test_duckdb_reads_the_embedding_and_joins_the_tables(run, files, tmp_path):
    code, _, _ = run("cluster", files / "v.parquet", "-o", tmp_path / "c.parquet", "-q")
    assert code == 0
    ids, vectors = read_embedding(files / "v.parquet")
    nearest = duckdb.sql(
        f"""SELECT b.id, list_cosine_similarity(a.embedding, b.embedding) AS cosine
        FROM '{files}/v.parquet' a, '{files}/v.parquet' b WHERE a.id = 'n7' AND b.id <> 'n7'
        ORDER BY cosine DESC LIMIT 5"""
    ).fetchall()
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units[7]
    order = [row for row in np.argsort(-cosines) if row != 7][:5]
    assert [name for name, _ in nearest] == [ids[row] for row in order]
    np.testing.assert_allclose([cosine for _, cosine in nearest], cosines[order], rtol=1e-5)
    counts = duckdb.sql(
        f"""SELECT cluster, count(*) FROM '{files}/labels.csv' JOIN '{tmp_path}/c.parquet' USING (id)
        WHERE "group" = 'block 2' GROUP BY cluster"""
    ).fetchall()
    assert [count for _, count in counts] == [15]
