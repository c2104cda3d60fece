"""From one orthogonal map per pair of patches to one per patch: a good start, then weighted least squares.

The rotations minimise Σ w_ij ‖S_i − R_ij S_j‖² over orthogonal matrices. The start is exact for exact pairs; each
step then solves the linearised problem, whose matrix is the scalar Laplacian of the patch graph. That converges in a
few steps on rings and long chains too, where the eigenvectors of the paper's relaxation have a vanishing gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from l2g2g.alignment.laplacian import PatchLaplacian, conjugate_gradients, solve_symmetric
from l2g2g.alignment.polar import newton_schulz, polar_factor
from l2g2g.errors import NumericalError


@dataclass(frozen=True, eq=False)
class Refinement:
    """Result of `refine_rotations`: rotations (num_patches, dim, dim), the steps taken and the last step's size."""

    rotations: Tensor
    steps: int
    change: float


def transport(rotations: Tensor, edges: Tensor, relative: Tensor) -> Tensor:
    """Return E_ij = S_iᵀ R_ij S_j (num_pairs, dim, dim): the identity where the rotations explain a pair."""
    return rotations[edges[:, 0]].mT @ relative @ rotations[edges[:, 1]]


def disagreement(rotations: Tensor, edges: Tensor, relative: Tensor, weights: Tensor) -> float:
    """Return the mean of 1 − cos over all pairs and directions that they determine: 0 where all agree, 1 at random."""
    traces = transport(rotations, edges, relative).diagonal(dim1=1, dim2=2).sum(1)
    ranks = relative.square().sum((1, 2))
    return float((weights @ (ranks - traces)) / (weights @ ranks).clamp(min=1e-300)) if len(edges) else 0.0


def spectral_rotations(edges: Tensor, relative: Tensor, weights: Tensor, num_patches: int) -> Tensor:
    """Relaxation of the paper: top eigenvectors of the normalised block matrix, each block made orthogonal.

    R̃ = D^(-1/2) W D^(-1/2) with blocks W_ij = w_ij R_ij; dense, so only for small num_patches × dim.

    Returns:
        (num_patches, dim, dim) orthogonal matrices, up to one common rotation.
    """
    dim = relative.shape[-1]
    first, second = edges[:, 0], edges[:, 1]
    degrees = torch.zeros(num_patches, dtype=weights.dtype, device=weights.device)
    degrees = degrees.index_add(0, first, weights).index_add(0, second, weights)
    normalised = weights / (degrees[first] * degrees[second]).sqrt()
    blocks = torch.zeros(num_patches, num_patches, dim, dim, dtype=relative.dtype, device=relative.device)
    blocks[first, second] = normalised[:, None, None] * relative
    blocks[second, first] = normalised[:, None, None] * relative.mT
    matrix = blocks.permute(0, 2, 1, 3).reshape(num_patches * dim, num_patches * dim)
    top = _eigenvectors(matrix)[:, -dim:]
    return polar_factor(top.reshape(num_patches, dim, dim))


def _eigenvectors(matrix: Tensor) -> Tensor:
    """Eigenvectors (size, size) by ascending eigenvalue; a failing solver is tried once more on the CPU, by SVD."""
    try:
        return torch.linalg.eigh(matrix)[1]
    except RuntimeError as error:
        try:
            # A shift by 2 makes the spectrum [-1, 1] positive, so that singular vectors are eigenvectors.
            shifted = matrix.cpu().double() + 2 * torch.eye(len(matrix), dtype=torch.float64)
            return torch.linalg.svd(shifted)[0].flip(1).to(matrix)
        except RuntimeError as second_error:
            raise NumericalError(
                f"the eigenvectors of {len(matrix)} rows failed ({error}; then {second_error}); "
                "use start='tree' to do without them"
            ) from error


def refine_rotations(
    rotations: Tensor,
    edges: Tensor,
    relative: Tensor,
    laplacian: PatchLaplacian,
    *,
    tolerance: float = 1e-7,
    max_steps: int = 50,
) -> Refinement:
    """Minimise Σ w ‖S_i − R_ij S_j‖² from a start by conjugate gradients that never lose ground.

    With skew X a step is S_i ← polar(S_i (I + X_i)). The gradient is preconditioned by the Laplacian of the patch
    graph: for exact pairs that is Newton's step, with noise conjugate directions make up for the difference.

    Args:
        rotations: (num_patches, dim, dim) start; those of the roots of the Laplacian stay as they are.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) R_ij.
        laplacian: of the same pairs and weights.
        tolerance: stops when the root mean square of the preconditioned gradient is below.
        max_steps: stops in any case.
    """
    landscape = _Landscape(edges, relative, laplacian)
    agreement = transport(rotations, edges, relative)
    value = landscape.value(agreement)
    slack = 1e-14 * float(laplacian.weights.sum()) * rotations.shape[-1]  # near the optimum gains drown in rounding
    gradient = landscape.gradient(agreement)
    direction = natural = laplacian.solve(gradient)
    change, steps = _root_mean_square(natural), 0
    while change > tolerance and steps < max_steps:
        length = landscape.step_length(direction, gradient, agreement)
        for _ in range(6):
            trial = retract(rotations, landscape.skew(length * direction))
            trial_agreement = transport(trial, edges, relative)
            if landscape.value(trial_agreement) >= value - slack:
                break
            direction, length = natural, length / 4
        else:
            break  # no step gains
        rotations, agreement, steps = trial, trial_agreement, steps + 1
        value = landscape.value(agreement)
        last, last_energy = natural, (gradient * natural).sum()
        gradient = landscape.gradient(agreement)
        natural = laplacian.solve(gradient)
        momentum = ((gradient * (natural - last)).sum() / last_energy).clamp(min=0)  # Polak and Ribière
        direction = natural + momentum * direction
        change = _root_mean_square(natural)
    return Refinement(rotations, steps, change)


