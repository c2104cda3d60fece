"""Feature product: scale · (X − 1 meanᵀ) W + bias of dense or sparse rows, and gradients that are summed by sections.

A section is a stretch of rows. Each has its own sum over rows, and these are then added: so two processes with a
section each find the same bits as one that has both.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.models.narrow import add_outer_products, multiply_into
from l2g2g.models.sparse import SparseMatrix, ThinnedMatrix, plain_product, sum_parts, transposed_parts

Rows = Tensor | SparseMatrix | ThinnedMatrix


def multiply_features(
    features: Rows,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    mean: Tensor | None = None,
    scale: Tensor | None = None,
    sections: np.ndarray | None = None,
) -> Tensor:
    """(num_rows, width) scale · (X − 1 meanᵀ) W + bias, without making sparse rows dense.

    features: (num_rows, num_features), dense ones of any precision. weight: (num_features, width). bias: (width,).
    mean: (num_features,). scale: a scalar. sections: (num_sections + 1,) first row of each; sparse rows have their own.
    Differentiable in weight, bias and dense features.
    """
    if not isinstance(features, Tensor):
        sections = (features.whole if isinstance(features, ThinnedMatrix) else features).sections
    return _FeatureProduct.apply(features, weight, bias, mean, scale, sections)


class _FeatureProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Rows,
        weight: Tensor,
        bias: Tensor | None,
        mean: Tensor | None,
        scale: Tensor | None,
        sections: np.ndarray | None,
    ) -> Tensor:
        ctx.features, ctx.mean, ctx.scale, ctx.sections = features, mean, scale, sections
        ctx.save_for_backward(weight)
        if scale is not None:
            weight = weight * scale
        if mean is not None:
            shift = -(mean @ weight)
            bias = shift if bias is None else bias + shift
        if not isinstance(features, Tensor):
            return plain_product(features, weight, bias)
        product = weight.new_empty(len(features), weight.shape[1])
        for low, high in _stretches(product, sections):
            multiply_into(product[low:high], features[low:high], weight, bias)
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        features, mean, scale = ctx.features, ctx.mean, ctx.scale
        stretches = _stretches(gradient, ctx.sections)
        of_rows, of_bias = None, None
        if isinstance(features, Tensor):
            parts = [add_outer_products(features[low:high], gradient[low:high]) for low, high in stretches]
        else:
            parts = list(transposed_parts(features, gradient))
        if mean is not None or ctx.needs_input_grad[2]:
            sums = [gradient[low:high].sum(0) for low, high in stretches]
            if len(parts) != len(sums):  # those of threads
                parts, sums = [sum_parts(parts)], [sum_parts(sums)]
            if mean is not None:
                parts = [part.addr_(mean, own, alpha=-1) for part, own in zip(parts, sums, strict=True)]
            of_bias = sum_parts(sums) if ctx.needs_input_grad[2] else None
        if scale is not None:
            parts = [part.mul_(scale) for part in parts]
        if ctx.needs_input_grad[0]:
            (weight,) = ctx.saved_tensors
            turned = (weight if scale is None else weight * scale).t()
            of_rows = torch.empty_like(features)
            for low, high in stretches:
                torch.mm(gradient[low:high], turned, out=of_rows[low:high])
        return of_rows, sum_parts(parts), of_bias, None, None, None


def _stretches(rows: Tensor, sections: np.ndarray | None) -> list[tuple[int, int]]:
    return [(0, len(rows))] if sections is None else list(pairwise(sections.tolist()))
