"""The orthogonal matrix nearest to each matrix of a batch: by SVD, or by Newton–Schulz without any inversion."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from l2g2g.errors import InputError, NumericalError

Route = Literal["svd", "newton-schulz"]


def polar_factor(matrices: Tensor, route: Route = "svd") -> Tensor:
    """Return U Vᵀ of each matrix U Σ Vᵀ, with a well-conditioned gradient.

    Args:
        matrices: (batch, dim, dim).
        route: "svd", or "newton-schulz" which uses matrix products only.

    Returns:
        (batch, dim, dim) orthogonal matrices. The gradient divides by σ_a + σ_b only, so that equal singular
        values are harmless; directions in which both vanish carry no gradient.

    Example:
        >>> polar_factor(torch.tensor([[[0.0, 3.0], [-2.0, 0.0]]]))
        tensor([[[ 0.,  1.],
                 [-1.,  0.]]])
    """
    if route == "svd":
        return _PolarBySVD.apply(matrices)[0]
    if route == "newton-schulz":
        return newton_schulz(matrices)
    raise InputError(f"route {route!r} is not known; use 'svd' or 'newton-schulz'")


def polar_with_singular_values(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the polar factors (batch, dim, dim) and the singular values (batch, dim), descending and constant."""
    polar, singular_values = _PolarBySVD.apply(matrices)
    return polar, singular_values


def safe_svd(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batched SVD that tries float64, then matrix by matrix in NumPy, before it gives up with NumericalError."""
    if not bool(torch.isfinite(matrices).all()):
        bad = int((~torch.isfinite(matrices)).flatten(1).any(1).nonzero()[0])
        raise NumericalError(f"the cross-covariance of pair {bad} is not finite; check the coordinates for NaN or inf")
    try:
        return torch.linalg.svd(matrices)
    except RuntimeError:  # torch.linalg.LinAlgError is one; so are device failures
        pass
    try:
        left, values, right = torch.linalg.svd(matrices.cpu().double())
        return left.to(matrices), values.to(matrices), right.to(matrices)
    except RuntimeError:
        return _svd_by_gram(matrices)


def _svd_by_gram(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Dense fallback: right vectors from eigh(MᵀM) in float64, left ones from a QR of M V."""
    doubles = matrices.cpu().double()
    try:
        _, vectors = torch.linalg.eigh(doubles.mT @ doubles)
        vectors = vectors.flip(-1)
        left, upper = torch.linalg.qr(doubles @ vectors)
    except RuntimeError as error:
        raise NumericalError(
            f"the SVD of {len(matrices)} overlap matrices failed ({error}); try route='newton-schulz' or drop the "
            "pairs of patches with the fewest shared nodes"
        ) from error
    values = upper.diagonal(dim1=-2, dim2=-1)
    sign = torch.where(values < 0, -1.0, 1.0)
    return (left * sign[:, None]).to(matrices), values.abs().to(matrices), vectors.mT.to(matrices)


class _PolarBySVD(torch.autograd.Function):
    """R = U Vᵀ. With dK = Uᵀ dM V: dR = U [(dK − dKᵀ) / (σ_a + σ_b)] Vᵀ."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> tuple[Tensor, Tensor]:
        left, values, right = safe_svd(matrices)
        ctx.save_for_backward(left, values, right)
        ctx.mark_non_differentiable(values)
        return left @ right, values

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        left, values, right = ctx.saved_tensors
        inner = left.mT @ grad @ right.mT
        sums = values[:, :, None] + values[:, None, :]
        floor = values[:, :1, None] * (1e3 * torch.finfo(values.dtype).eps)
        determined = sums > floor
        weights = torch.where(determined, 1 / torch.where(determined, sums, 1.0), 0.0)
        return left @ ((inner - inner.mT) * weights) @ right


def newton_schulz(matrices: Tensor, max_iterations: int = 100) -> Tensor:
    """Polar factors by X ← X (3 I − Xᵀ X) / 2: matrix products only, batched, differentiable step by step.

    Args:
        matrices: (batch, dim, dim). Rank-deficient ones do not converge to an orthogonal matrix.
        max_iterations: a matrix of condition number c needs about log(c) / log(1.5) + 5 steps.
    """
    # ‖M‖₂² ≤ ‖MᵀM‖_∞, which is far below the Frobenius norm for well-conditioned matrices and saves steps.
    with torch.no_grad():
        bound = (matrices.mT @ matrices).abs().sum(-1).amax(-1).sqrt()
        bound = torch.where(bound > 0, bound, 1.0)[:, None, None]
        eye = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
        tolerance = 4 * torch.finfo(matrices.dtype).eps * matrices.shape[-1]
    factor = matrices / bound
    last = float("inf")
    for _ in range(max_iterations):
        gram = factor.mT @ factor
        error = float((gram.detach() - eye).abs().amax()) if len(matrices) else 0.0
        if error <= tolerance or (error < 1e-3 and error >= last):
            break
        last = error
        factor = torch.baddbmm(factor, factor, gram, beta=1.5, alpha=-0.5)
    return factor