def _root_mean_square(values: Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


class _Landscape:
    """Σ w tr(S_iᵀ R_ij S_j) around given rotations, along S_i exp(X_i) with X given by its entries above the diagonal.

    Entries are (num_patches, dim (dim − 1) / 2); the agreement is E_ij = S_iᵀ R_ij S_j of the point looked at.
    """

    def __init__(self, edges: Tensor, relative: Tensor, laplacian: PatchLaplacian) -> None:
        self.first, self.second = edges[:, 0], edges[:, 1]
        self.laplacian = laplacian
        self.weights = laplacian.weights[:, None, None]
        self.dim = relative.shape[-1]
        self.rows, self.columns = torch.triu_indices(self.dim, self.dim, 1, device=edges.device)

    def value(self, agreement: Tensor) -> float:
        """The weighted trace, to be made large."""
        return float(self.laplacian.weights @ agreement.diagonal(dim1=1, dim2=2).sum(1))

    def gradient(self, agreement: Tensor) -> Tensor:
        """Entries of Σ_j w_ij skew(E_ij): the direction of steepest ascent."""
        return self.laplacian.divergence(self.entries(0.5 * (agreement - agreement.mT)))

    def curvature(self, entries: Tensor, agreement: Tensor) -> Tensor:
        """Minus the second derivative, applied to X: a Laplacian with the maps E_ij on its edges."""
        update = self.skew(entries)
        first, second = update[self.first], update[self.second]
        symmetric = 0.5 * (agreement + agreement.mT)
        at_first = 0.5 * (first @ symmetric + symmetric @ first) - _skew_part(agreement @ second)
        at_second = 0.5 * (second @ symmetric + symmetric @ second) - _skew_part(agreement.mT @ first)
        total = torch.zeros_like(update)
        total = total.index_add(0, self.first, self.weights * at_first)
        return self.entries(total.index_add(0, self.second, self.weights * at_second))

    def step_length(self, direction: Tensor, gradient: Tensor, agreement: Tensor) -> float:
        """Newton's step along a direction, at most 4; 1 where the landscape is not concave."""
        slope, bend = float((direction * gradient).sum()), self.bend(direction, agreement)
        return min(slope / bend, 4.0) if bend > 0 and slope > 0 else 1.0

    def bend(self, entries: Tensor, agreement: Tensor) -> float:
        """Curvature along one direction, the product of entries with `curvature`, at a third of its cost."""
        update = self.skew(entries)
        first, second = update[self.first], update[self.second]
        turned = agreement @ second
        terms = first * (first @ agreement - 2 * turned) + turned * second
        return 0.5 * float(self.laplacian.weights @ terms.sum((1, 2)))

    def entries(self, skew: Tensor) -> Tensor:
        """Entries above the diagonal."""
        return skew[:, self.rows, self.columns]

    def skew(self, entries: Tensor) -> Tensor:
        """Skew matrices (num_patches, dim, dim) from their entries above the diagonal."""
        matrices = torch.zeros(len(entries), self.dim, self.dim, dtype=entries.dtype, device=entries.device)
        matrices[:, self.rows, self.columns] = entries
        return matrices - matrices.mT


def _skew_part(matrices: Tensor) -> Tensor:
    return 0.5 * (matrices - matrices.mT)


def retract(rotations: Tensor, update: Tensor) -> Tensor:
    """Return polar(S (I + X)) for skew X; I + X has no small singular value, so no SVD is needed."""
    eye = torch.eye(update.shape[-1], dtype=update.dtype, device=update.device)
    return newton_schulz(rotations @ (eye + update))


def attach_gradient(
    rotations: Tensor, edges: Tensor, relative: Tensor, laplacian: PatchLaplacian, tolerance: float = 1e-13
) -> Tensor:
    """Give solved rotations their exact derivative with respect to the pairwise maps.

    At the optimum the gradient g(S, R) vanishes; the implicit function theorem is one Newton step with a constant
    second derivative, solved by conjugate gradients. Neither gaps of eigenvalues nor gaps of singular values are
    divided by, so that clusters of them do no harm.

    Args:
        rotations: (num_patches, dim, dim) the optimum, constant; the roots of the Laplacian stay constant.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) R_ij, carries the gradient.
        laplacian: of the same pairs and weights.
        tolerance: relative residual at which the derivative is good enough.
    """
    landscape = _Landscape(edges, relative, laplacian)
    agreement = transport(rotations, edges, relative)
    constant = agreement.detach()
    free = torch.ones(len(rotations), 1, dtype=rotations.dtype, device=rotations.device)
    free[laplacian.roots] = 0

    def solve(right: Tensor) -> Tensor:
        return conjugate_gradients(
            lambda entries: free * landscape.curvature(free * entries, constant),
            free * right,
            laplacian.solve,
            max_iterations=right.numel() + 10,
            tolerance=tolerance,
        )

    update = landscape.skew(solve_symmetric(landscape.gradient(agreement), solve))
    return rotations + rotations @ update
