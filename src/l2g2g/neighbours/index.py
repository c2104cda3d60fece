"""Index: approximate neighbours through usearch's graph of near vectors, and how many of the true ones it finds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import reading
from l2g2g.graphs.write import write_text, write_whole
from l2g2g.neighbours.factors import ScoreFactors, search_exactly
from l2g2g.neighbours.top_links import TopLinks

ScorePairs = Callable[[np.ndarray, np.ndarray], np.ndarray]  # sources, targets -> (num_pairs,) scores
_NODES = 64
_STREAM = 0x4EC1  # keeps these draws apart from others
_FORMAT = "l2g2g neighbours 1"
# Links of a vector in the graph, and candidates looked at while it is built and while it is searched.
_CONNECTIVITY, _BUILD_EFFORT, _SEARCH_EFFORT = 16, 128, 128


def measure_recall(score: ScorePairs, known: sp.csr_array, found: TopLinks, *, most_pairs: int | None = None) -> float:
    """The share that is in the list among the pairs of some nodes that score higher than its last one.

    Half of the nodes are drawn from all nodes and half from the ends of what was found.
    known: CSR pattern of the edges, symmetric. most_pairs: that are scored; fewer nodes are drawn for it, at least two.
    """
    generator = np.random.default_rng([0, _STREAM])
    num_nodes = known.shape[0]
    half = _NODES // 2 if most_pairs is None else max(1, min(_NODES, most_pairs // num_nodes) // 2)
    ends = np.unique(np.concatenate([found.sources, found.targets]))
    rows = np.unique(
        np.concatenate(
            [
                generator.choice(ends, min(half, len(ends)), replace=False),
                generator.choice(num_nodes, min(half, num_nodes), replace=False),
            ]
        )
    )
    threshold = found.scores[-1]
    num_true = num_found = 0
    for row in rows.tolist():
        reaches = score(np.full(num_nodes, row), np.arange(num_nodes)).astype(np.float32) > threshold
        reaches[row] = False
        reaches[known.indices[known.indptr[row] : known.indptr[row + 1]]] = False
        partners = np.concatenate([found.targets[found.sources == row], found.sources[found.targets == row]])
        num_true += int(reaches.sum())
        num_found += int(reaches[partners].sum())
    return num_found / num_true if num_true else 1.0


class NeighbourIndex:
    """An approximate index of the right factor of every node, searched by left factors.

    It links every vector to those with which it has the largest inner products, and walks from link to link. With
    several threads two builds may link a few vectors differently; `recall` says what an index is worth.

    Args:
        factors: What nodes are compared by.
        threads: Threads that build and search; 0 for all cores.
    """

    def __init__(self, factors: ScoreFactors, threads: int = 0) -> None:
        self.factors, self.threads = factors, threads
        self._index = _load_usearch().Index(
            ndim=factors.right.shape[1],
            metric="ip",
            dtype="f32",
            connectivity=_CONNECTIVITY,
            expansion_add=_BUILD_EFFORT,
            expansion_search=_SEARCH_EFFORT,
        )

    @classmethod
    def build(cls, factors: ScoreFactors, threads: int = 0) -> NeighbourIndex:
        """Index all nodes."""
        index = cls(factors, threads)
        index._index.add(np.arange(factors.num_nodes, dtype=np.uint64), factors.right, threads=threads)
        return index

    @classmethod
    def load(cls, path: str | Path, factors: ScoreFactors, threads: int = 0) -> NeighbourIndex:
        """Read the index that `save` wrote for the same vectors; any other file is refused before it is opened."""
        index, path = cls(factors, threads), Path(path)
        with reading(path):
            content = path.read_bytes()
        with reading(_about(path)):
            about = json.loads(_about(path).read_bytes())
        if about != index._describe(content):
            raise InputError(
                f"{path}: is damaged, or belongs to another embedding or metric; remove it, or give another --index"
            )
        index._index.load(content)
        return index

    def save(self, path: str | Path) -> None:
        """Keep the index in a file, and beside it, in FILE.json, what it belongs to; complete or not at all."""
        path = Path(path)
        content = bytes(self._index.save())
        write_whole(path, lambda file: file.write_bytes(content))
        write_text(_about(path), json.dumps(self._describe(content)))

    def _describe(self, content: bytes) -> dict[str, str]:
        vectors = hashlib.sha256(self.factors.right.data).hexdigest()
        return {"format": _FORMAT, "vectors": vectors, "sha256": hashlib.sha256(content).hexdigest()}

    def search(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As `search_exactly`, but some of the nearest may be missed."""
        nodes = np.empty((len(rows), k), np.int64)
        if len(rows) == 0:
            return nodes, nodes.astype(np.float32)
        asked = np.resize(rows, max(2, len(rows)))  # one row alone gets an answer of another kind
        found = self._index.search(self.factors.left[asked], k + 1, threads=self.threads)
        keys, counts = found.keys[: len(rows)].astype(np.int64), found.counts[: len(rows)]
        own = keys == rows[:, None]
        own[~own.any(axis=1), k] = True  # the row itself is left out, or else what is farthest
        whole = counts == k + 1
        nodes[whole] = keys[whole][~own[whole]].reshape(-1, k)
        scores = self._score(rows, nodes, whole)
        if not whole.all():  # a walk that came to an end too early
            nodes[~whole], scores[~whole] = search_exactly(self.factors, rows[~whole], k)
        order = np.lexsort((nodes, -scores), axis=1)
        return np.take_along_axis(nodes, order, axis=1), np.take_along_axis(scores, order, axis=1)

    def recall(self, k: int = 10, *, num_samples: int = 2000, seed: int = 0) -> float:
        """Share of the true k nearest that a search finds, over nodes drawn at random.

        A found node counts if its score reaches that of the k-th nearest: among equal ones none is truer.
        """
        num_nodes = self.factors.num_nodes
        k = min(k, num_nodes - 1)
        rows = np.random.default_rng(seed).choice(num_nodes, min(num_samples, num_nodes), replace=False)
        _, true_scores = search_exactly(self.factors, rows, k)
        _, scores = self.search(rows, k)
        tolerance = 1e-5 * np.maximum(1.0, np.abs(true_scores[:, -1:]))  # sums in another order
        return float((scores >= true_scores[:, -1:] - tolerance).mean())

    def _score(self, rows: np.ndarray, nodes: np.ndarray, whole: np.ndarray) -> np.ndarray:
        scores = np.full(nodes.shape, -np.inf, np.float32)
        asked = rows[whole]
        scores[whole] = np.einsum("rd,rkd->rk", self.factors.left[asked], self.factors.right[nodes[whole]])
        return scores + np.float32(self.factors.bias)


def _about(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _load_usearch() -> Any:
    try:
        from usearch import index
    except ImportError as error:
        raise ResourceError(
            "the index needs usearch: pip install 'l2g2g[neighbours]', or search exactly (--exact)"
        ) from error
    return index
