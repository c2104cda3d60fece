"""Patches in, embedding out, one patch at a time: only shared nodes are in memory; and how far these lie apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame, apply_frame, assemble
from l2g2g.alignment.patch_input import PatchInput
from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import OverlapIndex, index_overlaps


@dataclass(frozen=True, eq=False)
class Residuals:
    """Root mean square distances after alignment, as NumPy arrays or tensors like the input.

    Attributes:
        per_patch: (num_patches,) between the patch's copy of a shared node and the mean of all copies.
        per_pair: (num_pairs,) between the two copies of the nodes that a pair shares.
        per_node: (num_nodes,) between the copies of a node and their mean; 0 for nodes of one patch.
        pairs: (num_pairs, 2) the patches of each pair.
        before, after: the root mean square over all pairs, with patches as they came and as they were aligned.
    """

    per_patch: Any
    per_pair: Any
    per_node: Any
    pairs: Any
    before: float
    after: float


def pair_distances(aligned: Tensor, overlaps: OverlapIndex) -> Tensor:
    """Squared distances (num_shared,) in float64 between the two copies of every shared node."""
    return (aligned[overlaps.first_rows].double() - aligned[overlaps.second_rows].double()).square().sum(1)


def root_mean_by(squares: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """(num_groups,) root of the mean square of each group, 0 for an empty one. squares, groups: (num_values,)."""
    zeros = torch.zeros(num_groups, dtype=squares.dtype, device=squares.device)
    counts = torch.bincount(groups, minlength=num_groups).clamp(min=1)
    return (zeros.index_add(0, groups, squares) / counts).sqrt()


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """The part of all patches that alignment looks at.

    Attributes:
        coordinates: (num_shared_rows, dim) rows of nodes that stand in several patches, patch after patch.
        offsets: (num_patches + 1,) first such row of each patch.
        numbers: (num_shared_rows,) int64 node number of each row.
        overlaps: index of these rows.
    """

    coordinates: Tensor
    offsets: Tensor
    numbers: Tensor
    overlaps: OverlapIndex

    @staticmethod
    def gather(source: PatchInput, pairs: np.ndarray | None = None) -> SharedNodes:
        """Read the shared rows of every patch and index them."""
        rows = [source.shared_of(patch) for patch in range(source.num_patches)]
        numbers = [numbers[local] for numbers, local in zip(source.numbers, rows, strict=True)]
        try:
            overlaps = index_overlaps(numbers, pairs)
        except InputError as error:
            raise InputError(_with_names(str(error), source)) from None
        coordinates = torch.cat([source.load(patch, local) for patch, local in enumerate(rows)])
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum([len(local) for local in rows])]))
        if not bool(torch.isfinite(coordinates).all()):
            bad = int((~torch.isfinite(coordinates)).any(1).nonzero()[0])
            patch = int(torch.searchsorted(offsets, bad, right=True)) - 1
            name = source.names[np.concatenate(numbers)[bad]]
            raise InputError(f"node {name} has coordinates in patch {patch} that are not finite")
        device = source.device
        stacked = torch.from_numpy(np.concatenate(numbers)).to(device)
        return SharedNodes(coordinates, offsets, stacked, overlaps.to(device))

    def with_overlaps(self, overlaps: OverlapIndex) -> SharedNodes:
        """Return the same rows with another index."""
        return replace(self, overlaps=overlaps)


def _with_names(message: str, source: PatchInput) -> str:
    """Node numbers are ours; the message must name the user's id."""
    words = message.split()
    if words[:1] == ["node"] and words[1].isdigit():
        words[1] = str(source.names[int(words[1])])
    return " ".join(words)


def measure_residuals(source: PatchInput, shared: SharedNodes, frame: Frame) -> Residuals:
    """Compare the copies of all shared nodes in the common frame."""
    found = compare_copies(shared, frame, source.num_patches, len(source.names))
    arrays = {name: source.export(getattr(found, name)) for name in ("per_patch", "per_pair", "per_node", "pairs")}
    return replace(found, **arrays)


