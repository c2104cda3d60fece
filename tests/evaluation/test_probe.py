"""Probe: known answers, honest parts, and the optimum of the classifier."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from l2g2g.errors import NumericalError
from l2g2g.evaluation.probe import fit_logistic, predict_classes, probe_labels, split_nodes


@pytest.fixture(scope="module")
def clusters():
    """Three classes of 100, 200 and 300 nodes round their own corners of a cube, overlapping a little."""
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [100, 200, 300])
    return (3 * np.eye(3)[labels] + generator.normal(size=(600, 3))).astype(np.float32), labels


def test_vectors_that_hold_the_class_are_read_perfectly(clusters):
    _, labels = clusters
    scores = probe_labels(np.eye(3, dtype=np.float32)[labels], labels)
    assert (scores.accuracy, scores.macro_f1, scores.num_classes, scores.num_small_classes) == (1, 1, 3, 0)


def test_vectors_that_know_nothing_are_at_chance():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], 2000)
    found = [probe_labels(generator.normal(size=(4000, 4)), labels, seed=seed).accuracy for seed in range(5)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.02)


def test_constant_vectors_tell_the_largest_class(clusters):
    _, labels = clusters
    scores = probe_labels(np.full((600, 2), 7.0, np.float32), labels)
    assert scores.accuracy == pytest.approx(0.5)
    assert scores.macro_f1 == pytest.approx((2 / 3) / 3)  # precision ½, recall 1 on one class of three


def test_overlapping_clusters_are_read_well_but_not_perfectly(clusters):
    vectors, labels = clusters
    scores = probe_labels(vectors, labels)
    assert 0.9 < scores.accuracy < 1
    # Neither the scale and place of the columns nor the names of the classes change the answer.
    moved = probe_labels(vectors * np.array([100, 0.01, 1], np.float32) + 5, labels)
    assert moved.accuracy == pytest.approx(scores.accuracy, abs=0.005)
    names = np.array(["pear", "fig", "plum"], dtype=object)[labels]
    assert probe_labels(vectors, names).accuracy == pytest.approx(scores.accuracy, abs=0.02)


def test_the_parts_hold_every_class_in_its_share_and_share_no_node():
    classes = np.repeat([0, 1, 2], [100, 3, 50])
    nodes = np.arange(1000, 1153)
    split = split_nodes(nodes, classes, np.random.default_rng(0))
    counts = [np.bincount(classes[part - 1000]).tolist() for part in (split.train, split.validation, split.test)]
    assert counts == [[10, 1, 5], [10, 1, 5], [80, 1, 40]]
    assert np.sort(np.concatenate([split.train, split.validation, split.test])).tolist() == nodes.tolist()
    other = split_nodes(nodes, classes, np.random.default_rng(1))
    assert other.train.tolist() != split.train.tolist()


def test_the_classes_of_test_nodes_do_not_reach_the_classifier(clusters):
    vectors, labels = clusters
    split = split_nodes(np.arange(600), labels, np.random.default_rng(0))
    other = labels.copy()
    other[split.test] = 2 - labels[split.test]
    told, penalty = predict_classes(vectors, labels, split, 3)
    again, same_penalty = predict_classes(vectors, other, split, 3)
    assert (told == again).all()
    assert penalty == same_penalty


def test_small_classes_and_unknown_nodes_are_left_out(clusters):
    vectors, labels = clusters
    labels = labels.copy()
    labels[:2] = 9
    labels[2] = 8
    labels[3:10] = -1
    scores = probe_labels(vectors, labels)
    assert (scores.num_classes, scores.num_small_classes) == (3, 2)
    assert probe_labels(vectors, np.zeros(600, int)) is None
    assert probe_labels(vectors, np.arange(600)) is None
    assert probe_labels(vectors, np.full(600, -1)) is None


def test_the_seed_decides_and_many_nodes_are_sampled(clusters):
    vectors, labels = clusters
    assert probe_labels(vectors, labels, seed=3) == probe_labels(vectors, labels, seed=3)
    accuracies = {probe_labels(vectors, labels, seed=seed).accuracy for seed in range(4)}
    assert len(accuracies) > 1
    assert probe_labels(vectors, labels, max_nodes=100).accuracy > 0.8


def test_the_classifier_is_the_one_scikit_learn_finds(clusters):
    vectors, labels = clusters
    inputs = torch.nn.functional.pad(torch.from_numpy(vectors), (0, 1), value=1.0)
    weight = fit_logistic(inputs, torch.from_numpy(labels), torch.zeros(4, 3), 0.01)
    peer = LogisticRegression(C=1 / (0.01 * len(labels)), tol=1e-8, max_iter=1000).fit(vectors, labels)
    assert weight[:-1].T.numpy() == pytest.approx(peer.coef_, abs=0.01)


def test_vectors_that_are_no_numbers_are_a_numerical_error(clusters):
    vectors, labels = clusters
    with pytest.raises(NumericalError, match="not finite"):
        probe_labels(np.where(np.arange(600)[:, None] == 5, np.inf, vectors), labels)
