"""Checks of arrays before they become a graph: node numbers, weights, features and labels."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import use_small_indices
from l2g2g.graphs.node_ids import as_node_ids

Features: TypeAlias = Any  # np.ndarray or sp.csr_array; scipy publishes no types
_MAX_ISOLATED, _MAX_ISOLATED_PER_ARC = 10_000_000, 100


def check_node_numbers(
    sources: np.ndarray | list[int],
    targets: np.ndarray | list[int],
    num_nodes: int | None,
    name: str,
    first_row: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Refuse node numbers that are negative, not integers, or beyond num_nodes.

    first_row: number of rows before these, for the error.
    """
    sources, targets = np.asarray(sources), np.asarray(targets)
    if sources.shape != targets.shape or sources.ndim != 1:
        raise InputError(f"{name}: {sources.shape} sources but {targets.shape} targets; give two equally long columns")
    for column, numbers in (("source", sources), ("target", targets)):
        if len(numbers) and not np.issubdtype(numbers.dtype, np.integer):
            raise InputError(f"{name}: {column} numbers are {numbers.dtype}, not integers; number the nodes from 0")
        if len(numbers) and numbers.min() < 0:
            row = int(np.argmax(numbers < 0))
            where = f"row {first_row + row}: negative {column} {numbers[row]}"
            raise InputError(f"{name}: {where}; node numbers start at 0 (or use names)")
        if num_nodes is not None and len(numbers) and numbers.max() >= num_nodes:
            row = int(np.argmax(numbers >= num_nodes))
            raise InputError(
                f"{name}: row {first_row + row}: {column} {numbers[row]} is beyond the {num_nodes:,} nodes "
                f"that the features or the shape give; add rows or correct the id"
            )
    return sources, targets


def check_num_nodes(num_nodes: int, num_arcs: int, name: str) -> None:
    """Refuse node numbers far beyond the number of arcs: they are ids of another kind."""
    if num_nodes > _MAX_ISOLATED + _MAX_ISOLATED_PER_ARC * num_arcs:
        raise InputError(
            f"{name}: node number {num_nodes - 1} among only {num_arcs:,} edges; number the nodes from 0, "
            f"or give an edge list or table, where ids may be any integers or names"
        )


def check_weights(weights: np.ndarray, num_arcs: int, name: str) -> np.ndarray:
    """Return float32 weights; refuse any that are not positive and finite."""
    weights = np.asarray(weights)
    if weights.shape != (num_arcs,):
        raise InputError(f"{name}: {num_arcs:,} edges but weights of shape {weights.shape}; give one weight per edge")
    if not (np.issubdtype(weights.dtype, np.floating) or np.issubdtype(weights.dtype, np.integer)):
        raise InputError(f"{name}: weights are {weights.dtype}, not numbers; give positive numbers or no third column")
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float32)
    wrong = ~(np.isfinite(weights) & (weights > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{name}: row {row}: weight {weights[row]}; weights must be positive and finite")
    return weights


def check_features(
    features: Features | sp.sparray | sp.spmatrix, num_nodes: int, name: str, first_row: int = 0
) -> Features:
    """Return float32 features, dense or CSR; refuse a wrong shape or type, NaN and Inf.

    first_row: number of rows before these, for the error.
    """
    is_sparse = sp.issparse(features)
    dtype = features.dtype if hasattr(features, "dtype") else np.asarray(features).dtype
    if dtype.kind == "b":
        dtype = np.dtype(np.uint8)
    if not (np.issubdtype(dtype, np.floating) or np.issubdtype(dtype, np.integer)):
        raise InputError(f"{name}: features are {dtype}; convert them to real numbers first")
    if features.ndim != 2 or features.shape[1] == 0:
        raise InputError(f"{name}: features have shape {features.shape}; give one row per node and at least one column")
    if features.shape[0] != num_nodes:
        raise InputError(f"{name}: {features.shape[0]:,} feature rows but {num_nodes:,} nodes; they must be equal")
    if is_sparse:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes Inf and is refused below
            matrix = sp.csr_array(features).astype(np.float32)
        matrix.sum_duplicates()
        if not np.isfinite(matrix.data).all():
            entry = int(np.argmin(np.isfinite(matrix.data)))
            row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
            raise InputError(
                f"{name}: feature row {first_row + row}, column {matrix.indices[entry]} is {matrix.data[entry]}; "
                f"replace NaN and Inf by numbers"
            )
        return use_small_indices(matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        dense = np.ascontiguousarray(features, dtype=np.float32)
        total = dense.sum(dtype=np.float64)  # much cheaper than a test of every number
    if not np.isfinite(total) and not np.isfinite(dense).all():
        row, column = np.argwhere(~np.isfinite(dense))[0]
        where = f"feature row {first_row + row}, column {column}"
        raise InputError(f"{name}: {where} is {dense[row, column]}; replace NaN and Inf by numbers")
    return dense


def check_labels(labels: np.ndarray, num_nodes: int, name: str) -> np.ndarray:
    """Return (num_nodes,) labels as int64, or as strings in an object array; refuse anything else.

    A negative integer or an empty text marks an unknown class.

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
        # False for NaN and Inf too; beyond 2^53 floats cannot hold every integer.
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


def find_classes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (num_classes,) distinct labels in order, and (num_nodes,) class numbers, -1 for unknown classes.

    Example:
        >>> find_classes(np.array(["b", "", "a", "b"], dtype=object))[1].tolist()
        [1, -1, 0, 1]
    """
    known = labels >= 0 if labels.dtype.kind in "iu" else labels != ""
    numbers = np.full(len(labels), -1, np.int64)
    classes, numbers[known] = np.unique(labels[known], return_inverse=True)
    return classes, numbers
