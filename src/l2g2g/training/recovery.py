"""Recovery: a training that collapses or explodes goes back to its last good state with smaller steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from l2g2g.alignment.synchronise import Frame
from l2g2g.errors import NumericalError
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.training.adam import Adam

_MOST_RECOVERIES, _SMALLER = 3, 0.3
_ROWS_AT_ONCE = 1 << 16
# Vectors that differ by less than this part of their length are the same to an inner product in float32.
_SPREAD = 1e-5
_EXPLODED = 100.0
NOT_FINITE = "some vectors are not finite numbers"


def loss_trouble(loss: float, first_loss: float) -> str | None:
    """What is wrong with a loss, if anything."""
    if not math.isfinite(loss):
        return f"the loss became {loss}"
    if loss > _EXPLODED * (1 + abs(first_loss)):
        return f"the loss grew from {first_loss:.3g} to {loss:.3g}"
    return None


def embedding_trouble(embedding: Tensor, communicator: Communicator = LOCAL) -> str | None:
    """What is wrong with vectors (num_nodes, dim), if anything: not finite, or all of them the same.

    communicator: of ranks that have some of the vectors each; all get the same answer.
    """
    shared = SharedRows(communicator, "check")
    parts = embedding.split(_ROWS_AT_ONCE)  # copies in float64 of all vectors would be the largest tables of a run
    num_bad = sum(float((~torch.isfinite(part)).sum()) for part in parts)
    num_bad, num_nodes = shared.sums(num_bad, float(len(embedding)))
    if num_bad:
        return NOT_FINITE
    total = torch.stack([part.double().sum(0) for part in parts]).sum(0)
    mean = shared.total(total).div_(max(1.0, num_nodes)).to(embedding.dtype)
    squares = (sum(float((part - origin).double().square().sum()) for part in parts) for origin in (0.0, mean))
    length, spread = (each / (num_nodes * embedding.shape[1]) for each in shared.sums(*squares))
    if num_nodes > 1 and spread <= _SPREAD**2 * length + 1e-30:
        return "all vectors became the same"
    return None


class Recovery:
    """The last good state of a training, and how often it was needed."""

    def __init__(self, model: Autoencoder, frame: Frame) -> None:
        self.model = model
        self.count = 0
        self.rate_factor = 1.0
        self.keep(frame)

    def keep(self, frame: Frame) -> dict[str, Tensor]:
        """Remember this state as a good one, and return it."""
        self.trouble: str | None = None
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.frame = frame
        return self.state

    def go_back(self, trouble: str, epoch: int, optimiser: Adam) -> Frame:
        """Restore the last good state, forget the optimiser's momentum, take smaller steps from now on."""
        if self.count == _MOST_RECOVERIES:
            raise NumericalError(
                f"{trouble} in epoch {epoch + 1}, for the {self.count + 1}th time; lower the learning rate (--lr)"
            )
        self.count, self.trouble = self.count + 1, f"{trouble} in epoch {epoch + 1}"
        self.rate_factor *= _SMALLER
        self.model.load_state_dict(self.state)
        optimiser.forget()
        return self.frame

    def check_end(self) -> None:
        """Refuse to end with a state that training went back to and never left."""
        if self.trouble is not None:
            raise NumericalError(
                f"{self.trouble}, and training ended before it recovered; lower the learning rate (--lr)"
            )
