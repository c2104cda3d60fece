"""Which rows of stacked patch coordinates are the same node: built once, used by every alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from l2g2g.errors import InputError


@dataclass(frozen=True, eq=False)
class OverlapIndex:
    """Shared nodes of every pair of patches, as rows of the coordinates stacked patch after patch.

    Attributes:
        num_patches: number of patches, also those that share nothing.
        edges: (num_pairs, 2) int64, the patches i < j of each pair.
        pointers: (num_pairs + 1,) int64, pair e owns the entries ``pointers[e]:pointers[e + 1]``.
        first_rows: (num_shared,) int64, the row of a shared node on the side of patch i.
        second_rows: (num_shared,) int64, the row of the same node on the side of patch j.

    Example:
        >>> overlaps = index_overlaps([np.array([0, 1, 2]), np.array([2, 1, 5])])
        >>> overlaps.edges.tolist(), overlaps.first_rows.tolist(), overlaps.second_rows.tolist()
        ([[0, 1]], [1, 2], [4, 3])
    """

    num_patches: int
    edges: Tensor
    pointers: Tensor
    first_rows: Tensor
    second_rows: Tensor

    @classmethod
    def none(cls, num_patches: int) -> OverlapIndex:
        """Of patches that share nothing."""
        nothing = torch.empty(0, dtype=torch.int64)
        return cls(num_patches, nothing.view(0, 2), torch.zeros(1, dtype=torch.int64), nothing, nothing)

    @property
    def num_pairs(self) -> int:
        """Number of pairs of patches that share nodes."""
        return self.edges.shape[0]

    @property
    def sizes(self) -> Tensor:
        """(num_pairs,) int64: how many nodes each pair shares."""
        return self.pointers.diff()

    @cached_property
    def pair_of_entry(self) -> Tensor:
        """(num_shared,) int64: the pair that owns each entry."""
        return torch.repeat_interleave(torch.arange(self.num_pairs, device=self.edges.device), self.sizes)

    @cached_property
    def buckets(self) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """Pairs grouped by size, to be gathered as padded blocks: all pairs are then measured by few large products.

        Each bucket is (pairs (b,), entries (b, length) int64, mask (b, length) or None where nothing is padded);
        lengths at most double within a bucket, so padding never costs more than the data.
        """
        sizes = self.sizes
        buckets = []
        doublings = torch.ceil(torch.log2(sizes.double().clamp(min=1)))
        if self.num_pairs and int(sizes.min()) == int(sizes.max()):
            doublings = torch.zeros_like(doublings)
        for doubling in doublings.unique():
            pairs = (doublings == doubling).nonzero()[:, 0]
            length = int(sizes[pairs].max())
            steps = torch.arange(length, device=sizes.device)
            mask = steps < sizes[pairs, None]
            entries = self.pointers[pairs, None] + torch.where(mask, steps, 0)
            buckets.append((pairs, entries, None if bool(mask.all()) else mask))
        return buckets

    def to(self, device: torch.device | str) -> OverlapIndex:
        """Return the same index on another device."""
        return OverlapIndex(
            self.num_patches,
            self.edges.to(device),
            self.pointers.to(device),
            self.first_rows.to(device),
            self.second_rows.to(device),
        )


def index_overlaps(patch_nodes: Sequence[np.ndarray], pairs: np.ndarray | None = None) -> OverlapIndex:
    """Find the shared nodes of all pairs of patches.

    Args:
        patch_nodes: one (num_local,) integer array of global node numbers per patch; the coordinates are stacked
            patch after patch in this order. A node may stand only once in a patch.
        pairs: (num_pairs, 2) pairs of patches to look at; None for all that share nodes.

    Raises:
        InputError: a node stands twice in one patch, or a pair names a patch that does not exist.
    """
    num_patches = len(patch_nodes)
    wanted = None if pairs is None else _pair_keys(np.asarray(pairs), num_patches)
    lengths = np.array([len(nodes) for nodes in patch_nodes], dtype=np.int64)
    nodes = np.concatenate([np.asarray(nodes) for nodes in patch_nodes]) if num_patches else np.empty(0, np.int64)
    rows = rows_of_shared_nodes(nodes)
    patch = np.repeat(np.arange(num_patches), lengths)[rows]
    order = np.lexsort((patch, nodes[rows]))
    rows, patch = rows[order], patch[order]
    keys, first, second = _pair_up(nodes[rows], patch, rows, num_patches, wanted)
    return _group_by_pair(keys, first, second, num_patches)


def rows_of_shared_nodes(nodes: np.ndarray) -> np.ndarray:
    """Return the positions of all values that stand at least twice in ``nodes`` (num_rows,), ascending."""
    if len(nodes) == 0:
        return np.empty(0, np.int64)
    low, high = int(nodes.min()), int(nodes.max())
    if high - low < 8 * len(nodes) + 1024:
        # Node numbers are dense as a rule: counting is several times faster than sorting a million of them.
        offset_nodes = nodes - low if low else nodes
        return np.flatnonzero(np.bincount(offset_nodes)[offset_nodes] > 1)
    _, inverse, counts = np.unique(nodes, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1)


def _pair_keys(pairs: np.ndarray, num_patches: int) -> np.ndarray:
    """Encode (num_pairs, 2) pairs of patches as sorted keys i * num_patches + j with i < j."""
    pairs = pairs.reshape(-1, 2).astype(np.int64)
    bad = (pairs < 0).any(1) | (pairs >= num_patches).any(1) | (pairs[:, 0] == pairs[:, 1])
    if bad.any():
        worst = pairs[bad][0].tolist()
        raise InputError(f"pair {worst} does not name two different patches out of {num_patches}")
    return np.unique(pairs.min(1) * num_patches + pairs.max(1))


def _pair_up(
    nodes: np.ndarray, patch: np.ndarray, rows: np.ndarray, num_patches: int, wanted: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Match every two rows of the same node; inputs are sorted by node, then patch. Returns keys, first, second."""
    found = []
    reach = num_patches - 1
    if wanted is not None:
        # Patches of a node are sorted, so rows that are `offset` apart are at least `offset` patches apart.
        reach = int((wanted % num_patches - wanted // num_patches).max(initial=0))
    for offset in range(1, reach + 1):
        left = np.flatnonzero(nodes[offset:] == nodes[:-offset])
        if len(left) == 0:
            break
        i, j = patch[left], patch[left + offset]
        if offset == 1 and (i == j).any():
            worst = left[i == j][0]
            raise InputError(f"node {nodes[worst]} stands more than once in patch {patch[worst]}; keep one row of it")
        keys = i * num_patches + j
        if wanted is not None:
            kept = np.isin(keys, wanted)
            keys, left = keys[kept], left[kept]
        found.append((keys, rows[left], rows[left + offset]))
    if not found:
        _refuse_repeats(nodes, patch)
        empty = np.empty(0, np.int64)
        return empty, empty, empty
    keys, first, second = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return keys, first, second


def _refuse_repeats(nodes: np.ndarray, patch: np.ndarray) -> None:
    """With a single patch no pairs are formed, so repeats are looked for here."""
    repeated = np.flatnonzero((nodes[1:] == nodes[:-1]) & (patch[1:] == patch[:-1]))
    if len(repeated):
        worst = repeated[0]
        raise InputError(f"node {nodes[worst]} stands more than once in patch {patch[worst]}; keep one row of it")


def _group_by_pair(keys: np.ndarray, first: np.ndarray, second: np.ndarray, num_patches: int) -> OverlapIndex:
    """Sort the matches by pair."""
    order = np.argsort(keys, kind="stable")
    keys, first, second = keys[order], first[order], second[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(keys))
    pair_keys = keys[starts]
    edges = np.stack([pair_keys // max(num_patches, 1), pair_keys % max(num_patches, 1)], axis=1)
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return OverlapIndex(
        num_patches,
        torch.from_numpy(edges),
        torch.from_numpy(pointers),
        torch.from_numpy(first.astype(np.int64)),
        torch.from_numpy(second.astype(np.int64)),
    )
