"""Finished runs: what was trained, scored and cleaned is what the run directory keeps."""

import numpy as np
import pytest

from l2g2g import GAE, L2G2G
from l2g2g.config import make_config
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import write_graph
from l2g2g.runs import finished
from l2g2g.runs.artefact import open_artefact
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.finished import describe_run, keep_run, sample_pairs
from l2g2g.runs.record import list_rows, read_record
from l2g2g.runs.run_directory import open_run

SMALL = {"dim": 4, "hidden": 8, "patches": 3, "threads": 1, "epochs": 6, "structure": "none"}


def embed(graph, folder, *, resume=False, validation=0.05, method="l2g2g", **options):
    """(run, record) of an embedding with a run directory."""
    config = make_config(method, **{**SMALL, **options})
    with open_run(folder, resume=resume) as directory:
        run = embed_graph(graph, config, directory=directory, validation_fraction=validation, keep=True)
        keep_run(directory, "embed", graph, run, {"epochs": 6, "output": "/home/me/x"}, arguments=["embed", "x"])
    return run, read_record(open_artefact(folder))


def test_the_record_holds_the_run(noisy, tmp_path):
    run, record = embed(noisy, tmp_path)
    assert np.array_equal(record.vectors, run.embedding)
    assert np.array_equal(record.degrees, noisy.degrees)
    assert np.array_equal(np.array(record.classes).astype(int)[record.labels], noisy.labels)
    assert (record.edges + record.edges.T != (noisy.adjacency != 0)).nnz == 0
    assert record.history == run.trained.history
    assert record.settings == run.config.to_dict()
    assert record.graph.cleaning == noisy.cleaning
    assert record.row == {"epochs": 6}  # without the folder of the output
    assert open_artefact(tmp_path).values["link_model"] == run.inspection.link_model
    assert record.command == "l2g2g embed x"
    assert record.versions.keys() >= {"python", "torch", "l2g2g"}
    assert record.patches.sizes == run.patch_set.sizes.tolist()
    assert record.patches.overlaps == run.patch_set.overlaps.sizes.tolist()
    held = [np.flatnonzero(record.home == patch) for patch in range(3)]
    assert all(set(nodes) <= set(run.patch_set.nodes_of(patch)) for patch, nodes in enumerate(held))
    assert record.residuals.max() > 0
    assert np.array_equal(open_artefact(tmp_path).arrays["patch_nodes"], run.patch_set.global_nodes)


def test_validation_scores_are_those_of_training(noisy, tmp_path):
    _, record = embed(noisy, tmp_path, method="gae", patience=3)
    assert record.separation.kind == "validation"
    assert record.separation.auc.value == pytest.approx(max(score for _, score in record.history.validations), abs=1e-6)


def test_test_scores_are_those_of_the_evaluation(noisy, tmp_path):
    config = make_config("l2g2g", **SMALL)
    with open_run(tmp_path) as directory:
        row, run = evaluate_graph(noisy, config, directory=directory)
        keep_run(directory, "l2g2g-seed-0", noisy, run, row)
    record = read_record(open_artefact(tmp_path))
    assert record.separation.kind == "test"
    test = split_links(noisy, seed=0).test
    scores = evaluate_links(record.vectors, test, run.trained.model.decoder.score)
    assert (record.separation.auc.value, row["auc"]) == pytest.approx((scores.auc, scores.auc), abs=1e-9)
    assert [each["name"] for each in list_rows(tmp_path)] == ["l2g2g-seed-0"]


def test_without_validation_the_scores_are_those_of_learned_edges(noisy, tmp_path):
    _, record = embed(noisy, tmp_path, validation=0.0)
    assert record.separation.kind == "training"
    assert sum(record.separation.edges) == noisy.num_edges


def test_where_every_pair_is_an_edge_nothing_is_scored(tmp_path):
    pairs = np.triu_indices(6, 1)
    complete = Graph.from_arcs(*pairs, features=np.random.default_rng(0).normal(size=(6, 5)))
    _, record = embed(complete, tmp_path, method="gae", validation=0.0)
    assert record.separation is None


def test_a_resumed_run_ends_with_the_same_record(noisy, tmp_path):
    _, first = embed(noisy, tmp_path)
    _, again = embed(noisy, tmp_path, resume=True)
    assert again.vectors.tobytes() == first.vectors.tobytes()
    assert again.separation == first.separation
    assert again.patches == first.patches


def test_very_many_edges_are_not_kept(noisy, tmp_path, monkeypatch):
    monkeypatch.setattr(finished, "_FEW_BYTES", 100)
    assert noisy.num_edges > noisy.num_nodes * SMALL["dim"]
    assert embed(noisy, tmp_path)[1].edges is None


def test_residuals_shrink_by_alignment(noisy, tmp_path):
    _, record = embed(noisy, tmp_path, method="gae+l2g")
    assert record.patches.after < record.patches.before
    assert not record.patches.final_pass


def test_estimators_keep_records_too(noisy, tmp_path):
    options = {"dim": 4, "epochs": 3, "threads": 1}
    model = L2G2G(patches=2, run_dir=str(tmp_path / "run"), **options).fit(noisy)
    record = read_record(open_artefact(tmp_path / "run"))
    assert np.array_equal(record.vectors, model.embedding_)
    assert record.labels is not None
    GAE(**options).fit(noisy).save(tmp_path / "model")
    saved = read_record(open_artefact(tmp_path / "model"))
    assert (saved.separation.kind, saved.graph.cleaning) == ("validation", noisy.cleaning)
    assert np.array_equal(saved.degrees, noisy.degrees)
    assert (saved.edges + saved.edges.T != (noisy.adjacency != 0)).nnz == 0


@pytest.mark.slow
def test_a_graph_on_disk_gives_the_same(noisy, tmp_path):
    stored = write_graph(noisy, tmp_path / "store")
    run, _ = embed(noisy, tmp_path / "run", validation=0.0)
    one, other = (describe_run(graph, run, {}).in_memory() for graph in (noisy, stored))
    assert one.values == other.values
    assert one.values["separation"]["kind"] == "training"
    assert one.arrays.keys() == other.arrays.keys()
    for name in one.arrays:
        assert np.array_equal(one.arrays[name], other.arrays[name]), name


def test_sampled_pairs_are_edges_and_others(noisy, tmp_path):
    stored = write_graph(noisy, tmp_path / "store")
    pairs, joined = sample_pairs(noisy, 50, 3), noisy.adjacency.toarray() > 0
    assert joined[tuple(pairs.positive.T)].all()
    assert not joined[tuple(pairs.negative.T)].any()
    assert len(pairs.positive) == len(pairs.negative) == 50
    assert (pairs.negative[:, 0] != pairs.negative[:, 1]).all()
    again = sample_pairs(stored, 50, 3)
    assert np.array_equal(again.positive, pairs.positive)
    assert np.array_equal(again.negative, pairs.negative)
