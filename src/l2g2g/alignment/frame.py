"""One orthogonal map, shift and scale per patch; applying them; and the mean over patches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from l2g2g.errors import InputError


@dataclass(frozen=True, eq=False)
class Frame:
    """Transforms that bring every patch into the global frame: aligned_j = scale_j (Z_j S_j) + T_j.

    Attributes:
        rotations: (num_patches, dim, dim) orthogonal matrices S, reflections included.
        translations: (num_patches, dim) shifts T.
        scales: (num_patches,) positive factors.
    """

    rotations: Tensor
    translations: Tensor
    scales: Tensor

    @staticmethod
    def identity(
        num_patches: int,
        dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Frame:
        """Return the frame that leaves every patch where it is."""
        eye = torch.eye(dim, dtype=dtype, device=device)
        return Frame(
            eye.expand(num_patches, dim, dim).clone(),
            torch.zeros(num_patches, dim, dtype=dtype, device=device),
            torch.ones(num_patches, dtype=dtype, device=device),
        )

    @property
    def only_rotates(self) -> bool:
        """Whether nothing is shifted or scaled: inner products inside a patch stay what they are."""
        return not bool(self.translations.any()) and bool((self.scales == 1).all())

    @cached_property
    def is_identity(self) -> bool:
        """Whether every patch stays where it is."""
        eye = torch.eye(self.rotations.shape[1], dtype=self.rotations.dtype, device=self.rotations.device)
        return self.only_rotates and bool((self.rotations == eye).all())

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Frame:
        """Return the same frame on another device or in another precision."""
        parts = (self.rotations, self.translations, self.scales)
        rotations, translations, scales = (part.to(device=device, dtype=dtype) for part in parts)
        return Frame(rotations, translations, scales)

    def part(self, patches: np.ndarray) -> Frame:
        """Return the transforms of some patches, by number."""
        chosen = torch.as_tensor(patches, device=self.rotations.device)
        return Frame(self.rotations[chosen], self.translations[chosen], self.scales[chosen])

    def detach(self) -> Frame:
        """Return the same frame as a constant."""
        return Frame(self.rotations.detach(), self.translations.detach(), self.scales.detach())


def apply_frame(coordinates: Tensor, offsets: Tensor, frame: Frame) -> Tensor:
    """Bring stacked patch coordinates into the global frame; differentiable in coordinates and frame.

    Args:
        coordinates: (num_rows, dim), patch after patch.
        offsets: (num_patches + 1,) first row of each patch.
        frame: one transform per patch.

    Returns:
        (num_rows, dim) aligned coordinates.
    """
    frame = frame.to(coordinates.device, coordinates.dtype)
    linear = frame.rotations * frame.scales[:, None, None]
    lengths = offsets.diff().tolist()
    if len(set(lengths)) == 1:
        dim = coordinates.shape[1]
        blocks = coordinates.view(len(lengths), lengths[0], dim)
        return torch.baddbmm(frame.translations[:, None], blocks, linear).reshape(-1, dim)
    return _Move.apply(coordinates, lengths, linear, frame.translations) if lengths else coordinates


class _Move(torch.autograd.Function):
    """Every patch times its matrix, plus its shift, written where it belongs: nothing is put together afterwards."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        coordinates: Tensor,
        lengths: list[int],
        linear: Tensor,
        shifts: Tensor,
    ) -> Tensor:
        moved = torch.empty_like(coordinates, memory_format=torch.contiguous_format)
        parts = zip(shifts, coordinates.split(lengths), linear, moved.split(lengths), strict=True)
        for shift, patch, matrix, out in parts:
            torch.addmm(shift, patch, matrix, out=out)
        ctx.save_for_backward(coordinates, linear)
        ctx.lengths = lengths  # type: ignore[attr-defined]
        return moved

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        coordinates, linear = ctx.saved_tensors  # type: ignore[attr-defined]
        lengths: list[int] = ctx.lengths  # type: ignore[attr-defined]
        parts, needed = gradient.split(lengths), ctx.needs_input_grad  # type: ignore[attr-defined]
        of_coordinates, of_linear, of_shifts = None, None, None
        if needed[0]:
            of_coordinates = torch.empty_like(coordinates, memory_format=torch.contiguous_format)
            for part, matrix, out in zip(parts, linear, of_coordinates.split(lengths), strict=True):
                torch.mm(part, matrix.T, out=out)
        if needed[2]:
            of_linear = torch.stack(
                [patch.T @ part for patch, part in zip(coordinates.split(lengths), parts, strict=True)]
            )
        if needed[3]:
            of_shifts = torch.stack([part.sum(0) for part in parts])
        return of_coordinates, None, of_linear, of_shifts


def assemble(aligned: Tensor, global_nodes: Tensor, num_nodes: int, how: Literal["mean", "median"] = "mean") -> Tensor:
    """Merge the rows of the same node over all patches that hold it.

    Args:
        aligned: (num_rows, dim) coordinates in the global frame.
        global_nodes: (num_rows,) int64 node of each row.
        num_nodes: number of nodes of the graph; each must have at least one row.
        how: mean, or the median coordinate by coordinate (differentiable only almost everywhere).

    Returns:
        (num_nodes, dim) global embedding.
    """
    counts = torch.bincount(global_nodes, minlength=num_nodes)
    if bool((counts == 0).any()):
        missing = int((counts == 0).nonzero()[0])
        raise InputError(f"node {missing} is in no patch: {int((counts == 0).sum())} of {num_nodes} nodes have no row")
    if how == "mean":
        total = aligned.new_zeros(num_nodes, aligned.shape[1]).index_add(0, global_nodes, aligned)
        return total / counts[:, None].to(aligned.dtype)
    if how == "median":
        return _median_by_node(aligned, global_nodes, counts)
    raise InputError(f"assembly {how!r} is not known; use 'mean' or 'median'")


def _median_by_node(aligned: Tensor, nodes: Tensor, counts: Tensor) -> Tensor:
    """Median of each coordinate over the rows of each node: sort by value, then (stably) by node."""
    by_value = aligned.argsort(dim=0)
    by_node = nodes[by_value].argsort(dim=0, stable=True)
    ordered = aligned.gather(0, by_value.gather(0, by_node))
    starts = counts.cumsum(0) - counts
    return 0.5 * (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2])
