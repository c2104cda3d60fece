"""Least squares over the patch graph: given differences on pairs, find one value per patch that explains them.

Translations, log-scales and the refinement of rotations are all this one problem, with one Laplacian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu
from torch import Tensor

from l2g2g.errors import NumericalError

Solver = Literal["auto", "dense", "sparse", "iterative"]
_DENSE_PATCHES = 1000


class PatchLaplacian:
    """Weighted Laplacian of the patch graph with one patch of every component held at zero.

    Args:
        edges: (num_pairs, 2) int64 pairs of patches.
        weights: (num_pairs,) positive float64.
        roots: (num_components,) int64, the patch of each component that is held at zero.
        num_patches: number of patches.
        solver: "dense" Cholesky, "sparse" LU (SciPy, CPU), "iterative" conjugate gradients (matrix products only);
            "auto" takes dense up to a thousand patches, then sparse on the CPU and iterative elsewhere.
    """

    def __init__(
        self, edges: Tensor, weights: Tensor, roots: Tensor, num_patches: int, solver: Solver = "auto"
    ) -> None:
        self.first, self.second = edges[:, 0], edges[:, 1]
        self.weights = weights
        self.roots = roots
        self.num_patches = num_patches
        if solver == "auto":
            large = "sparse" if edges.device.type == "cpu" else "iterative"
            solver = "dense" if num_patches <= _DENSE_PATCHES else large  # type: ignore[assignment]
        build = {"dense": self._factor_dense, "sparse": self._factor_sparse, "iterative": self._prepare_iterations}
        try:
            self._solve = build[solver]()
        except (RuntimeError, ValueError) as error:
            self._solve = self._fall_back(error)

    def divergence(self, differences: Tensor) -> Tensor:
        """Sum weighted differences (num_pairs, ...) at the first patch of each pair, minus those at the second."""
        weighted = self.weights.view(-1, *[1] * (differences.ndim - 1)) * differences
        total = torch.zeros(self.num_patches, *differences.shape[1:], dtype=weighted.dtype, device=weighted.device)
        return total.index_add(0, self.first, weighted).index_add(0, self.second, weighted, alpha=-1)

    def integrate(self, differences: Tensor) -> Tensor:
        """Return x (num_patches, m) that minimises Σ w ‖x_i − x_j − differences_ij‖², zero at the roots."""
        return self.solve(self.divergence(differences))

    def solve(self, right: Tensor) -> Tensor:
        """Solve L x = right (num_patches, m), x zero at the roots; differentiable in the right-hand side."""
        return _SymmetricSolve.apply(right, self._solve_pinned)

    def _solve_pinned(self, right: Tensor) -> Tensor:
        # Rows of the roots are taken out of the system; their right-hand side is implied by the others.
        pinned = right.clone()
        pinned[self.roots] = 0
        return self._solve(pinned)

    def _matrix(self) -> Tensor:
        """Dense (num_patches, num_patches) matrix; rows and columns of roots are those of the identity."""
        size = self.num_patches
        matrix = torch.zeros(size * size, dtype=torch.float64, device=self.weights.device)
        matrix.index_add_(0, self.first * size + self.second, -self.weights)
        matrix = matrix.view(size, size)
        matrix = matrix + matrix.T
        matrix -= torch.diag(matrix.sum(1))
        matrix[self.roots] = 0
        matrix[:, self.roots] = 0
        matrix[self.roots, self.roots] = 1
        return matrix

    def _factor_dense(self) -> Callable[[Tensor], Tensor]:
        factor = torch.linalg.cholesky(self._matrix())
        return lambda right: torch.cholesky_solve(right, factor)

    def _factor_sparse(self) -> Callable[[Tensor], Tensor]:
        first, second, weights = (part.cpu().numpy() for part in (self.first, self.second, self.weights))
        size = self.num_patches
        pinned = np.zeros(size, dtype=bool)
        pinned[self.roots.cpu().numpy()] = True
        degrees = np.bincount(first, weights, size) + np.bincount(second, weights, size)
        degrees[pinned] = 1
        free = ~(pinned[first] | pinned[second])
        first, second, weights = first[free], second[free], weights[free]
        rows = np.concatenate([first, second, np.arange(size)])
        columns = np.concatenate([second, first, np.arange(size)])
        matrix = coo_matrix((np.concatenate([-weights, -weights, degrees]), (rows, columns)), shape=(size, size))
        factor = splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        return lambda right: torch.from_numpy(factor.solve(right.cpu().numpy())).to(right.device)

    def _prepare_iterations(self) -> Callable[[Tensor], Tensor]:
        free = torch.ones(self.num_patches, 1, dtype=torch.float64, device=self.weights.device)
        free[self.roots] = 0
        degrees = torch.zeros_like(free[:, 0])
        degrees.index_add_(0, self.first, self.weights).index_add_(0, self.second, self.weights)
        inverse_degrees = torch.where(degrees > 0, 1 / degrees.clamp(min=1e-300), 1.0)[:, None] * free

        def multiply(x: Tensor) -> Tensor:
            return free * self.divergence(x[self.first] - x[self.second])

        limit = 20 * self.num_patches + 100
        return lambda right: conjugate_gradients(multiply, right, lambda r: inverse_degrees * r, limit)

    def _fall_back(self, error: Exception) -> Callable[[Tensor], Tensor]:
        """Least squares through the pseudo-inverse where a factorisation failed; CPU, float64."""
        try:
            inverse = torch.linalg.pinv(self._matrix().cpu(), hermitian=True).to(self.weights.device)
        except RuntimeError as second_error:
            raise NumericalError(
                f"the least squares over {self.num_patches} patches failed ({error}; then {second_error}); "
                "check the weights of the pairs"
            ) from error
        return lambda right: inverse @ right


class _SymmetricSolve(torch.autograd.Function):
    """x = A⁻¹ b for a symmetric constant A given only by its solver; the gradient is one more solve."""

    @staticmethod
    def forward(ctx: Any, right: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.solve = solve
        return solve(right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _SymmetricSolve.apply(grad, ctx.solve), None


def solve_symmetric(right: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a symmetric linear solver so that gradients pass through it by one more solve."""
    return _SymmetricSolve.apply(right, solve)


def conjugate_gradients(
    multiply: Callable[[Tensor], Tensor],
    right: Tensor,
    precondition: Callable[[Tensor], Tensor],
    max_iterations: int,
    tolerance: float = 1e-13,
) -> Tensor:
    """Solve A x = right (rows, m) for a symmetric positive semi-definite A; x and right are one long vector each.

    Args:
        multiply: x ↦ A x.
        right: (rows, m), in the range of A.
        precondition: r ↦ an approximation of A⁻¹ r.
        max_iterations: gives the best so far when reached.
        tolerance: stops when the residual is this fraction of the right-hand side.
    """
    x = torch.zeros_like(right)
    residual = right.clone()
    direction = step = precondition(residual)
    energy = (residual * step).sum()
    target = tolerance * float(right.norm())
    for _ in range(max_iterations):
        if float(residual.norm()) <= target:
            break
        image = multiply(direction)
        bend = (direction * image).sum()
        if not float(bend) > 0:
            break  # a direction that A does not see: nothing more can be gained
        rate = energy / bend
        x = x + rate * direction
        residual = residual - rate * image
        step = precondition(residual)
        last, energy = energy, (residual * step).sum()
        direction = step + energy / last * direction
    return x
