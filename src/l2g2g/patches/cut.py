"""Cut: a graph in memory or on disk is partitioned, and its clusters overlap; on disk the patches are written too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.held_out import HeldOutRule
from l2g2g.patches.overlap import PatchSet, make_patches
from l2g2g.patches.partition import partition_graph
from l2g2g.patches.store import PatchStore, write_patches

_REFUSED_BYTES = "refused_bytes"  # a setting of stored patches, see `cut_stored_graph`


@dataclass(frozen=True)
class Cut:
    """What decides which patches are cut: the same patches where it is the same.

    Attributes:
        partition: A method of `partition_graph`.
        num_patches: Number of patches.
        min_overlap, target_overlap, mean_degree: As for `make_patches`.
        fennel_passes: Of fennel; None for other methods.
        seed: Of metis and random; None for the others, which draw nothing.
        most_share: Share of the nodes up to which patches are widened where many edges are cut; 0 for never.
        held_out: Which edges were not seen, as a dictionary; None where all were.
    """

    partition: str
    num_patches: int
    min_overlap: int
    target_overlap: int
    mean_degree: float
    fennel_passes: int | None
    seed: int | None
    most_share: float = 0.0
    held_out: dict[str, Any] | None = None

    @classmethod
    def of(cls, partition: str, *, seed: int, fennel_passes: int, rule: HeldOutRule | None = None, **rest: Any) -> Cut:
        """Only what counts for this partition."""
        return cls(
            partition,
            held_out=None if rule is None else asdict(rule),
            fennel_passes=fennel_passes if partition == "fennel" else None,
            seed=seed if partition in ("metis", "random") else None,
            **rest,
        )

    def made(self, patches: PatchStore, memory: int | None = None) -> bool:
        """Whether these patches were cut in this way. memory: a limit for training on them; None for none.

        What was not widened because it would have taken too much counts only where it still would.
        """
        refused = find_refused(patches)
        if refused is not None and (memory is None or memory >= refused):
            return False
        return all(patches.settings.get(name) == value for name, value in asdict(self).items())

    def accepts(self, patches: PatchStore, left_open: Collection[str]) -> bool:
        """Whether patches that `l2g2g prepare` cut will do: what is left open, it has decided; overlaps may be larger.

        left_open: names of the attributes that were not asked for.
        """
        found = patches.settings
        if not found.get("prepared"):
            return False
        free = (*left_open, "held_out", "most_share")
        asked = {name: value for name, value in asdict(self).items() if name not in free}
        least = [asked.pop(name) for name in ("min_overlap", "target_overlap")]
        has = [found.get(name) for name in ("min_overlap", "target_overlap")]
        if "partition" in left_open and found.get("seed") is None:  # it drew nothing
            asked.pop("seed", None)
        fits = all(isinstance(size, int) and size >= wanted for size, wanted in zip(has, least, strict=True))
        return fits and all(found.get(name) == value for name, value in asked.items())


def cut_graph(
    graph: GraphStore,
    cut: Cut,
    *,
    memory_bytes: int | None = None,
    measure: Callable[[str], AbstractContextManager[Any]] = nullcontext,
) -> tuple[PatchSet, float]:
    """The patches of a graph, and its largest cluster as a multiple of an even share.

    memory_bytes: what METIS may take; None for no limit.
    measure: called with the name of each stage ("partition", "overlap"), gives a context that lasts as long.
    """
    with measure("partition"):
        labels = partition_graph(
            graph,
            cut.num_patches,
            method=cut.partition,
            seed=cut.seed or 0,
            fennel_passes=cut.fennel_passes or 1,
            memory_bytes=memory_bytes,
        )
        sizes = np.bincount(labels)
    with measure("overlap"):
        patch_set = make_patches(
            graph,
            labels,
            min_overlap=cut.min_overlap,
            target_overlap=cut.target_overlap,
            mean_degree=cut.mean_degree,
            most_share=cut.most_share,
        )
    return patch_set, float(sizes.max() * len(sizes) / len(labels))


def cut_stored_graph(
    graph: GraphStore,
    cut: Cut,
    directory: Path | None = None,
    *,
    memory_bytes: int | None = None,
    prepared: bool = False,
    refused_bytes: int | None = None,
    measure: Callable[[str], AbstractContextManager[Any]] = nullcontext,
) -> PatchStore:
    """Cut a graph and keep the patches in its store, with what they were cut by and how equal the clusters are.

    graph: what is cut; the patches are written with all edges of its store. directory: another place for them.
    prepared: whether they are cut for their own sake, and not for a run that wants them like this.
    refused_bytes: what a training on patches that are widened as asked would take, where that is too much: these are
    not widened, but keep what was asked for. memory_bytes, measure: as in `cut_graph`; a third stage is called
    "patches".
    """
    done = cut if refused_bytes is None else replace(cut, most_share=0.0)
    patch_set, balance = cut_graph(graph, done, memory_bytes=memory_bytes, measure=measure)
    with measure("patches"):
        settings = {**asdict(cut), "balance": balance, "prepared": prepared, _REFUSED_BYTES: refused_bytes}
        return write_patches(graph, patch_set, directory, settings=settings)


def find_refused(patches: PatchStore) -> int | None:
    """What a training on widened patches would have taken, where these were not widened for that reason."""
    found = patches.settings.get(_REFUSED_BYTES)
    return found if isinstance(found, int) else None
