"""Narrow: dense features held in two bytes a number, widened slice by slice where they are used."""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS = 1 << 14  # rows that are widened at a time
STORAGE = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class _NarrowProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, features: Tensor, weight: Tensor) -> Tensor:
        ctx.features = features  # type: ignore[attr-defined]
        product = weight.new_empty(len(features), weight.shape[1])
        for rows, out in zip(features.split(_ROWS), product.split(_ROWS), strict=True):
            torch.mm(rows.to(weight.dtype), weight, out=out)
        return product

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[None, Tensor]:
        features: Tensor = ctx.features  # type: ignore[attr-defined]
        total = gradient.new_zeros(features.shape[1], gradient.shape[1])
        for rows, outer in zip(features.split(_ROWS), gradient.split(_ROWS), strict=True):
            total.addmm_(rows.to(gradient.dtype).t(), outer)
        return None, total


def multiply_features(features: Tensor, weight: Tensor, added: Tensor | None = None) -> Tensor:
    """features @ weight + added; features: (num_rows, num_features) of any width, weight: (num_features, width)."""
    if features.dtype == weight.dtype:
        return features @ weight if added is None else torch.addmm(added, features, weight)
    product = _NarrowProduct.apply(features, weight)
    return product if added is None else product + added
