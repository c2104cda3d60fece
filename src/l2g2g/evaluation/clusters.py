"""Clusters of vectors by k-means or HDBSCAN (scikit-learn), how good they are, and what to call them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.evaluation.pair_features import unit_rows
from l2g2g.graphs.node_ids import as_node_ids
from l2g2g.graphs.write_table import make_frame
from l2g2g.options import check_choice

ClusterMethod = Literal["kmeans", "hdbscan"]
CLUSTER_METHODS: tuple[str, ...] = get_args(ClusterMethod)
NO_CLUSTER = -1
_COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
_FITTED_NODES = 10_000  # centres are fitted to a sample of so many; every node then joins its nearest centre
_SILHOUETTE_NODES = 2_000
_MOST_FOR_HDBSCAN = 50_000
_STARTS = 2
_TYPICAL_SHARE = 0.1  # of a cluster, those nearest to its centre
_TELLING_SHARE = 0.5  # of a cluster that must have a label for the label to name it


@dataclass(frozen=True, eq=False)
class Clusters:
    """A cluster for every node.

    Attributes:
        node_ids: (num_nodes,) integers or text.
        numbers: (num_nodes,) int32 from 0 on, the largest cluster first; -1 for nodes in none (HDBSCAN).
        similarity: (num_nodes,) float32 cosine of a node and the centre of its cluster; NaN for nodes in none.
        method: kmeans or hdbscan.
        criterion: What chose the number of clusters: given, modularity, silhouette, or density for HDBSCAN.
        by_count: The criterion for each number of clusters that was tried.
        silhouette: Mean silhouette by cosine, on at most 2,000 nodes drawn at random; None for fewer than two clusters.
        modularity: Newman's, of the edges; None where they are not known.
    """

    node_ids: np.ndarray
    numbers: np.ndarray
    similarity: np.ndarray
    method: str
    criterion: str
    by_count: dict[int, float] = field(default_factory=dict)
    silhouette: float | None = None
    modularity: float | None = None

    @property
    def num_clusters(self) -> int:
        """Clusters; nodes in none are no cluster."""
        return int(self.numbers.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """(num_clusters,) nodes of each."""
        return np.bincount(self.numbers[self.numbers >= 0], minlength=self.num_clusters)

    def columns(self) -> dict[str, np.ndarray]:
        """The table of the result by column: id, cluster, similarity."""
        return {"id": self.node_ids, "cluster": self.numbers, "similarity": self.similarity}

    def to_pandas(self) -> Any:
        """A DataFrame with the ids as its index."""
        columns = self.columns()
        return make_frame(columns, columns.pop("id"), "id")


def find_clusters(
    vectors: Any,
    node_ids: np.ndarray | Sequence[Any] | None = None,
    *,
    method: str = "kmeans",
    num_clusters: int | None = None,
    min_size: int | None = None,
    edges: sp.csr_array | None = None,
    seed: int = 0,
) -> Clusters:
    """Cluster nodes by the directions of their vectors.

    k-means on vectors of length 1. Where the number of clusters is not given, it is the one of 2, 3, 4, 5, 6, 8, …, 64
    with the highest modularity of the edges, or, where these are not known, with the highest silhouette.

    Args:
        vectors: (num_nodes, dim) array, or a DataFrame with the ids as its index.
        node_ids: (num_nodes,) integers or text; None for the index of a DataFrame, or row numbers.
        method: kmeans, or hdbscan: clusters by density, of any number, with nodes in none (at most 50,000 nodes).
        num_clusters: Of k-means.
        min_size: Of the smallest cluster of HDBSCAN; by default 0.5 % of the nodes and at least 5.
        edges: (num_nodes, num_nodes) CSR pattern, each edge once or in both directions.
        seed: Of samples and starts.

    Example:
        >>> vectors = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0) + 0.01
        >>> find_clusters(vectors).num_clusters
        3
    """
    vectors, ids = named_vectors(vectors, node_ids)
    _check(method, len(vectors), num_clusters, min_size)
    units = unit_rows(vectors)
    by_count: dict[int, float] = {}
    if method == "hdbscan":
        numbers, criterion = _by_density(units, min_size or max(5, len(units) // 200)), "density"
    elif num_clusters is not None:
        numbers, criterion = _by_centres(units, num_clusters, seed), "given"
    else:
        criterion = "silhouette" if edges is None else "modularity"
        numbers, by_count = _best_count(units, edges, seed)
    numbers = _largest_first(numbers)
    return Clusters(
        ids,
        numbers,
        _similarity(units, numbers),
        method,
        criterion,
        by_count,
        silhouette_of(units, numbers, seed),
        None if edges is None else modularity_of(numbers, edges),
    )


def named_vectors(vectors: Any, node_ids: np.ndarray | Sequence[Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """(num_nodes, dim) float32 vectors and (num_nodes,) ids: those given, the index of a DataFrame, or row numbers."""
    if node_ids is None and hasattr(vectors, "iloc"):
        node_ids = vectors.index.to_numpy()
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise InputError(f"vectors have shape {array.shape}; give finite numbers, one row per node")
    ids = np.arange(len(array)) if node_ids is None else as_node_ids(np.asarray(node_ids), "ids")
    if len(ids) != len(array):
        raise InputError(f"{len(array):,} vectors but {len(ids):,} ids; give one id per vector")
    return array, ids


def _check(method: str, num_nodes: int, num_clusters: int | None, min_size: int | None) -> None:
    check_choice("method", method, CLUSTER_METHODS)
    if num_nodes < 3:
        raise InputError(f"{num_nodes} nodes cannot be clustered; give three or more")
    if num_clusters is not None and method != "kmeans":
        raise InputError("hdbscan finds the number of clusters itself; leave -k out, or give --min-size")
    if min_size is not None and method != "hdbscan":
        raise InputError("--min-size is of hdbscan; add --method hdbscan, or give -k")
    if num_clusters is not None and not 2 <= num_clusters < num_nodes:
        raise InputError(f"-k is {num_clusters}; it must be from 2 to {num_nodes - 1:,}, one less than the nodes")
    if min_size is not None and not 2 <= min_size <= num_nodes:
        raise InputError(f"--min-size is {min_size}; it must be from 2 to {num_nodes:,}, the number of nodes")
    if method == "hdbscan" and num_nodes > _MOST_FOR_HDBSCAN:
        raise ResourceError(
            f"hdbscan of {num_nodes:,} nodes takes too long (at most {_MOST_FOR_HDBSCAN:,}); use kmeans"
        )


def _best_count(units: np.ndarray, edges: sp.csr_array | None, seed: int) -> tuple[np.ndarray, dict[int, float]]:
    best, numbers, by_count = -np.inf, np.zeros(len(units), np.int32), {}
    most = max(2, min(len(np.unique(units[:_FITTED_NODES], axis=0)), len(units) - 1))
    for count in (count for count in _COUNTS if count <= most):
        found = _by_centres(units, count, seed)
        quality = silhouette_of(units, found, seed) if edges is None else modularity_of(found, edges)
        by_count[count] = -1.0 if quality is None else quality
        if by_count[count] > best:
            best, numbers = by_count[count], found
    return numbers, by_count


def _by_centres(units: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(count, n_init=_STARTS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct vectors than clusters
        model.fit(units[_draw(len(units), _FITTED_NODES, seed)])
    return np.asarray(model.predict(units), np.int32)


def _by_density(units: np.ndarray, min_size: int) -> np.ndarray:
    from sklearn.cluster import HDBSCAN

    return np.asarray(HDBSCAN(min_cluster_size=min_size, copy=True).fit_predict(units.astype(np.float64)), np.int32)


def _draw(num_nodes: int, count: int, seed: int) -> np.ndarray:
    if num_nodes <= count:
        return np.arange(num_nodes)
    return np.sort(np.random.default_rng([seed, 0xC1]).choice(num_nodes, count, replace=False))


def _largest_first(numbers: np.ndarray) -> np.ndarray:
    """Clusters numbered from 0 on without gaps, the largest first, of equal ones that of the lower number."""
    known, codes = np.unique(numbers[numbers >= 0], return_inverse=True)
    order = np.argsort(-np.bincount(codes, minlength=len(known)), kind="stable")
    places = np.empty(len(known), np.int32)
    places[order] = np.arange(len(known), dtype=np.int32)
    found = np.full(len(numbers), NO_CLUSTER, np.int32)
    found[numbers >= 0] = places[codes]
    return found


def _similarity(units: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    found = np.full(len(units), np.nan, np.float32)
    known = numbers >= 0
    if known.any():
        sums = np.zeros((int(numbers.max()) + 1, units.shape[1]))
        np.add.at(sums, numbers[known], units[known])
        found[known] = np.einsum("nd,nd->n", units[known], unit_rows(sums)[numbers[known]])
    return found


def silhouette_of(vectors: np.ndarray, numbers: np.ndarray, seed: int = 0) -> float | None:
    """Mean silhouette by cosine of at most 2,000 nodes drawn at random, those in no cluster left out."""
    from sklearn.metrics import silhouette_score

    known = np.flatnonzero(numbers >= 0)
    rows = known[_draw(len(known), _SILHOUETTE_NODES, seed)]
    num_there = len(np.unique(numbers[rows]))
    if not 2 <= num_there < len(rows):
        return None
    return float(silhouette_score(vectors[rows], numbers[rows], metric="cosine"))


def modularity_of(numbers: np.ndarray, edges: sp.csr_array) -> float:
    """Newman's Q = Σ_c (m_c / m − (d_c / 2m)²): m_c edges inside a cluster, d_c the sum of its degrees.

    A node in no cluster is a cluster by itself.

    Example:
        >>> pairs = sp.csr_array(np.kron(np.eye(2), np.ones((3, 3))) - np.eye(6))
        >>> modularity_of(np.array([0, 0, 0, 1, 1, 1]), pairs)
        0.5
    """
    own = np.where(numbers >= 0, numbers, numbers.max() + 1 + np.arange(len(numbers)))
    rows = np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr))
    if len(rows) == 0:
        return 0.0
    first, second = own[rows], own[edges.indices]
    ends = np.bincount(first, minlength=own.max() + 1) + np.bincount(second, minlength=own.max() + 1)
    return float((first == second).mean() - np.square(ends / (2 * len(rows))).sum())


def name_clusters(clusters: Clusters, labels: np.ndarray | None = None, degrees: np.ndarray | None = None) -> list[str]:
    """(num_clusters,) a name for each: the label of most of its nodes with its share, or its most typical nodes.

    Typical are, of the tenth that lies nearest to the centre, the two of the highest degree, or else the nearest two.

    Args:
        clusters: The clusters.
        labels: (num_nodes,) text, empty where it is not known; None where there are none.
        degrees: (num_nodes,); None where they are not known.
    """
    names: list[str] = []
    for number in range(clusters.num_clusters):
        rows = np.flatnonzero(clusters.numbers == number)
        name = None if labels is None else _telling_label(labels[rows])
        if name is None:
            order = rows[np.argsort(-clusters.similarity[rows], kind="stable")]
            near = order[: max(5, int(_TYPICAL_SHARE * len(order)))]
            if degrees is not None:
                near = near[np.argsort(-degrees[near], kind="stable")]
            name = "around " + ", ".join(str(node) for node in clusters.node_ids[near[:2]].tolist())
        names.append(name)
    counts: dict[str, int] = {}
    for place, name in enumerate(names):
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1:
            names[place] = f"{name}, {counts[name]}"
    return names


def _telling_label(labels: np.ndarray) -> str | None:
    known = labels[labels != ""]
    if len(known) == 0:
        return None
    values, counts = np.unique(known, return_counts=True)
    share = counts.max() / len(known)
    value = str(values[counts.argmax()])
    shown = f"label {value}" if value.lstrip("-").isdecimal() else value  # a number alone would look like a count
    return f"{shown} ({100 * share:.0f} %)" if share >= _TELLING_SHARE else None
