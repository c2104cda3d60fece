"""Questions: a rank asks others about numbers of which they know something, and answers what it is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from l2g2g.parallel.communicator import Communicator


@dataclass(frozen=True, eq=False)
class Question:
    """What every rank wants to know of every other.

    Attributes:
        communicator, kind: Of the ranks, and of what they ask; their answers are "told".
        received: What this rank is asked, by rank 0 first.
        lengths, expected: (num_ranks,) how many numbers this rank asks each other one about, and is asked by it.
    """

    communicator: Communicator
    kind: str
    received: np.ndarray
    lengths: list[int]
    expected: list[int]

    def answer(self, rows: np.ndarray) -> np.ndarray:
        """The answers to what this rank asked, in its order. rows: those to `received`, one for each number."""
        sent = torch.from_numpy(np.ascontiguousarray(rows)).to(self.communicator.device)
        return self.communicator.all_to_all(f"{self.kind} told", sent, self.expected, self.lengths).cpu().numpy()


def ask(communicator: Communicator, kind: str, numbers: np.ndarray, lengths: list[int]) -> Question:
    """Ask ranks about numbers, the first so many of which go to rank 0. A collective call."""
    device = communicator.device
    ones = [1] * communicator.size
    counts = torch.tensor(lengths, device=device)
    expected: list[int] = communicator.all_to_all("counts", counts, ones, ones).tolist()
    sent: Tensor = torch.from_numpy(np.ascontiguousarray(numbers)).to(device)
    received = communicator.all_to_all(kind, sent, lengths, expected).cpu().numpy()
    return Question(communicator, kind, received, lengths, expected)


def ask_by_rank(
    communicator: Communicator, kind: str, numbers: np.ndarray, ranks: np.ndarray
) -> tuple[Question, np.ndarray]:
    """The same for numbers in any order. ranks: (num_numbers,) whom to ask about each.

    Returns also the place in the question of every number: answers at these places are in the order of the numbers.
    """
    order = np.argsort(ranks, kind="stable")
    lengths: list[int] = np.bincount(ranks, minlength=communicator.size).tolist()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return ask(communicator, kind, numbers[order], lengths), places