def compare_copies(shared: SharedNodes, frame: Frame, num_patches: int, num_nodes: int) -> Residuals:
    """The residuals of shared nodes, as tensors."""
    overlaps = shared.overlaps
    aligned = apply_frame(shared.coordinates.double(), shared.offsets, frame)
    squares = pair_distances(aligned, overlaps)
    before = pair_distances(shared.coordinates, overlaps)
    unique, position = torch.unique(shared.numbers, return_inverse=True)
    means = assemble(aligned, position, len(unique)) if len(unique) else aligned
    from_mean = (aligned - means[position]).square().sum(1)
    patch = torch.repeat_interleave(torch.arange(num_patches), shared.offsets.diff()).to(aligned.device)
    per_node = torch.zeros(num_nodes, dtype=torch.float64, device=aligned.device)
    per_node[unique] = root_mean_by(from_mean, position, len(unique))
    return Residuals(
        per_patch=root_mean_by(from_mean, patch, num_patches),
        per_pair=root_mean_by(squares, overlaps.pair_of_entry, overlaps.num_pairs),
        per_node=per_node,
        pairs=overlaps.edges,
        before=float(before.mean().sqrt()) if len(before) else 0.0,
        after=float(squares.mean().sqrt()) if len(squares) else 0.0,
    )


def stream_embedding(
    source: PatchInput, shared: SharedNodes, frame: Frame, assembly: Any, fixed: int | None, out: str | Path | None
) -> Any:
    """Write every patch into the embedding (num_nodes, dim), then merge the copies of shared nodes.

    Args:
        source: patches, read one at a time.
        shared: their shared nodes.
        frame: transforms.
        assembly: "mean" or "median".
        fixed: a patch whose coordinates are kept to the bit.
        out: ``.npy`` file to create, or None for memory.
    """
    embedding, stored = _allocate(source, out)
    frame = frame.to(source.device, source.dtype)
    linear = frame.rotations * frame.scales[:, None, None]
    for patch in range(source.num_patches):
        if patch != fixed:
            _write_rows(embedding, source.numbers[patch], source.load(patch), linear[patch], frame.translations[patch])
    unique, position = torch.unique(shared.numbers, return_inverse=True)
    if len(unique):
        aligned = apply_frame(shared.coordinates, shared.offsets, frame)
        embedding[unique] = assemble(aligned, position, len(unique), assembly)
    if fixed is not None:
        embedding[torch.from_numpy(source.numbers[fixed]).to(source.device)] = source.load(fixed)
    return embedding if source.is_torch and out is None else stored


def _allocate(source: PatchInput, out: str | Path | None) -> tuple[Tensor, Any]:
    """An empty embedding as a tensor, and the array or memory map behind it."""
    shape = (len(source.names), source.dim)
    if out is None:
        tensor = torch.empty(shape, dtype=source.dtype, device=source.device)
        return tensor, None if source.is_torch else tensor.numpy()
    if source.device.type != "cpu":
        raise InputError("out= writes from the CPU; give NumPy arrays or CPU tensors")
    kind = np.float64 if source.dtype == torch.float64 else np.float32
    stored = np.lib.format.open_memmap(Path(out), mode="w+", dtype=kind, shape=shape)
    return torch.from_numpy(stored), stored


def _write_rows(embedding: Tensor, numbers: np.ndarray, values: Tensor, linear: Tensor, shift: Tensor) -> None:
    """Transform one patch straight into its rows; runs of consecutive nodes need no scatter."""
    count = len(numbers)
    if count == 0:
        return
    run = int(np.flatnonzero(np.diff(numbers) != 1)[0]) + 1 if (np.diff(numbers) != 1).any() else count
    if run >= count // 2:
        start = int(numbers[0])
        torch.addmm(shift, values[:run], linear, out=embedding[start : start + run])
    else:
        run = 0
    if run < count:
        rows = torch.from_numpy(numbers[run:]).to(embedding.device)
        embedding[rows] = torch.addmm(shift, values[run:], linear)
