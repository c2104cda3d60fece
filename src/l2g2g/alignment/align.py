"""The public `align` and `align_sequence`: embeddings trained apart, by any method, brought into one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from l2g2g.alignment.frame import Frame
from l2g2g.alignment.patch_input import read_patches
from l2g2g.alignment.polar import Route
from l2g2g.alignment.solve import Weights
from l2g2g.alignment.streaming import Residuals, SharedNodes, measure_residuals, stream_embedding
from l2g2g.alignment.synchronise import synchronise
from l2g2g.errors import InputError, NumericalError
from l2g2g.patches.overlap_index import OverlapIndex

Anchor = int | tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class AlignedEmbedding:
    """One embedding of all nodes, and the transforms that made it.

    Attributes:
        embedding: (num_nodes, dim), of the kind and precision of the input; a memory map where ``out`` was given.
        nodes: (num_nodes,) ids in ascending order, one for each row.
        rotations: (num_patches, dim, dim); aligned = scale (coordinates @ rotation) + translation.
        translations: (num_patches, dim).
        scales: (num_patches,).
        residuals: how well the patches agree.
        overlap_sizes: (num_pairs,) number of shared nodes of each of ``residuals.pairs``.
        components: (num_patches,) connected part of each patch; patches of different parts share no frame.
        isolated: patches that share no nodes with any other and stay as they came.
        dropped_pairs: (num_dropped, 2) pairs left out for sharing fewer than ``min_overlap`` nodes.
    """

    embedding: Any
    nodes: np.ndarray
    rotations: Any
    translations: Any
    scales: Any
    residuals: Residuals
    overlap_sizes: np.ndarray
    components: np.ndarray
    isolated: list[int]
    dropped_pairs: np.ndarray

    def summary(self, worst: int = 5) -> str:
        """Return a readable account: overlaps, residuals, the worst pairs, what was joined or left apart."""
        return _describe(self, worst)


def align(
    patches: Sequence[tuple[Any, Any]],
    *,
    anchor: Anchor | None = None,
    rotate: bool = True,
    translate: bool = True,
    scale: bool = False,
    weights: Weights = "overlap",
    assembly: Literal["mean", "median"] = "mean",
    robust: bool = False,
    pairs: Any | None = None,
    min_overlap: int = 1,
    route: Route = "svd",
    disconnected: Literal["separate", "raise"] = "separate",
    out: str | Path | None = None,
) -> AlignedEmbedding:
    """Bring patch embeddings into one space by their shared nodes.

    Args:
        patches: (nodes, coordinates) pairs: (num_local,) integer or string ids and (num_local, dim) numbers, as
            NumPy arrays (also memory maps) or torch tensors.
        anchor: a patch number that keeps its coordinates, or a finished (nodes, coordinates) embedding that stays
            as it is, to the bit, and to which the patches are brought. None: the largest patch keeps its axes and
            the translations have mean zero, weighted by patch size.
        rotate, translate, scale: which transforms are allowed; rotations include reflections.
        weights: pairs count by shared nodes ("overlap") or all the same ("uniform").
        assembly: how the copies of a shared node are merged.
        robust: distrust nodes and pairs that fit badly; costs several solves.
        pairs: (num_pairs, 2) pairs of patches to use; None for all that share nodes.
        min_overlap: leave out pairs that share fewer nodes.
        route: "svd" or "newton-schulz".
        disconnected: keep unconnected parts apart, each in its own frame, or raise NumericalError.
        out: file (``.npy``) to write the embedding to, patch by patch, without holding it in memory.

    Example:
        >>> first = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
        >>> second = np.array([[5.0, 1.0], [3.0, 0.0], [5.0, 0.0]])  # turned, shifted; nodes b, c, a
        >>> aligned = align([(["a", "b", "c"], first), (["b", "c", "a"], second)], anchor=0)
        >>> np.abs(aligned.embedding - first).max() < 1e-12, aligned.nodes.tolist()
        (np.True_, ['a', 'b', 'c'])
    """
    fixed, all_patches = _place_anchor(patches, anchor)
    source = read_patches(all_patches)
    shared = SharedNodes.gather(source, None if pairs is None else np.asarray(pairs))
    overlaps, dropped = _drop_small(shared.overlaps, min_overlap)
    shared = shared.with_overlaps(overlaps)
    components = patch_components(overlaps)
    if disconnected == "raise" and components.max() > 0:
        raise NumericalError(_say_disconnected(components))
    frame = synchronise(
        shared.coordinates.double(),
        shared.offsets,
        overlaps,
        rotate=rotate,
        translate=translate,
        scale=scale,
        weights=weights,
        robust=robust,
        route=route,
        patch_sizes=torch.from_numpy(np.diff(source.offsets)),
    )
    if fixed is not None:
        frame = hold_patch(frame, fixed, components)
    residuals = measure_residuals(source, shared, frame)
    embedding = stream_embedding(source, shared, frame, assembly, fixed, out)
    last = len(patches)  # a finished embedding that served as anchor has no transform to report
    rotations, translations, scales = (
        source.export(part[:last].to(source.dtype)) for part in (frame.rotations, frame.translations, frame.scales)
    )
    degree = np.bincount(overlaps.edges.cpu().numpy().reshape(-1), minlength=source.num_patches)
    return AlignedEmbedding(
        embedding=embedding,
        nodes=source.names,
        rotations=rotations,
        translations=translations,
        scales=scales,
        residuals=residuals,
        overlap_sizes=overlaps.sizes.cpu().numpy(),
        components=components,
        isolated=np.flatnonzero(degree == 0).tolist() if source.num_patches > 1 else [],
        dropped_pairs=dropped,
    )


def _place_anchor(patches: Sequence[Any], anchor: Anchor | None) -> tuple[int | None, list[Any]]:
    """Return the number of the patch that stays fixed, and all patches; a finished embedding becomes the last."""
    everything = list(patches)
    if anchor is None:
        return None, everything
    if isinstance(anchor, (int, np.integer)):
        if not 0 <= anchor < len(everything):
            raise InputError(f"anchor {anchor} is not one of the {len(everything)} patches")
        return int(anchor), everything
    return len(everything), [*everything, anchor]


def hold_patch(frame: Frame, fixed: int, components: np.ndarray) -> Frame:
    """Move the whole component of one patch so that this patch keeps its coordinates."""
    back = frame.rotations[fixed].T
    rotations = frame.rotations @ back
    translations = (frame.translations - frame.translations[fixed]) @ back / frame.scales[fixed]
    scales = frame.scales / frame.scales[fixed]
    identity = Frame.identity(1, back.shape[0], dtype=back.dtype, device=back.device)
    rotations[fixed], translations[fixed], scales[fixed] = (
        identity.rotations[0],
        identity.translations[0],
        identity.scales[0],
    )
    same = torch.from_numpy(components == components[fixed]).to(back.device)
    return Frame(
        torch.where(same[:, None, None], rotations, frame.rotations),
        torch.where(same[:, None], translations, frame.translations),
        torch.where(same, scales, frame.scales),
    )


def _drop_small(overlaps: OverlapIndex, min_overlap: int) -> tuple[OverlapIndex, np.ndarray]:
    """Leave out pairs that share too few nodes; return the rest, and the (num_dropped, 2) pairs left out."""
    sizes = overlaps.sizes
    small = sizes < min_overlap
    if not bool(small.any()):
        return overlaps, np.empty((0, 2), np.int64)
    kept = ~small[overlaps.pair_of_entry]
    pointers = torch.cat([sizes.new_zeros(1), sizes[~small].cumsum(0)])
    rest = OverlapIndex(
        overlaps.num_patches,
        overlaps.edges[~small],
        pointers,
        overlaps.first_rows[kept],
        overlaps.second_rows[kept],
    )
    return rest, overlaps.edges[small].cpu().numpy()


def patch_components(overlaps: OverlapIndex) -> np.ndarray:
    """Component (num_patches,) of each patch."""
    edges, size = overlaps.edges.cpu().numpy(), overlaps.num_patches
    graph = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(size, size))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _say_disconnected(components: np.ndarray) -> str:
    sizes = np.bincount(components)
    alone = int(np.flatnonzero(components == int(sizes.argmin()))[0])
    return (
        f"the patches fall into {len(sizes)} parts that share no nodes (patch {alone} is in a part of {sizes.min()}); "
        "give them shared nodes, lower min_overlap, or allow disconnected='separate'"
    )


def _describe(aligned: AlignedEmbedding, worst: int) -> str:
    """Return several lines: sizes, overlaps, residuals, the worst pairs, what was joined, dropped or left apart."""
    residuals = aligned.residuals
    num_nodes, dim = aligned.embedding.shape
    pairs, distances = np.asarray(residuals.pairs), np.asarray(residuals.per_pair)
    sizes = aligned.overlap_sizes
    lines = [f"{num_nodes:,} nodes in {dim} dimensions from {len(aligned.components):,} patches"]
    if len(sizes):
        spread = f"{sizes.min():,} to {sizes.max():,} (median {np.median(sizes):,.0f})"
        lines.append(f"{len(sizes):,} pairs of patches share {spread} nodes each")
        change = f"{residuals.before:.4g} before, {residuals.after:.4g} after"
        lines.append(f"root mean square distance of shared nodes: {change}")
        order = np.argsort(-distances, kind="stable")[:worst]
        lines.append("worst pairs:")
        for pair in order:
            i, j = pairs[pair]
            lines.append(f"  patches {i} and {j}: {distances[pair]:.4g} over {sizes[pair]:,} shared nodes")
    else:
        lines.append("no two patches share a node; every patch is as it came")
    if len(aligned.dropped_pairs):
        shown = ", ".join(f"{i}-{j}" for i, j in aligned.dropped_pairs[:worst].tolist())
        lines.append(f"{len(aligned.dropped_pairs):,} pairs dropped for sharing too few nodes: {shown}")
    parts = int(aligned.components.max()) + 1
    if parts > 1:
        lines.append(f"the patches fall into {parts:,} parts without shared nodes, each in a frame of its own")
    if aligned.isolated:
        shown = ", ".join(map(str, aligned.isolated[:worst]))
        lines.append(f"{len(aligned.isolated):,} isolated patches: {shown}")
    return "\n".join(lines)


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
