"""Overlap exchange: the shared nodes of two patches on different ranks are measured on one of them.

A pair of the patch graph belongs to the rank of its first patch. Where the second patch lies elsewhere its side of the
overlap travels, once at every alignment; what was found about all pairs is then gathered, and every rank solves the
same small problem.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.procrustes import PairMoments, measure_pairs, pack_pairs, packed_width, unpack_pairs
from l2g2g.parallel.communicator import Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import OverlapIndex


class OverlapExchange:
    """What one rank sends, receives and measures at every alignment.

    Args:
        patch_set: All patches of the graph.
        owners: (num_patches,) the rank of every patch.
    """

    def __init__(self, communicator: Communicator, patch_set: PatchSet, owners: np.ndarray) -> None:
        overlaps, me = patch_set.overlaps, communicator.rank
        self.communicator, self.num_pairs = communicator, overlaps.num_pairs
        first_rank, second_rank = owners[overlaps.edges.numpy()].T if overlaps.num_pairs else np.empty((2, 0), np.int64)
        sizes = overlaps.sizes.numpy()
        first, second = np.repeat(first_rank, sizes), np.repeat(second_rank, sizes)  # of every shared node
        places = [
            _find_places(patch_set, owners == me, rows.numpy()) for rows in (overlaps.first_rows, overlaps.second_rows)
        ]
        # By receiver or by sender, and then in the order of the entries: sender and receiver know it.
        self.lengths = [
            int(((first == rank) & (second == me)).sum()) if rank != me else 0 for rank in range(communicator.size)
        ]
        self.expected = [
            int(((first == me) & (second == rank)).sum()) if rank != me else 0 for rank in range(communicator.size)
        ]
        outgoing = [np.flatnonzero((first == rank) & (second == me)) for rank in range(communicator.size) if rank != me]
        self.outgoing = torch.from_numpy(places[1][np.concatenate([np.empty(0, np.int64), *outgoing])])
        num_own = int(patch_set.sizes[owners == me].sum())
        self.own = self._index(patch_set, num_own, first_rank == me, first == me, second, *places)
        self.pair_counts = np.bincount(first_rank, minlength=communicator.size).tolist()
        self.order = torch.from_numpy(np.argsort(np.argsort(first_rank, kind="stable"), kind="stable"))

    def _index(
        self,
        patch_set: PatchSet,
        num_own: int,
        pairs: np.ndarray,
        entries: np.ndarray,
        second: np.ndarray,
        first_places: np.ndarray,
        rows: np.ndarray,
    ) -> OverlapIndex:
        """The pairs of this rank, as rows of its own patches followed by those that come from elsewhere."""
        overlaps = patch_set.overlaps
        position = num_own
        for rank in range(self.communicator.size):
            if rank != self.communicator.rank:
                coming = np.flatnonzero(entries & (second == rank))
                rows[coming] = position + np.arange(len(coming))
                position += len(coming)
        return OverlapIndex(
            patch_set.num_patches,
            overlaps.edges[torch.from_numpy(pairs)],
            torch.from_numpy(np.concatenate([[0], np.cumsum(overlaps.sizes.numpy()[pairs])]).astype(np.int64)),
            torch.from_numpy(first_places[entries]),
            torch.from_numpy(rows[entries]),
        )

    def measure(self, stacked: Tensor, *, rotate: bool, translate: bool, scale: bool) -> PairMoments:
        """What the shared nodes of all pairs say. stacked: (num_own_rows, dim) this rank's patches, in their order."""
        device, dim = stacked.device, stacked.shape[1]
        parts = {"rotate": rotate, "translate": translate, "scale": scale}
        outgoing = stacked.index_select(0, self.outgoing.to(device))
        incoming = self.communicator.all_to_all("overlaps", outgoing, self.lengths, self.expected)
        own = self.own.to(device)
        if own.num_pairs:
            packed = pack_pairs(measure_pairs(torch.cat([stacked, incoming]), own), own.sizes, **parts)
        else:
            packed = torch.zeros(0, packed_width(dim, **parts), device=device)
        gathered = self.communicator.all_gather("alignment", packed, self.pair_counts)
        return unpack_pairs(gathered[self.order.to(device)], dim, **parts)


def _find_places(patch_set: PatchSet, own: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(num_rows,) where some stacked rows stand among those of the own patches; -1 for the rows of others."""
    sizes = np.where(own, patch_set.sizes, 0)
    patches = np.searchsorted(patch_set.offsets, rows, side="right") - 1
    places = (np.cumsum(sizes) - sizes)[patches] + rows - patch_set.offsets[patches]
    return np.where(own[patches], places, -1)
