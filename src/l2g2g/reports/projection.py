"""Projection of vectors to two dimensions for a map: t-SNE, which keeps neighbours together, or PCA.

docs/report.md says why t-SNE, and what it costs.
"""

from __future__ import annotations

import importlib.util
import warnings
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.evaluation.pair_features import unit_rows
from l2g2g.neighbours.factors import factors_by, keep_best, search_exactly
from l2g2g.options import check_choice

Projection = Literal["tsne", "pca"]
PROJECTIONS: tuple[str, ...] = get_args(Projection)
_PERPLEXITY = 15
_EARLY, _LATER = 25, 75  # steps with the neighbours pulled together (exaggeration), and after that
_EXAGGERATION = 12
_FEWEST = 10  # nodes; for fewer the two projections differ in nothing that matters
_LAID_OUT = 25_000  # of more nodes a sample is laid out first
_START = 1e-4  # spread of the first places, which t-SNE wants to be small
_NEAR = 15  # near nodes that each node is drawn to when all move together
_CELLS = 8  # cells in which they are looked for
_TOGETHER = 30  # steps with all nodes; 15 more keep hardly more neighbours
_COARSE = 2  # width of a box of the grid in those steps, in units of the map
_JITTER = 0.3  # so that nodes that start at the same place come apart
_KEPT = 15  # nearest nodes that a map should keep near
_QUERIES, _COLUMNS = 256, 16384  # of a block of cosines


def default_projection() -> str:
    """t-SNE where openTSNE is installed, otherwise PCA."""
    try:
        return "tsne" if importlib.util.find_spec("openTSNE") else "pca"
    except ValueError:  # imported, but not as a package
        return "pca"


def check_projection(name: str) -> None:
    """Raise InputError for a projection that is unknown or not installed."""
    check_choice("projection", name, PROJECTIONS)
    if name == "tsne" and default_projection() != "tsne":
        raise InputError("--projection tsne needs openTSNE; install it with: pip install openTSNE")


def project(vectors: np.ndarray, how: str = "pca", seed: int = 0) -> np.ndarray:
    """(num_nodes, 2) float32 places. vectors: (num_nodes, dim).

    Example:
        >>> places = project(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [2.0, 1.0, 1.0]]))
        >>> np.abs(places).round(1).tolist() == np.float32([[2, 0.3], [2, 0.3], [0, 0.7]]).tolist()
        True
    """
    check_projection(how)
    if how == "tsne" and len(vectors) >= _FEWEST:
        return project_tsne(vectors, seed)
    return _project_pca(vectors)


def neighbours_kept(vectors: np.ndarray, places: np.ndarray, num_samples: int = 2000) -> float:
    """Share of the 15 nearest nodes by cosine that are among the 15 nearest on the map, over nodes drawn at random.

    vectors: (num_nodes, dim); places: (num_nodes, 2).

    Example:
        >>> points = np.random.default_rng(0).normal(size=(50, 2))
        >>> circle = points / np.linalg.norm(points, axis=1, keepdims=True)
        >>> neighbours_kept(points, circle)
        1.0
    """
    from scipy.spatial import KDTree

    num_near = min(_KEPT, len(vectors) - 1)
    if num_near < 1:
        return 1.0
    rows = np.random.default_rng(0).permutation(len(vectors))[:num_samples]
    true, _ = search_exactly(factors_by(vectors, "cosine"), rows, num_near)
    _, found = KDTree(places).query(places[rows], num_near + 1)
    found = np.where(found == rows[:, None], -1, found)  # the node itself, wherever equal places have put it
    own = (found == -1).any(axis=1)
    found[~own, num_near] = -1
    return float((true[:, :, None] == found[:, None, :]).any(axis=2).mean())


def _project_pca(vectors: np.ndarray) -> np.ndarray:
    """Onto the two directions of largest variance, each with the sign that makes its largest entry positive."""
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    chosen = directions[:, ::-1][:, :2]
    chosen = chosen * np.where(chosen[np.abs(chosen).argmax(axis=0), range(chosen.shape[1])] < 0, -1, 1)
    places = np.zeros((len(vectors), 2), np.float32)
    places[:, : chosen.shape[1]] = centred @ chosen  # one column stays zero for one-dimensional vectors
    return places


