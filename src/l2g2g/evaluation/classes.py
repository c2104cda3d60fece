"""Classes of nodes from the labels of some: a linear or nearest-neighbour classifier of scikit-learn on the vectors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from l2g2g.errors import InputError
from l2g2g.evaluation.clusters import named_vectors
from l2g2g.evaluation.intervals import Interval, share_interval
from l2g2g.evaluation.pair_features import unit_rows
from l2g2g.evaluation.probe import macro_f1
from l2g2g.graphs.write_table import make_frame
from l2g2g.options import check_choice

Classifier = Literal["linear", "knn"]
CLASSIFIERS: tuple[str, ...] = get_args(Classifier)
_FOLDS = 5
_NEIGHBOURS = 15
_ROWS_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class Classified:
    """A class for every node.

    Attributes:
        node_ids: (num_nodes,) integers or text.
        labels: (num_nodes,) text in an object array, empty where no label was given.
        predicted: (num_nodes,) text. A labelled node is told by a classifier that has not seen its label.
        confidence: (num_nodes,) float32 probability of the predicted class, as the classifier gives it.
        classifier: linear or knn.
        accuracy: Share of the labelled nodes whose class is told, each by a classifier that was fitted to four fifths
            of the others, with its 95 % interval (Wilson).
        majority: Share of the largest class: what always telling that one would give.
        macro_f1: Mean over the classes of the harmonic mean of precision and recall.
        num_labelled, num_classes: What there was to learn from.
    """

    node_ids: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    classifier: str
    accuracy: Interval
    majority: float
    macro_f1: float
    num_labelled: int
    num_classes: int

    def columns(self) -> dict[str, np.ndarray]:
        """The table of the result by column: id, label, predicted, confidence."""
        names = ("label", "predicted", "confidence")
        return {"id": self.node_ids, **dict(zip(names, (self.labels, self.predicted, self.confidence), strict=True))}

    def to_pandas(self) -> Any:
        """A DataFrame with the ids as its index."""
        columns = self.columns()
        return make_frame(columns, columns.pop("id"), "id")


def classify_nodes(
    vectors: Any,
    labels: np.ndarray | Sequence[Any],
    node_ids: np.ndarray | Sequence[Any] | None = None,
    *,
    classifier: str = "linear",
    seed: int = 0,
) -> Classified:
    """Learn classes from labelled nodes and tell them of all, with the accuracy on nodes that were held out.

    The labelled nodes are dealt to five folds with the same mix of classes; the nodes of a fold are told by a
    classifier fitted to the other four, and nodes without a label by one fitted to all.

    Args:
        vectors: (num_nodes, dim) array, or a DataFrame with the ids as its index.
        labels: (num_nodes,) text or whole numbers; "", None, NaN or a negative number where the class is not known.
        node_ids: (num_nodes,) integers or text; None for the index of a DataFrame, or row numbers.
        classifier: linear: logistic regression on standardised columns; knn: the 15 nearest by cosine.
        seed: Of the folds.

    Example:
        >>> vectors = np.repeat(np.eye(2, dtype=np.float32), 10, axis=0)
        >>> found = classify_nodes(vectors, ["a"] * 9 + [""] + ["b"] * 10)
        >>> found.accuracy.value, str(found.predicted[9])
        (1.0, 'a')
    """
    vectors, ids = named_vectors(vectors, node_ids)
    check_choice("classifier", classifier, CLASSIFIERS)
    if len(labels) != len(vectors):
        raise InputError(
            f"{len(labels):,} labels but {len(vectors):,} vectors; give one label per node, or an empty one"
        )
    text = labels_as_text(labels)
    known = np.flatnonzero(text != "")
    classes, codes = np.unique(text[known], return_inverse=True)
    if len(classes) < 2 or len(known) < 4:
        raise InputError(
            f"{len(known):,} labelled nodes of {len(classes)} classes; two classes and four nodes are needed"
        )
    inputs = unit_rows(vectors) if classifier == "knn" else vectors
    shares = np.zeros((len(vectors), len(classes)), np.float32)
    folds = deal_folds(codes, min(_FOLDS, len(known)), np.random.default_rng([seed, 0xF01D]))
    for fold in range(folds.max() + 1):
        told, learned = known[folds == fold], folds != fold
        shares[told] = _tell(classifier, inputs[known[learned]], codes[learned], inputs[told], len(classes))
    others = np.flatnonzero(text == "")
    shares[others] = _tell(classifier, inputs[known], codes, inputs[others], len(classes))
    told = shares.argmax(axis=1)
    return Classified(
        ids,
        text,
        classes[told],
        shares.max(axis=1),
        classifier,
        share_interval(int((told[known] == codes).sum()), len(known)),
        float(np.bincount(codes).max() / len(codes)),
        macro_f1(codes, told[known]),
        len(known),
        len(classes),
    )


def labels_as_text(labels: np.ndarray | Sequence[Any]) -> np.ndarray:
    """(num_nodes,) text, empty where a label is missing or a negative number; whole numbers have no decimal point.

    Example:
        >>> labels_as_text([2.0, float("nan"), -1.0]).tolist(), labels_as_text(["a", None]).tolist()
        (['2', '', ''], ['a', ''])
    """
    array = np.asarray(labels)
    if array.dtype.kind in "iuf":
        return np.array(["" if not value >= 0 else f"{value:.15g}" for value in array.tolist()], dtype=object)
    values = np.asarray(labels, dtype=object).tolist()
    return np.array(["" if value is None or value != value else str(value) for value in values], dtype=object)


def deal_folds(classes: np.ndarray, num_folds: int, generator: np.random.Generator) -> np.ndarray:
    """(num_nodes,) the fold of each node: a class is dealt to the folds in turn, so that all have the same mix."""
    shuffled = generator.permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    folds = np.empty(len(classes), np.int64)
    folds[order] = np.arange(len(classes)) % num_folds
    return folds


def _tell(classifier: str, inputs: np.ndarray, codes: np.ndarray, asked: np.ndarray, num_classes: int) -> np.ndarray:
    """(num_asked, num_classes) probabilities; 0 for classes that were not there to be learned."""
    shares = np.zeros((len(asked), num_classes), np.float32)
    there = np.unique(codes)
    if len(there) == 1 or len(asked) == 0:
        shares[:, there[0]] = 1
        return shares
    model = _make(classifier, len(inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a fit has not converged to the last digit
        model.fit(inputs, codes)
    for low in range(0, len(asked), _ROWS_AT_ONCE):
        shares[low : low + _ROWS_AT_ONCE, there] = model.predict_proba(asked[low : low + _ROWS_AT_ONCE])
    return shares


def _make(classifier: str, num_nodes: int) -> Any:
    if classifier == "knn":
        from sklearn.neighbors import KNeighborsClassifier

        # On vectors of length 1 the nearest by distance are the nearest by cosine.
        return KNeighborsClassifier(min(_NEIGHBOURS, num_nodes), weights="distance")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
