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
        return polar_by_svd(matrices)[0]
    if route == "newton-schulz":
        return newton_schulz(matrices)
    raise InputError(f"route {route!r} is not known; use 'svd' or 'newton-schulz'")


def polar_by_svd(matrices: Tensor, floors: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Polar factors and singular values; open directions are left out where floors are given.

    Args:
        matrices: (batch, dim, dim).
        floors: (batch,) singular values at or below are taken for zero, and the result is the partial isometry
            U_r V_rᵀ of the others; None completes to an orthogonal matrix whatever the rank.

    Returns:
        (batch, dim, dim) factors, and (batch, dim) singular values, descending and constant.
    """
    floors = torch.full_like(matrices[:, 0, 0].detach(), -1.0) if floors is None else floors
    factor, singular_values = _PolarBySVD.apply(matrices, floors)
    return factor, singular_values


def safe_svd(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batched SVD that tries float64, then matrix by matrix in NumPy, before it gives up with NumericalError."""
    if not bool(torch.isfinite(matrices.sum())):
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
    """R = U f(Σ) Vᵀ with f = 1 above the floor, else 0.

    With dK = Uᵀ dM V the skew part of Uᵀ dR V is skew(dK) (f_a + f_b) / (σ_a + σ_b), and the symmetric part is
    sym(dK) (f_a − f_b) / (σ_a − σ_b): zero within the determined directions.
    """

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, floors: Tensor) -> tuple[Tensor, Tensor]:
        left, values, right = safe_svd(matrices)
        kept = (values > floors[:, None]).to(values.dtype)
        ctx.save_for_backward(left, values, right, kept)
        ctx.mark_non_differentiable(values)
        return (left * kept[:, None]) @ right, values

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        left, values, right, kept = ctx.saved_tensors
        inner = left.mT @ grad @ right.mT
        row, column = values[:, :, None], values[:, None, :]
        floor = row[:, :1] * (1e3 * torch.finfo(values.dtype).eps)
        sums, gaps = row + column, row - column
        skew = torch.where(sums > floor, (kept[:, :, None] + kept[:, None, :]) / sums.clamp(min=1e-300), 0.0)
        mixed = kept[:, :, None] != kept[:, None, :]
        symmetric = torch.where(mixed, 1 / torch.where(mixed, gaps.abs(), 1.0), 0.0)
        core = 0.5 * (skew * (inner - inner.mT) + symmetric * (inner + inner.mT))
        return left @ core @ right, None


def newton_schulz(matrices: Tensor, max_iterations: int = 80) -> Tensor:
    """Polar factors by X ← X (3 I − Xᵀ X) / 2: matrix products only, batched, differentiable step by step.

    Args:
        matrices: (batch, dim, dim). Of a rank-deficient one the result is the partial isometry U_r V_rᵀ.
        max_iterations: a matrix of condition number c needs about log(c) / log(1.5) + 5 steps.
    """
    # ‖M‖₂² ≤ ‖MᵀM‖_∞, which is far below the Frobenius norm for well-conditioned matrices and saves steps.
    # The polar factor does not change with the scale, so the bound may be a constant of the gradient.
    with torch.no_grad():
        bound = (matrices.mT @ matrices).abs().sum(-1).amax(-1).sqrt()
        bound = torch.where(bound > 0, bound, 1.0)[:, None, None]
        tolerance = 4 * torch.finfo(matrices.dtype).eps * matrices.shape[-1]
    factor = matrices / bound
    last = float("inf")
    for _ in range(max_iterations if len(matrices) else 0):
        following = torch.baddbmm(factor, factor, factor.mT @ factor, beta=1.5, alpha=-0.5)
        change = float((following.detach() - factor.detach()).abs().amax())
        factor = following
        if change <= tolerance or (change < 1e-6 and change >= last):
            break
        last = change
    return factor
