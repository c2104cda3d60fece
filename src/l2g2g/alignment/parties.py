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
from l2g2g.errors import InputError, NumericalError
from l2g2g.graphs.archives import check_unpacked_size, load_arrays, reading

_MOST_NODES = 2**53  # what a float still counts


class _Fields:
    """Arrays and numbers that are exchanged as a file."""

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file of all fields, without pickle."""
        with Path(path).open("wb") as file:
            fields: dict[str, Any] = {name: np.asarray(value) for name, value in vars(self).items()}
            np.savez(file, **fields)


@dataclass(frozen=True, eq=False)
class OverlapExport(_Fields):
    """What leaves a party: ids (num_shared,), coordinates (num_shared, dim), and its number of nodes."""

    nodes: np.ndarray
    coordinates: np.ndarray
    num_nodes: int

    @staticmethod
    def load(path: str | Path) -> OverlapExport:
        """Read what `save` wrote."""
        fields = _read_fields(path, {"nodes": 1, "coordinates": 2, "num_nodes": 0})
        nodes, coordinates, num_nodes = fields["nodes"], fields["coordinates"], fields["num_nodes"]
        if nodes.dtype.kind not in "iuUS" or num_nodes.dtype.kind not in "iu":
            raise InputError(f"{path}: nodes are {nodes.dtype} and their number {num_nodes.dtype}; export it again")
        if not len(nodes) == len(coordinates) <= int(num_nodes) < _MOST_NODES:
            raise InputError(
                f"{path}: {len(nodes):,} ids, {len(coordinates):,} vectors and {int(num_nodes):,} nodes in all do not "
                f"fit together; export it again"
            )
        return OverlapExport(nodes, coordinates, int(num_nodes))


@dataclass(frozen=True, eq=False)
class PartyTransform(_Fields):
    """What comes back: rotation (dim, dim), translation (dim,) and scale of one party."""

    rotation: np.ndarray
    translation: np.ndarray
    scale: float

    @staticmethod
    def load(path: str | Path) -> PartyTransform:
        """Read what `save` wrote."""
        fields = _read_fields(path, {"rotation": 2, "translation": 1, "scale": 0})
        dim = len(fields["translation"])
        if fields["rotation"].shape != (dim, dim):
            raise InputError(f"{path}: a rotation of shape {fields['rotation'].shape} for {dim} dimensions")
        return PartyTransform(fields["rotation"], fields["translation"], float(fields["scale"]))


def _read_fields(path: str | Path, dimensions: dict[str, int]) -> dict[str, np.ndarray]:
    """Arrays by name, each with this number of dimensions; numbers are finite."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    check_unpacked_size(path)
    found = load_arrays(path)
    for name, count in dimensions.items():
        if name not in found or found[name].ndim != count:
            raise InputError(f"{path}: is not a file of {', '.join(dimensions)} written by this package")
        if name == "nodes":
            continue
        if found[name].dtype.kind not in "iuf" or not np.isfinite(found[name]).all():
            raise InputError(f"{path}: {name} must be finite numbers; write it again")
    return found


def read_ids(path: Path) -> np.ndarray:
    """(num_ids,) ids as text from a file with one a line."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the shared ids, one a line")
    with reading(path):
        return np.array([line for line in path.read_text("utf-8").splitlines() if line], dtype=str)


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
    values: Any = coordinates if isinstance(coordinates, torch.Tensor) else np.asarray(coordinates)
    if values.ndim != 2 or values.shape[1] != len(linear):
        raise InputError(f"the transform is for {len(linear)} dimensions, the coordinates are {tuple(values.shape)}")
    if isinstance(values, torch.Tensor):
        matrix, move = (torch.from_numpy(part).to(values) for part in (linear, transform.translation))
        moved = values @ matrix + move
        is_finite = bool(torch.isfinite(moved).all())
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            moved = values @ linear.astype(values.dtype) + transform.translation.astype(values.dtype)
        is_finite = bool(np.isfinite(moved).all())
    if not is_finite:
        raise NumericalError(f"the transform takes coordinates beyond what {values.dtype} holds; solve it again")
    return moved
