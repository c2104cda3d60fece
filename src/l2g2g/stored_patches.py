"""Stored patches: a graph on disk is cut with METIS where memory allows, and with FENNEL in passes otherwise."""

from __future__ import annotations

import warnings

from l2g2g.config import Config
from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.partition import partition
from l2g2g.patches.store import PatchStore, write_patches
from l2g2g.patches.stored_overlap import make_stored_patches
from l2g2g.patches.streaming import stream_partition
from l2g2g.training.heap import return_freed_memory

_METIS_BYTES_PER_ARC = 110  # METIS itself, and the graph


def cut_stored(graph: StoredGraph, num_patches: int, config: Config, room: int | None) -> PatchStore:
    """Cut a graph into this many patches and keep them in its store. room: bytes that this may take; None: any."""
    num_arcs = 2 * graph.num_edges
    in_memory = room is None or _METIS_BYTES_PER_ARC * num_arcs <= room
    if in_memory:
        labels = partition(
            graph.read_rows(0, graph.num_nodes),
            num_patches,
            method=config.partition,
            seed=config.seed,
            fennel_passes=config.fennel_passes,
        )
    else:
        if config.partition == "metis":
            warnings.warn(f"{graph.name}: METIS needs more than --memory allows; FENNEL cuts it", stacklevel=2)
        labels = stream_partition(graph, num_patches)
        return_freed_memory()
    least, wanted = config.overlap_range
    patch_set = make_stored_patches(
        graph,
        labels,
        min_overlap=least,
        target_overlap=wanted,
        mean_degree=config.patch_degree,
    )
    how: dict[str, object] = {"partition": config.partition if in_memory else "fennel", "seed": config.seed}
    return write_patches(graph, patch_set, settings=how)
