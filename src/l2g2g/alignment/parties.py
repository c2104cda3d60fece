"""Alignment between parties that share little: shared coordinates go to a coordinator, transforms come back.

1. Every party knows which of its ids others hold too, and calls `export_overlaps` at home.
2. The coordinator calls `solve_transforms` on the exports. It sees the coordinates of shared nodes, their ids, and the
   number of nodes of each party (which pins the gauge); nothing else.
3. Every party calls `apply_transform` at home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from l2g2g.alignment.align import hold_patch, patch_components
from l2g2g.alignment.patch_input import read_patches
from l2g2g.alignment.polar import Route
from l2g2g.alignment.solve import Weights
from l2g2g.alignment.streaming import SharedNodes
from l2g2g.alignment.synchronise import synchronise
from l2g2g.errors import InputError


@dataclass(frozen=True, eq=False)
class OverlapExport:
    """What leaves a party: ids (num_shared,), coordinates (num_shared, dim), and its number of nodes."""

    nodes: np.ndarray
    coordinates: np.ndarray
    num_nodes: int

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file without pickle."""
        with Path(path).open("wb") as file:
            np.savez(file, nodes=self.nodes, coordinates=self.coordinates, num_nodes=np.int64(self.num_nodes))

    @staticmethod
    def load(path: str | Path) -> OverlapExport:
        """Read what `save` wrote."""
        fields = _read_fields(path, ("nodes", "coordinates", "num_nodes"))
        return OverlapExport(fields["nodes"], fields["coordinates"], int(fields["num_nodes"]))


@dataclass(frozen=True, eq=False)
class PartyTransform:
    """What comes back: rotation (dim, dim), translation (dim,) and scale of one party."""

    rotation: np.ndarray
    translation: np.ndarray
    scale: float

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file without pickle."""
        with Path(path).open("wb") as file:
            np.savez(file, rotation=self.rotation, translation=self.translation, scale=np.float64(self.scale))

    @staticmethod
    def load(path: str | Path) -> PartyTransform:
        """Read what `save` wrote."""
        fields = _read_fields(path, ("rotation", "translation", "scale"))
        return PartyTransform(fields["rotation"], fields["translation"], float(fields["scale"]))


def _read_fields(path: str | Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path} is not a file of {', '.join(names)} written by this package: {error}") from error


def export_overlaps(nodes: Any, coordinates: Any, shared_ids: Any) -> OverlapExport:
    """Cut a party's embedding down to the nodes that others hold too; runs at the party.

    Args:
        nodes: (num_nodes,) integer or string ids.
        coordinates: (num_nodes, dim).
        shared_ids: ids that any other party holds; those that this party lacks are ignored.
    """
    nodes = np.asarray(nodes)
    values = coordinates.detach().cpu().numpy() if isinstance(coordinates, torch.Tensor) else np.asarray(coordinates)
    if values.ndim != 2 or len(nodes) != len(values):
        raise InputError(f"{len(nodes)} nodes do not go with coordinates of shape {values.shape}")
    kept = np.isin(nodes, np.asarray(shared_ids))
    return OverlapExport(nodes[kept].copy(), values[kept].copy(), len(nodes))


def solve_transforms(
    exports: Sequence[OverlapExport | str | Path],
    *,
    anchor: int | None = None,
    rotate: bool = True,
    translate: bool = True,
    scale: bool = False,
    weights: Weights = "overlap",
    robust: bool = False,
    route: Route = "svd",
) -> list[PartyTransform]:
    """Solve for the transforms of all parties; runs at the coordinator. Options are those of `align`.

    Args:
        exports: one for each party, or the files they were saved to.
        anchor: a party that keeps its coordinates.

    Returns:
        One transform for each party, the same as a joint `align` finds.
    """
    loaded = [item if isinstance(item, OverlapExport) else OverlapExport.load(item) for item in exports]
    source = read_patches([(item.nodes, item.coordinates) for item in loaded])
    shared = SharedNodes.gather(source)
    frame = synchronise(
        shared.coordinates.double(),
        shared.offsets,
        shared.overlaps,
        rotate=rotate,
        translate=translate,
        scale=scale,
        weights=weights,
        robust=robust,
        route=route,
        patch_sizes=torch.tensor([item.num_nodes for item in loaded]),
    )
    if anchor is not None:
        frame = hold_patch(frame, anchor, patch_components(shared.overlaps))
    parts = (part.cpu().numpy() for part in (frame.rotations, frame.translations, frame.scales))
    return [PartyTransform(rotation, shift, float(factor)) for rotation, shift, factor in zip(*parts, strict=True)]


def apply_transform(coordinates: Any, transform: PartyTransform | str | Path) -> Any:
    """Bring a party's coordinates (num_nodes, dim) into the common frame, at home; keeps kind and precision."""
    if not isinstance(transform, PartyTransform):
        transform = PartyTransform.load(transform)
    linear = transform.scale * transform.rotation
    if isinstance(coordinates, torch.Tensor):
        matrix, shift = (torch.from_numpy(part).to(coordinates) for part in (linear, transform.translation))
        return coordinates @ matrix + shift
    values = np.asarray(coordinates)
    return values @ linear.astype(values.dtype) + transform.translation.astype(values.dtype)
