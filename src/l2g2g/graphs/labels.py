"""Labels: the class of each node, as integers or text, checked on the way in."""

from __future__ import annotations

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.node_ids import as_node_ids


def check_labels(labels: np.ndarray, num_nodes: int, name: str) -> np.ndarray:
    """(num_nodes,) one class per node as int64, or as strings in an object array; anything else is refused.

    A negative integer or an empty text says that the class of a node is not known.

    Example:
        >>> check_labels(np.array([0.0, 2.0, -1.0]), 3, "graph").tolist()
        [0, 2, -1]
    """
    labels = np.asarray(labels)
    if labels.shape == (num_nodes, 1):
        labels = labels[:, 0]
    if labels.shape != (num_nodes,):
        raise InputError(f"{name}: labels have shape {labels.shape} but there are {num_nodes:,} nodes; give one each")
    if labels.dtype.kind == "b":
        return labels.astype(np.int64)
    if labels.dtype.kind == "f":
        # Also false for NaN and Inf; beyond 2^53 a float no longer tells neighbouring integers apart.
        whole = (np.abs(labels) < 2.0**53) & (np.floor(labels) == labels)
        if not whole.all():
            row = int(np.argmin(whole))
            raise InputError(
                f"{name}: label {labels[row]} in row {row}; a label is a whole number or text, -1 where it is unknown"
            )
        return labels.astype(np.int64)
    if labels.dtype.kind not in "iuUSTO":
        raise InputError(f"{name}: labels are {labels.dtype}; use whole numbers or text")
    return as_node_ids(labels, f"{name}: labels")


def number_classes(labels: np.ndarray) -> np.ndarray:
    """(num_nodes,) class numbers from 0 on, in the order of the labels; -1 where the class is not known.

    Example:
        >>> number_classes(np.array(["b", "", "a", "b"], dtype=object)).tolist()
        [1, -1, 0, 1]
    """
    return find_classes(labels)[1]


def find_classes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(num_classes,) the distinct labels in their order, and (num_nodes,) class numbers, -1 where one is not known."""
    known = labels >= 0 if labels.dtype.kind in "iu" else labels != ""
    numbers = np.full(len(labels), -1, np.int64)
    classes, numbers[known] = np.unique(labels[known], return_inverse=True)
    return classes, numbers
