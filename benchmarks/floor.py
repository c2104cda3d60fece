"""The floor of an epoch: the bare sparse calls of torch that its work needs, on the matrices of the run.

One floor is, with 16 columns unless said otherwise:

* layer 2: one product Â @ dense for the forward and one for the backward;
* layer 1: the same two with 32 columns, only where Â X is not computed once before training;
* positive pairs: one `torch.sparse.sampled_addmm` and one product, over the arcs of the training graph (both
  directions);
* negative pairs: the same over as many random pairs as the run draws (inside patches where the run has patches).

Nothing else: no loss, no sigmoid, no drawing of negatives, no dense products with features or weights, no optimiser,
no alignment. Results go to memory that is there already (`addmm` and `sampled_addmm` with `out`), indices are int32,
columns of a row are in order. For patches the matrices are block-diagonal: floor and epoch process the same arcs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.models.sparse import normalise_adjacency, to_torch_csr


@dataclass(frozen=True)
class Floor:
    """The calls by name, ready to run."""

    calls: dict[str, Callable[[], Tensor]]
    num_arcs: int
    num_negatives: int

    def measure(
        self, repeats: int = 3, clock: Callable[[], float] = time.perf_counter
    ) -> tuple[float, dict[str, float]]:
        """Seconds of all calls in a row (median), and of each of them."""
        spent: list[dict[str, float]] = []
        for _ in range(repeats + 1):  # the first one fills the caches and is not counted
            single = {}
            for name, call in self.calls.items():
                started = clock()
                call()
                single[name] = clock() - started
            spent.append(single)
        counted = spent[1:]
        return median(sum(single.values()) for single in counted), {
            name: median(single[name] for single in counted) for name in self.calls
        }


def build_floor(
    adjacency: sp.csr_array,
    offsets: np.ndarray,
    *,
    negatives_per_edge: float,
    first_layer: bool,
    dim: int = 16,
    hidden: int = 32,
    seed: int = 0,
) -> Floor:
    """The floor of a block-diagonal training graph.

    adjacency: (num_rows, num_rows), both directions. offsets: (num_patches + 1,) rows of each patch.
    first_layer: Whether every epoch propagates the first layer too.
    """
    generator = torch.Generator().manual_seed(seed)
    num_rows = adjacency.shape[0]
    propagation = to_torch_csr(normalise_adjacency(adjacency))
    narrow, wide = (torch.randn(num_rows, columns, generator=generator) for columns in (dim, hidden))
    narrow_out, wide_out = torch.zeros_like(narrow), torch.zeros_like(wide)
    positives = blank_pattern(adjacency.indptr, adjacency.indices)
    random_rows = random_pairs(adjacency, offsets, negatives_per_edge, seed=seed)
    negatives = blank_pattern(*random_rows)

    def product(matrix: Tensor, dense: Tensor, out: Tensor) -> Callable[[], Tensor]:
        return lambda: torch.addmm(out, matrix, dense, beta=0, out=out)

    def sampled(pattern: Tensor) -> Callable[[], Tensor]:
        return lambda: torch.sparse.sampled_addmm(pattern, narrow, narrow.t(), beta=0.0, out=pattern)

    calls = {}
    if first_layer:
        calls["layer 1 forward"] = product(propagation, wide, wide_out)
    calls["layer 2 forward"] = product(propagation, narrow, narrow_out)
    for name, pattern in (("positive", positives), ("negative", negatives)):
        calls[f"{name} scores"] = sampled(pattern)
        calls[f"{name} gradient"] = product(pattern, narrow, narrow_out)
    calls["layer 2 backward"] = product(propagation, narrow, narrow_out)
    if first_layer:
        calls["layer 1 backward"] = product(propagation, wide, wide_out)
    return Floor(calls, adjacency.nnz, len(random_rows[1]))


def blank_pattern(indptr: np.ndarray, indices: np.ndarray) -> Tensor:
    """A square CSR tensor of zeros with this pattern, int32."""
    rows, columns = (torch.from_numpy(part.astype(np.int32, copy=False)) for part in (indptr, indices))
    shape = (len(indptr) - 1, len(indptr) - 1)
    return torch.sparse_csr_tensor(rows, columns, torch.zeros(len(indices)), shape, check_invariants=False)


def random_pairs(
    adjacency: sp.csr_array, offsets: np.ndarray, negatives_per_edge: float, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, indices) of random pairs inside each patch, as many as a run draws; repeats may occur."""
    generator = np.random.default_rng(seed)
    num_edges = np.diff(adjacency.indptr[offsets].astype(np.int64)) // 2
    wanted = np.ceil(negatives_per_edge * num_edges).astype(np.int64)
    counts, parts = [], []
    for low, high, count in zip(offsets[:-1], offsets[1:], wanted, strict=True):
        size = int(high - low)
        keys = np.sort(generator.integers(0, size * size, count))  # row by row, columns in order
        rows, columns = np.divmod(keys, size)
        counts.append(np.bincount(rows, minlength=size))
        parts.append((low + columns).astype(np.int32))
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))]), np.concatenate(parts)
