"""Pair share: held-out pairs of which every rank has some; the first one puts what is found about them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2g2g.parallel.communicator import Communicator


@dataclass(frozen=True, eq=False)
class PairShare:
    """Which of the pairs of all ranks are here.

    Attributes:
        communicator: Of the ranks.
        num_edges: Positives of all ranks.
        order: (num_pairs of all,) on the first rank: the place of each pair among all, as they are gathered: those of
            rank 0 first, and of each rank the positives first. None on the others.
    """

    communicator: Communicator
    num_edges: int
    order: np.ndarray | None

    def gather(self, values: np.ndarray) -> np.ndarray:
        """See `Pairs.gather`."""
        import torch

        communicator = self.communicator
        counts = [count for (count,) in communicator.tell_all("count", [len(values)])]
        sent = torch.from_numpy(np.ascontiguousarray(values)).to(communicator.device)
        heard = communicator.gather("pair scores", sent, counts).cpu().numpy()
        if self.order is None:
            return heard
        found = np.empty_like(heard)
        found[self.order] = heard
        return found
