"""Classes from the labels of some: held out means held out, chance is told as chance, and missing labels are told."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.evaluation.classes import classify_nodes, deal_folds, labels_as_text

TRUTH = np.repeat(np.array(["red", "green", "blue"], dtype=object), (60, 40, 20))


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(0)
    codes = np.unique(TRUTH.astype(str), return_inverse=True)[1]
    return (np.eye(5)[codes] + 0.15 * generator.normal(size=(120, 5))).astype(np.float32)


@pytest.mark.parametrize("classifier", ["linear", "knn"])
def test_missing_labels_are_told(vectors, classifier):
    labels = TRUTH.copy()
    hidden = np.arange(0, 120, 4)
    labels[hidden] = ""
    found = classify_nodes(vectors, labels, classifier=classifier)
    assert (found.predicted[hidden] == TRUTH[hidden]).mean() > 0.95
    assert found.accuracy.value > 0.95
    assert found.accuracy.low < found.accuracy.value <= found.accuracy.high
    assert found.majority == 0.5
    assert (found.num_labelled, found.num_classes) == (90, 3)
    assert (found.confidence > 1 / 3).all()
    frame = found.to_pandas()
    assert list(frame.columns) == ["label", "predicted", "confidence"]
    assert frame.index.tolist() == list(range(120))


@pytest.mark.parametrize("classifier", ["linear", "knn"])
def test_what_cannot_be_learned_is_told_as_chance(classifier):
    """Labels at random and a vector for each node that tells them apart perfectly once they are seen."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 300)
    found = classify_nodes(generator.normal(size=(300, 40)), labels, classifier=classifier)
    assert 0.4 < found.accuracy.value < 0.6


def test_folds_have_the_same_mix():
    classes = np.repeat([0, 1, 2], [50, 10, 1])
    folds = deal_folds(classes, 5, np.random.default_rng(0))
    assert np.bincount(folds[classes == 0]).tolist() == [10] * 5
    assert np.bincount(folds[classes == 1]).tolist() == [2] * 5


def test_a_class_of_one_node_is_no_error(vectors):
    labels = TRUTH.copy()
    labels[0] = "rare"
    found = classify_nodes(vectors, labels)
    assert found.num_classes == 4
    assert found.predicted[0] != "rare"  # nothing else to learn it from


def test_labels_of_all_kinds():
    assert labels_as_text(np.array([3, -1, 0])).tolist() == ["3", "", "0"]
    assert labels_as_text(["a", "", None, 5]).tolist() == ["a", "", "", "5"]


def test_what_is_refused(vectors):
    for labels, options, message in (
        (TRUTH, {"classifier": "tree"}, "unknown classifier 'tree'; choose from linear, knn"),
        (TRUTH[:5], {}, "5 labels but 120 vectors"),
        (np.full(120, "x", dtype=object), {}, "two classes and four nodes are needed"),
    ):
        with pytest.raises(InputError, match=message):
            classify_nodes(vectors, labels, **options)
