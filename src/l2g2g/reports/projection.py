"""Projection of vectors to two dimensions by PCA, UMAP or t-SNE, for a map."""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import numpy as np

from l2g2g.errors import InputError

Projection = Literal["pca", "umap", "tsne"]
PROJECTIONS: tuple[str, ...] = get_args(Projection)
_MAX_NODES_FOR_TSNE = 20_000  # a cautious limit, not a measured one


def check_projection(name: str, num_nodes: int) -> None:
    """Raise InputError for a projection that is unknown, not installed or too slow for so many nodes."""
    if name not in PROJECTIONS:
        raise InputError(f"unknown projection '{name}'; choose from {', '.join(PROJECTIONS)}")
    if name == "tsne" and num_nodes > _MAX_NODES_FOR_TSNE:
        raise InputError(
            f"t-SNE of {num_nodes:,} nodes is too slow (at most {_MAX_NODES_FOR_TSNE:,} here); use --projection umap "
            "or pca"
        )
    if name == "umap":
        _import_umap()


def project(vectors: np.ndarray, how: str = "pca", seed: int = 0) -> np.ndarray:
    """(num_nodes, 2) float32 places. vectors: (num_nodes, dim).

    Example:
        >>> places = project(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [2.0, 1.0, 1.0]]))
        >>> np.abs(places).round(1).tolist() == np.float32([[2, 0.3], [2, 0.3], [0, 0.7]]).tolist()
        True
    """
    check_projection(how, len(vectors))
    if how == "umap":
        return _project_umap(vectors, seed)
    if how == "tsne":
        return _project_tsne(vectors, seed)
    return _project_pca(vectors)


def _project_pca(vectors: np.ndarray) -> np.ndarray:
    """Onto the two directions of largest variance, each with the sign that makes its largest entry positive."""
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    chosen = directions[:, ::-1][:, :2]
    chosen = chosen * np.where(chosen[np.abs(chosen).argmax(axis=0), range(chosen.shape[1])] < 0, -1, 1)
    places = np.zeros((len(vectors), 2), np.float32)
    places[:, : chosen.shape[1]] = centred @ chosen  # one column stays zero for one-dimensional vectors
    return places


def _project_umap(vectors: np.ndarray, seed: int) -> np.ndarray:
    umap = _import_umap()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed means one thread, and of its own dependencies
        reducer = umap.UMAP(n_components=2, metric="cosine", random_state=seed, n_neighbors=min(15, len(vectors) - 1))
        return np.asarray(reducer.fit_transform(vectors), dtype=np.float32)


def _project_tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return np.asarray(
        TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors), dtype=np.float32
    )


def _import_umap():  # type: ignore[no-untyped-def]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import umap
    except ImportError as error:
        raise InputError("--projection umap needs umap-learn; install it with: pip install 'l2g2g[maps]'") from error
    return umap