def project_tsne(vectors: np.ndarray, seed: int = 0, laid_out: int = _LAID_OUT) -> np.ndarray:
    """t-SNE by the cosine of vectors, from PCA on, by openTSNE with one thread, so that it repeats bit by bit.

    Of more than `laid_out` nodes a sample is laid out first. Every other node starts where its nearest node of the
    sample lies, and then all move together for a few steps, by near nodes found through the sample.
    """
    units = unit_rows(vectors)
    if len(units) <= laid_out:
        return _lay_out(units)[0].astype(np.float32)
    sample = np.sort(np.random.default_rng([seed, 0x75E]).choice(len(units), laid_out, replace=False))
    places, near = _lay_out(np.ascontiguousarray(units[sample]))
    cells = _nearest_of_sample(units, sample)
    start = places[cells] * np.sqrt(len(units) / laid_out)  # as dense as the sample was
    start += np.random.default_rng([seed, 0x75F]).normal(scale=_JITTER, size=start.shape)
    drawn = _even_affinities(_near_through_cells(units, cells, near[:, : _CELLS - 1]))
    return _move(start, drawn, 0, _TOGETHER, _COARSE).astype(np.float32)


def _lay_out(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(num_nodes, 2) places of all nodes, and (num_nodes, k) their nearest nodes."""
    near = min(3 * _PERPLEXITY, len(units) - 1)
    nodes, cosines = search_exactly(factors_by(units, "inner"), np.arange(len(units)), near)
    start = _project_pca(units).astype(np.float64)
    spread = start.std(axis=0).max()
    if spread < 1e-12:  # all alike
        return start, nodes
    return _move(start * (_START / spread), _affinities(nodes, cosines, _PERPLEXITY), _EARLY, _LATER), nodes


def _affinities(nodes: np.ndarray, cosines: np.ndarray, perplexity: float) -> Any:
    """How much each node is drawn to its near nodes. nodes, cosines: (num_nodes, k)."""
    from openTSNE import affinity, nearest_neighbors

    distances = np.sqrt(np.maximum(2 - 2 * cosines.astype(np.float64), 0))
    index = nearest_neighbors.PrecomputedNeighbors(nodes, distances)
    return affinity.PerplexityBasedNN(perplexity=min(perplexity, nodes.shape[1] / 3), knn_index=index, n_jobs=1)


def _even_affinities(nodes: np.ndarray) -> Any:
    """Every node drawn to its near nodes alike, in a tenth of the time. nodes: (num_nodes, k), -1 for none."""
    from openTSNE.affinity import PrecomputedAffinities

    sources, places = np.nonzero(nodes >= 0)
    ends = (sources, nodes[sources, places])
    drawn = sp.csr_matrix((np.ones(len(sources)), ends), shape=(len(nodes), len(nodes)))
    drawn = drawn + drawn.T
    return PrecomputedAffinities(drawn / drawn.sum(), normalize=False)


def _move(start: np.ndarray, affinities: Any, num_early: int, num_later: int, box: float = 1) -> np.ndarray:
    """Steps of t-SNE from some places on; repulsion by interpolation on a grid, whose cost is linear in the nodes.

    box: width of a box of the grid.
    """
    from openTSNE import TSNEEmbedding

    embedding = TSNEEmbedding(start, affinities, negative_gradient_method="fft", dof=1, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if num_early:
            embedding.optimize(num_early, exaggeration=_EXAGGERATION, momentum=0.5, learning_rate="auto", inplace=True)
        embedding.optimize(num_later, momentum=0.8, learning_rate="auto", ints_in_interval=box, inplace=True)
    return np.asarray(embedding)


def _nearest_of_sample(units: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """(num_nodes,) the place in the sample of the nearest node of the sample, which for itself is its own."""
    right = np.ascontiguousarray(units[sample])
    found = np.full((len(units), 1), -1, np.int64)
    cosines = np.full((len(units), 1), -np.inf, np.float32)
    own = np.full(len(units), -1, np.int64)
    for low in range(0, len(units), _QUERIES):
        here = slice(low, low + _QUERIES)
        for first in range(0, len(sample), _COLUMNS):
            block = units[here] @ right[first : first + _COLUMNS].T
            keep_best(block, first, own[here], cosines[here], found[here])
    cells = found[:, 0]
    cells[sample] = np.arange(len(sample))
    return cells


def _near_through_cells(units: np.ndarray, cells: np.ndarray, near: np.ndarray) -> np.ndarray:
    """(num_nodes, k) near nodes: the nearest among the nodes of the own cell and of those near to it; -1 for none.

    cells: (num_nodes,) cell of each node; near: (num_cells, num_near) near cells of each.
    """
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], np.arange(len(near) + 1))
    members = [order[low:high] for low, high in pairwise(starts)]
    nodes = np.full((len(units), _NEAR), -1, np.int64)
    for cell, asked in enumerate(members):
        candidates = np.concatenate([asked, *(members[other] for other in near[cell])])
        found, best = np.full((len(asked), _NEAR), -1, np.int64), np.full((len(asked), _NEAR), -np.inf, np.float32)
        keep_best(units[asked] @ units[candidates].T, 0, np.arange(len(asked)), best, found)
        nodes[asked] = np.where(found < 0, -1, candidates[found])
    return nodes
