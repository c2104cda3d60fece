"""Report: what callbacks get after every epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpochReport:
    """One epoch, when it is over.

    Attributes:
        epoch: Counted from 1.
        loss: Of this epoch, before its step.
        seconds: What it took, without the validation.
        validation: The AUC on the validation pairs; None in epochs without a validation.
        refreshed: Whether the alignment was solved anew in it.
    """

    epoch: int
    loss: float
    seconds: float
    validation: float | None = None
    refreshed: bool = False
    measure: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @property
    def residual(self) -> float | None:
        """How far aligned patches disagree about the nodes they share (root mean square); None without a refresh.

        Measured when it is called, by one more encoding of all patches.
        """
        return self.measure() if self.refreshed and self.measure is not None else None

    def curves(self) -> dict[str, float]:
        """What this epoch adds to the curves of a training, by name."""
        found = {"loss": self.loss, "validation AUC": self.validation, "refresh residual": self.residual}
        return {name: value for name, value in found.items() if value is not None}


OnEpoch = Callable[[EpochReport], None]
