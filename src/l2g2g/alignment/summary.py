"""A readable account of an alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from l2g2g.alignment.align import AlignedEmbedding


def describe(aligned: AlignedEmbedding, worst: int = 5) -> str:
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
