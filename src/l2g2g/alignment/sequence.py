"""Snapshots of one graph over time, each trained apart, in one space: a chain, or a window of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from l2g2g.alignment.align import hold_patch, patch_components
from l2g2g.alignment.frame import Frame
from l2g2g.alignment.patch_input import read_patches
from l2g2g.alignment.streaming import Residuals, SharedNodes, measure_residuals
from l2g2g.alignment.synchronise import synchronise
from l2g2g.errors import InputError


@dataclass(frozen=True, eq=False)
class AlignedSequence:
    """Snapshots in the frame of the first.

    Attributes:
        snapshots: one (num_local, dim) array or tensor per snapshot, rows as they came.
        rotations, translations, scales: of each snapshot, as in `AlignedEmbedding`.
        residuals: how far shared nodes moved between the snapshots that were compared.
    """

    snapshots: list[Any]
    rotations: Any
    translations: Any
    scales: Any
    residuals: Residuals


def align_sequence(snapshots: Sequence[tuple[Any, Any]], window: int = 1, **options: Any) -> AlignedSequence:
    """Align every snapshot with the ``window`` before it; the first keeps its coordinates.

    Nodes move between snapshots, so nothing is averaged: each snapshot keeps its own coordinates of a node.

    Args:
        snapshots: (nodes, coordinates) in order of time.
        window: 1 for a chain; more compares each snapshot with several before it, which drifts less.
        options: ``rotate, translate, scale, weights, robust, route`` of `synchronise`.
    """
    if window < 1:
        raise InputError(f"window must be at least 1, not {window}")
    source = read_patches(snapshots)
    pairs = [(later - back, later) for later in range(len(snapshots)) for back in range(1, min(window, later) + 1)]
    shared = SharedNodes.gather(source, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    frame = synchronise(
        shared.coordinates.double(),
        shared.offsets,
        shared.overlaps,
        patch_sizes=torch.from_numpy(np.diff(source.offsets)),
        **options,
    )
    frame = hold_patch(frame, 0, patch_components(shared.overlaps))
    residuals = measure_residuals(source, shared, frame)
    rounded = Frame(*(part.to(source.dtype) for part in (frame.rotations, frame.translations, frame.scales)))
    aligned = [source.export(_transform(source.load(i), rounded, i)) for i in range(source.num_patches)]
    return AlignedSequence(
        aligned,
        source.export(rounded.rotations),
        source.export(rounded.translations),
        source.export(rounded.scales),
        residuals,
    )


def _transform(values: torch.Tensor, frame: Frame, patch: int) -> torch.Tensor:
    if patch == 0:
        return values  # to the bit
    return torch.addmm(frame.translations[patch], values, frame.scales[patch] * frame.rotations[patch])
