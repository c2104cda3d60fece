"""Records of runs: what was trained, scored and cleaned is what the run directory keeps."""

from dataclasses import replace

import numpy as np
import pytest

from l2g2g import GAE, L2G2G, record_keeping
from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.evaluation.links import evaluate_links
from l2g2g.experiment import embed_graph, evaluate_graph
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import open_graph, write_graph
from l2g2g.record_graph import sample_pairs
from l2g2g.record_keeping import keep_record, list_rows, make_record, open_record
from l2g2g.run_directory import open_run
from l2g2g.scoring import pair_scorer

SMALL = {"dim": 4, "hidden": 8, "patches": 3, "threads": 1, "epochs": 6}


def embed(graph, folder, *, resume=False, validation=0.05, method="l2g2g", **options):
    """(run, record) of an embedding with a run directory."""
    config = make_config(method, **{**SMALL, **options})
    with open_run(folder, resume=resume) as directory:
        run = embed_graph(graph, config, directory=directory, validation_fraction=validation)
        keep_record(directory, "embed", graph, run, {"epochs": 6, "output": "/home/me/x"}, arguments=["embed", "x"])
    return run, open_record(folder)


def test_the_record_holds_the_run(noisy, tmp_path):
    run, record = embed(noisy, tmp_path)
    assert np.array_equal(record.vectors, run.embedding)
    assert np.array_equal(record.degrees, noisy.degrees)
    assert np.array_equal(np.array(record.classes).astype(int)[record.labels], noisy.labels)
    assert (record.edges + record.edges.T != (noisy.adjacency != 0)).nnz == 0
    assert record.history == run.trained.history
    assert record.settings == run.config.to_dict()
    assert record.graph.cleaning == noisy.cleaning
    # Without the folder of the output, with what turns scores into probabilities.
    assert record.row == {"epochs": 6, "link_model": run.inspection.link_model}
    assert record.command == "l2g2g embed x"
    assert record.versions.keys() >= {"python", "torch", "l2g2g"}
    assert record.patches.sizes == run.patch_set.sizes.tolist()
    assert record.patches.overlaps == run.patch_set.overlaps.sizes.tolist()
    held = [np.flatnonzero(record.home == patch) for patch in range(3)]
    assert all(set(nodes) <= set(run.patch_set.nodes_of(patch)) for patch, nodes in enumerate(held))
    assert record.residuals.max() > 0
    assert np.array_equal(record.tensors["patches.nodes"], run.patch_set.global_nodes)


def test_validation_scores_are_those_of_training(noisy, tmp_path):
    _, record = embed(noisy, tmp_path, method="gae", patience=3)
    assert record.separation.kind == "validation"
    assert record.separation.auc.value == pytest.approx(max(score for _, score in record.history.validations), abs=1e-6)


def test_test_scores_are_those_of_the_evaluation(noisy, tmp_path):
    config = make_config("l2g2g", **SMALL)
    with open_run(tmp_path) as directory:
        row, run = evaluate_graph(noisy, config, directory=directory)
        keep_record(directory, "l2g2g-seed-0", noisy, run, row)
    record = open_record(tmp_path)
    assert record.separation.kind == "test"
    test = split_links(noisy, seed=0).test
    scores = evaluate_links(record.vectors, test, pair_scorer(run.trained.model))
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
    monkeypatch.setattr(record_keeping, "_FEW_BYTES", 100)
    assert noisy.num_edges > noisy.num_nodes * SMALL["dim"]
    assert embed(noisy, tmp_path)[1].edges is None


def test_residuals_shrink_by_alignment(noisy, tmp_path):
    _, record = embed(noisy, tmp_path, method="gae+l2g")
    assert record.patches.after < record.patches.before
    assert not record.patches.final_pass


def test_estimators_keep_records_too(noisy, tmp_path):
    options = {"dim": 4, "epochs": 3, "threads": 1}
    model = L2G2G(patches=2, run_dir=str(tmp_path / "run"), **options).fit(noisy)
    record = open_record(tmp_path / "run")
    assert np.array_equal(record.vectors, model.embedding_)
    assert record.labels is not None
    GAE(**options).fit(noisy).save(tmp_path / "model")
    bare = open_record(tmp_path / "model")
    assert (bare.name, bare.labels, bare.separation, bare.graph.cleaning) == ("model", None, None, None)
    assert np.array_equal(bare.degrees, noisy.degrees)
    assert bare.graph.num_edges == noisy.num_edges


def test_graphs_on_disk_have_records_too(noisy, tmp_path):
    folder = tmp_path / "store"
    write_graph(noisy, folder)
    stored = open_graph(folder)
    run, whole = embed(noisy, tmp_path / "run", validation=0.0)
    record = make_record("embed", stored, run, {})
    for name in ("degrees", "labels", "vectors"):
        assert np.array_equal(getattr(record, name), getattr(whole, name)), name
    assert (record.edges != whole.edges).nnz == 0
    assert record.classes == whole.classes
    assert record.graph == whole.graph
    assert record.separation.kind == "training"
    pairs = sample_pairs(stored, 50, np.random.default_rng(0))
    joined = noisy.adjacency.toarray() > 0
    assert joined[tuple(pairs.positive.T)].all()
    assert not joined[tuple(pairs.negative.T)].any()
    assert len(pairs.positive) == len(pairs.negative) == 50
    assert (pairs.negative[:, 0] != pairs.negative[:, 1]).all()


def test_a_record_beyond_the_memory_limit_is_left_out_with_a_word(noisy, tmp_path):
    folder = tmp_path / "store"
    write_graph(noisy, folder)
    run, _ = embed(noisy, tmp_path / "run")
    small = replace(run, config=replace(run.config, memory=1000))
    with open_run(tmp_path / "other") as directory, pytest.warns(UserWarning, match="no record is kept"):
        keep_record(directory, "embed", open_graph(folder), small, {})
    with pytest.raises(InputError, match="no run has finished here"):
        open_record(tmp_path / "other")


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such run directory"):
        open_record(tmp_path / "none")
    with pytest.raises(InputError, match="no run has finished here"):
        open_record(tmp_path)
