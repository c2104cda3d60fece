"""Eigenvectors: leading eigenvectors of a symmetric matrix that is known by its products, with a convergence test.

Chebyshev-filtered subspace iteration (Zhou, Saad, Tiago and Chelikowsky 2006): a block of vectors is multiplied with a
polynomial of the matrix that is large above a cutoff and at most 1 on [-1, cutoff], then turned into Ritz vectors. The
cutoff is the smallest Ritz value of the block, so the polynomial sharpens as the block converges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from l2g2g.models.shared_rows import SharedRows

_DEGREE = 10  # of a polynomial at most
_MOST_GROWTH = 1e4  # of the largest against the smallest vector under a polynomial: float32 keeps both
_LEAST_CUTOFF = -0.5  # of a random start; nearer to -1 nothing would be damped
_LANCZOS_STEPS = 12  # enough for the signs of the lowest eigenvector of a graph that is nearly bipartite
_ROWS = 1 << 14  # of tables that are worked on at a time
_FIRST_PASSES = 20  # before these the pace says nothing: the cutoff is still far from where it ends


@dataclass(frozen=True, eq=False)
class Eigenvectors:
    """Eigenvectors that have converged, largest eigenvalue first.

    Attributes:
        vectors: (num_rows, count) orthonormal columns.
        values: (count,) eigenvalues.
        residuals: (count,) lengths of M u - value · u.
        num_passes: Products with the matrix that it took.
        num_dropped: Wanted vectors that had not converged.
    """

    vectors: Tensor
    values: Tensor
    residuals: Tensor
    num_passes: int
    num_dropped: int

    def negated(self) -> Eigenvectors:
        """The same as eigenvectors of minus the matrix."""
        return replace(self, values=-self.values)


def leading_eigenvectors(
    multiply: Callable[[Tensor], Tensor],
    start: Tensor,
    count: int,
    *,
    tolerance: float = 2e-3,
    max_passes: int = 60,
    keep_all: bool = False,
    shared: SharedRows | None = None,
) -> Eigenvectors:
    """Eigenvectors with the largest eigenvalues, of a symmetric matrix with norm at most 1.

    multiply: (num_rows, width) table -> the matrix times it. start: (num_rows, width) random, width at least count; a
    few vectors more than are wanted make it faster. The iteration ends when all have converged, when none of the
    others would within the passes that are left, or when these are used up. What has not converged is dropped, unless
    keep_all asks for a first impression.
    shared: the ranks that have rows of these tables, each its own; None for one process, which has all.
    Memory: four tables of the size of start, which is overwritten.
    """
    shared = shared or SharedRows()
    basis = _orthonormal(start, shared)
    del start
    num_passes = 0
    before: tuple[Tensor, int] | None = None  # the residuals before the last filter, and the passes until then
    while True:
        product = multiply(basis)
        num_passes += 1
        values, turn = (part.to(basis.dtype) for part in shared.eigh(shared.inner(basis, product).double()))
        basis = basis @ turn
        product = product @ turn
        residuals = _residuals(basis, product, values[:count], shared)
        left = max_passes - num_passes
        if left < 2 or _is_done(residuals, before, num_passes, max_passes, tolerance):
            break
        before = residuals, num_passes
        cutoff = max(float(values[-1]), _LEAST_CUTOFF)
        degree = _choose_degree(cutoff, left)
        # T_degree((M - centre) / radius) basis by its recurrence, in the place of the tables that it starts from.
        centre, radius = (cutoff - 1) / 2, (cutoff + 1) / 2
        product.sub_(basis, alpha=centre).div_(radius)
        for _ in range(degree - 1):
            basis.neg_().add_(multiply(product).sub_(product, alpha=centre), alpha=2 / radius)
            basis, product = product, basis
        basis = product
        del product
        basis = _orthonormal(basis, shared)
        num_passes += degree - 1
    good = torch.nonzero((residuals <= tolerance) | keep_all).flatten()
    num_dropped = len(residuals) - len(good)
    return Eigenvectors(basis[:, good].contiguous(), values[good], residuals[good], num_passes, num_dropped)


def _is_done(
    residuals: Tensor, before: tuple[Tensor, int] | None, num_passes: int, max_passes: int, tolerance: float
) -> bool:
    """Whether all have converged, or none of the others will at the pace of the last filter."""
    waiting = residuals > tolerance
    if not bool(waiting.any()):
        return True
    if before is None or num_passes < _FIRST_PASSES:
        return False
    pace = (residuals[waiting] / before[0][waiting]).clamp(max=0.999).log() / (num_passes - before[1])
    needed = (tolerance / residuals[waiting]).log() / pace
    return bool((needed > max_passes - num_passes).all())


def _choose_degree(cutoff: float, left: int) -> int:
    """The highest degree whose growth at the eigenvalue 1 float32 can bear."""
    highest = max((3 - cutoff) / (1 + cutoff), 1 + 1e-9)  # what 1 becomes where [-1, cutoff] becomes [-1, 1]
    return max(2, min(_DEGREE, left, int(math.acosh(_MOST_GROWTH) / math.acosh(highest))))


def _orthonormal(table: Tensor, shared: SharedRows) -> Tensor:
    """(num_rows, width) orthonormal basis of the columns of a table, which is overwritten."""
    return shared.orthonormal(table.div_(shared.norms(table).clamp(min=1e-30)))


def _residuals(basis: Tensor, product: Tensor, values: Tensor, shared: SharedRows) -> Tensor:
    """(count,) lengths of the first columns of product - basis · values."""
    squares = torch.zeros(len(values), dtype=torch.float64)
    for vectors, products in zip(basis.split(_ROWS), product.split(_ROWS), strict=True):
        squares += (products[:, : len(values)] - vectors[:, : len(values)] * values).square().sum(dim=0)
    return shared.total(squares).sqrt().to(basis.dtype)


@dataclass(frozen=True, eq=False)
class LowestDirection:
    """An estimate of the eigenvector with the lowest eigenvalue.

    Attributes:
        vector: (num_rows, 1) of length 1.
        value: An upper bound of the eigenvalue.
        num_passes: Products with the matrix that it took.
    """

    vector: Tensor
    value: float
    num_passes: int


def lowest_direction(
    multiply: Callable[[Tensor], Tensor], start: Tensor, num_rows: int, shared: SharedRows | None = None
) -> LowestDirection:
    """Estimate the eigenvector with the lowest eigenvalue by a few Lanczos steps.

    multiply, shared: as in `leading_eigenvectors`. start: (num_owned, 1) random. num_rows: of all ranks.
    """
    shared = shared or SharedRows()
    basis = [start / shared.norms(start).clamp(min=1e-30)]
    diagonal, beside = [], []
    for _ in range(min(_LANCZOS_STEPS, num_rows)):
        product = multiply(basis[-1])
        diagonal.append(float(shared.inner(basis[-1], product)))
        known = torch.cat(basis, dim=1)
        product = product - known @ shared.inner(known, product)
        length = float(shared.norms(product))
        if length < 1e-5:
            break
        beside.append(length)
        basis.append(product / length)
    steps = len(diagonal)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    for place, length in enumerate(beside[: steps - 1]):
        matrix[place, place + 1] = matrix[place + 1, place] = length
    values, turn = shared.eigh(matrix)
    return LowestDirection(torch.cat(basis[:steps], dim=1) @ turn[:, -1:].to(start.dtype), float(values[-1]), steps)
