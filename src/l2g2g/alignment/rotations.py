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
    """Return Σ w ‖S_i − R_ij S_j‖² / (2 Σ w dim): 0 where all pairs agree, about 1 for random rotations."""
    traces = transport(rotations, edges, relative).diagonal(dim1=1, dim2=2).sum(1)
    total = weights.sum() * rotations.shape[-1]
    return float(1 - (weights * traces).sum() / total) if len(edges) else 0.0


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
    tolerance: float = 1e-9,
    max_steps: int = 50,
) -> Refinement:
    """Minimise Σ w ‖S_i − R_ij S_j‖² from a start, by steps S_i ← polar(S_i (I + X_i)) that never go uphill.

    Args:
        rotations: (num_patches, dim, dim) start; those of the roots of the Laplacian stay as they are.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) R_ij.
        laplacian: of the same pairs and weights.
        tolerance: stops when the root mean square of X is below.
        max_steps: stops in any case.
    """
    weights = laplacian.weights
    change, steps = 0.0, 0
    agreement = transport(rotations, edges, relative)
    value = _weighted_trace(agreement, weights)
    for _ in range(max_steps):
        update = _linearised_update(agreement, laplacian)
        change = float(update.square().mean().sqrt())
        if change <= tolerance:
            break
        for _ in range(6):
            trial = retract(rotations, update)
            agreement = transport(trial, edges, relative)
            trial_value = _weighted_trace(agreement, weights)
            if trial_value >= value:
                break
            update = update / 4
        else:
            break  # rounding hides any further gain
        rotations, value, steps = trial, trial_value, steps + 1
    return Refinement(rotations, steps, change)


def _weighted_trace(agreement: Tensor, weights: Tensor) -> float:
    return float(weights @ agreement.diagonal(dim1=1, dim2=2).sum(1)) if len(weights) else 0.0


def _linearised_update(agreement: Tensor, laplacian: PatchLaplacian) -> Tensor:
    """Skew X (num_patches, dim, dim) that minimises Σ w ‖skew(E_ij) + X_j − X_i‖²."""
    dim = agreement.shape[-1]
    upper = torch.triu_indices(dim, dim, 1, device=agreement.device)
    entries = 0.5 * (agreement[:, upper[0], upper[1]] - agreement[:, upper[1], upper[0]])
    return _skew(laplacian.integrate(entries), upper, dim)


def _skew(entries: Tensor, upper: Tensor, dim: int) -> Tensor:
    """Skew matrices (rows, dim, dim) from the entries (rows, dim (dim - 1) / 2) above the diagonal."""
    matrices = torch.zeros(len(entries), dim, dim, dtype=entries.dtype, device=entries.device)
    matrices[:, upper[0], upper[1]] = entries
    return matrices - matrices.mT


def retract(rotations: Tensor, update: Tensor) -> Tensor:
    """Return polar(S (I + X)) for skew X; I + X has no small singular value, so no SVD is needed."""
    eye = torch.eye(update.shape[-1], dtype=update.dtype, device=update.device)
    return newton_schulz(rotations @ (eye + update))


def attach_gradient(rotations: Tensor, edges: Tensor, relative: Tensor, laplacian: PatchLaplacian) -> Tensor:
    """Give solved rotations their exact derivative with respect to the pairwise maps.

    At the minimum g(S, R) = 0 with g_i = Σ_j w_ij skew(E_ij); the implicit function theorem is one Newton step
    with a constant Hessian, solved by conjugate gradients. Neither eigenvalues nor singular values are divided by,
    so that clusters of them do no harm.

    Args:
        rotations: (num_patches, dim, dim) the minimum, constant; the roots of the Laplacian stay constant.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) R_ij, carries the gradient.
        laplacian: of the same pairs and weights.
    """
    num_patches, dim = rotations.shape[:2]
    upper = torch.triu_indices(dim, dim, 1, device=rotations.device)
    agreement = transport(rotations, edges, relative)
    skew_entries = 0.5 * (agreement[:, upper[0], upper[1]] - agreement[:, upper[1], upper[0]])
    constant = agreement.detach()
    free = torch.ones(num_patches, 1, dtype=rotations.dtype, device=rotations.device)
    free[laplacian.roots] = 0

    def multiply(entries: Tensor) -> Tensor:
        """Second derivative of −Σ w tr E_ij along S_i exp(X_i): a Laplacian with the maps E_ij on its edges."""
        update = _skew(entries, upper, dim)
        first, second = update[edges[:, 0]], update[edges[:, 1]]
        symmetric = 0.5 * (constant + constant.mT)
        at_first = 0.5 * (first @ symmetric + symmetric @ first) - _skew_part(constant @ second)
        at_second = 0.5 * (second @ symmetric + symmetric @ second) - _skew_part(constant.mT @ first)
        total = torch.zeros_like(update)
        weights = laplacian.weights[:, None, None]
        total = total.index_add(0, edges[:, 0], weights * at_first).index_add(0, edges[:, 1], weights * at_second)
        return free * total[:, upper[0], upper[1]]

    def solve(right: Tensor) -> Tensor:
        return conjugate_gradients(multiply, free * right, laplacian.solve, 20 * num_patches * dim)

    update = _skew(solve_symmetric(laplacian.divergence(skew_entries), solve), upper, dim)
    return rotations + rotations @ update


def _skew_part(matrices: Tensor) -> Tensor:
    return 0.5 * (matrices - matrices.mT)
