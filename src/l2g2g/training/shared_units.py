"""Shared units: how likely nodes are as far ends of negatives, on ranks that each know it of a range of nodes."""

from __future__ import annotations

import numpy as np
import torch

from l2g2g.models.sampling import count_units, target_weights
from l2g2g.parallel.communicator import Communicator
from l2g2g.parallel.questions import ask_by_rank

_KIND = "far ends"


class SharedUnits:
    """What `TargetUnits` is for one process. Every rank must take part in making it, and in each question.

    Args:
        communicator: Of this rank.
        num_nodes: Nodes of all ranks.
        nodes, degrees: (num_owned,) the nodes of this rank, and how many edges each has that are to be predicted.
        sampling: A name in `TARGET_WEIGHTS`.

    Attributes:
        total: Units of all nodes.
    """

    def __init__(
        self, communicator: Communicator, num_nodes: int, nodes: np.ndarray, degrees: np.ndarray, sampling: str
    ) -> None:
        self._communicator = communicator
        self._bounds = num_nodes * np.arange(communicator.size + 1) // communicator.size
        rows = np.stack([nodes.astype(np.int64), degrees.astype(np.int64)], axis=1)
        received = ask_by_rank(communicator, _KIND, rows, self._ranks(nodes))[0].received
        self._low = int(self._bounds[communicator.rank])
        found = np.zeros(int(self._bounds[communicator.rank + 1]) - self._low, np.int64)
        found[received[:, 0] - self._low] = received[:, 1]
        weights = target_weights(sampling, found)
        largest = torch.tensor([float(weights.sum())], dtype=torch.float64, device=communicator.device)
        communicator.all_reduce(_KIND, largest)
        units = count_units(weights, float(largest), num_nodes)
        self._starts = np.concatenate([[0], np.cumsum(units)])
        totals = communicator.tell_all(_KIND, [int(self._starts[-1])])
        self._unit_bounds = np.cumsum([0, *(total for (total,) in totals)])
        self.total = int(self._unit_bounds[-1])

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """(num_asked,) int64 units of some nodes."""
        question, places = ask_by_rank(self._communicator, _KIND, nodes.astype(np.int32), self._ranks(nodes))
        return question.answer(np.diff(self._starts)[question.received - self._low])[places]

    def find(self, units: np.ndarray) -> np.ndarray:
        """(num_asked,) int32 the node to which each of some units belongs."""
        ranks = np.searchsorted(self._unit_bounds[1:], units, side="right")
        local = (units - self._unit_bounds[ranks]).astype(np.int32)  # a unit is below 2^31
        question, places = ask_by_rank(self._communicator, _KIND, local, ranks)
        nodes = self._low + np.searchsorted(self._starts, question.received, side="right") - 1
        return question.answer(nodes.astype(np.int32))[places]

    def _ranks(self, nodes: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._bounds[1:], nodes, side="right")
