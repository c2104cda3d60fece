"""Narrow: dense features held in two bytes a number, widened slice by slice where they are used."""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS = 1 << 14  # rows that are widened at a time
STORAGE = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def multiply_into(target: Tensor, rows: Tensor, weight: Tensor, added: Tensor | None = None) -> None:
    """target = rows @ weight + added. rows: (num_rows, num_features), any precision; weight: (num_features, width)."""
    if rows.dtype == weight.dtype:
        _multiply(target, rows, weight, added)
        return
    for part, out in zip(rows.split(_ROWS), target.split(_ROWS), strict=True):
        _multiply(out, part.to(weight.dtype), weight, added)


def _multiply(target: Tensor, rows: Tensor, weight: Tensor, added: Tensor | None) -> None:
    if added is None:
        torch.mm(rows, weight, out=target)
    else:
        torch.addmm(added, rows, weight, out=target)


def add_outer_products(rows: Tensor, gradient: Tensor) -> Tensor:
    """(num_features, width) rowsᵀ @ gradient, rows of any precision."""
    if rows.dtype == gradient.dtype:
        return rows.t() @ gradient
    total = gradient.new_zeros(rows.shape[1], gradient.shape[1])
    for part, outer in zip(rows.split(_ROWS), gradient.split(_ROWS), strict=True):
        total.addmm_(part.to(gradient.dtype).t(), outer)
    return total
