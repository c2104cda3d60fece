"""State: all that changes from epoch to epoch, as tensors and plain values, and back without the loss of a bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.training.adam import Adam
from l2g2g.training.recovery import Recovery

Tensors = dict[str, Tensor]
_FRAME = ("rotations", "translations", "scales")
_SERIES = ("losses", "epoch_seconds", "refresh_seconds")


@dataclass
class History:
    """What happened in training: a loss and a time for every epoch, a score for every validation.

    recoveries: how often training went back to its last good state with smaller steps.
    resumed_from_epoch: epochs that were read from a checkpoint instead of being run; 0 for a training in one go.
    """

    losses: list[float] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)
    validations: list[tuple[int, float]] = field(default_factory=list)
    refresh_seconds: list[float] = field(default_factory=list)
    best_epoch: int = 0
    recoveries: int = 0
    resumed_from_epoch: int = 0

    @property
    def num_epochs(self) -> int:
        """Epochs that were run."""
        return len(self.losses)

    def __repr__(self) -> str:
        """One line; the series are in the attributes."""
        if not self.losses:
            return "History(no epochs)"
        scores = [score for _, score in self.validations]
        best = f", best validation AUC {100 * max(scores):.1f} % at epoch {self.best_epoch}" if scores else ""
        return f"History({self.num_epochs} epochs, loss {self.losses[0]:.4f} to {self.losses[-1]:.4f}{best})"


def read_history(values: dict[str, Any]) -> History:
    """A history from the plain values that `asdict` made of it; anything else raises TypeError or ValueError."""
    history = History(**values)
    for name in _SERIES:
        setattr(history, name, [float(value) for value in getattr(history, name)])
    history.validations = [(int(epoch), float(score)) for epoch, score in history.validations]
    for name in ("best_epoch", "recoveries", "resumed_from_epoch"):
        setattr(history, name, int(getattr(history, name)))
    return history


@dataclass
class LoopState:
    """Where a training stands between two epochs.

    There is no generator among it: every draw is a function of (seed, epoch), see `core.randomness`.

    Attributes:
        frame: The alignment that holds until the next refresh.
        recovery: The last good state, and how often it was needed.
        best_score, best_model, best_frame: The best validation so far, if there was one.
        waited: Validations since then.
    """

    model: Autoencoder
    optimiser: Adam
    frame: Frame
    recovery: Recovery
    history: History = field(default_factory=History)
    best_score: float = -math.inf
    best_model: dict[str, Any] | None = None
    best_frame: Frame | None = None
    waited: int = 0

    @property
    def epoch(self) -> int:
        """Epochs that are done, and so the number of the next one."""
        return self.history.num_epochs

    def capture(self) -> tuple[Tensors, dict[str, Any]]:
        """(tensors, plain values) that `restore` needs. What training goes on to change is copied."""
        tensors = {f"model.{name}": _copy(value) for name, value in self.model.state_dict().items()}
        for name, parts in self._optimiser_parts().items():
            tensors |= {f"{name}.{place}": _copy(part) for place, part in enumerate(parts)}
        tensors |= _frame_tensors("frame", self.frame)
        # The last good state is never changed, only replaced: no copy. Often it is the best one too.
        best_is_good = self.best_model is self.recovery.state
        tensors |= {f"good.{name}": value.cpu() for name, value in self.recovery.state.items()}
        tensors |= _frame_tensors("good_frame", self.recovery.frame)
        if self.best_model is not None and not best_is_good:
            tensors |= {f"best.{name}": value.cpu() for name, value in self.best_model.items()}
        if self.best_frame is not None:
            tensors |= _frame_tensors("best_frame", self.best_frame)
        for name in _SERIES:
            tensors[f"history.{name}"] = torch.tensor(getattr(self.history, name), dtype=torch.float64)
        validations = torch.tensor(self.history.validations, dtype=torch.float64).reshape(-1, 2)
        values = {
            "epoch": self.epoch,
            "best_epoch": self.history.best_epoch,
            "best_score": self.best_score if self.best_model is not None else None,
            "best_is_good": best_is_good,
            "waited": self.waited,
            "recoveries": self.recovery.count,
            "rate_factor": self.recovery.rate_factor,
            "trouble": self.recovery.trouble,
        }
        return _apart(tensors | {"history.validations": validations}), values

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Stand where the captured state stood. The model and the settings must be those of the capture.

        Where something is missing or does not fit: KeyError, TypeError, ValueError, OverflowError or RuntimeError.
        """
        self.model.load_state_dict(_part(tensors, "model"))
        model, frame = self.model.state_dict(), self.frame
        with torch.no_grad():
            for name, parts in self._optimiser_parts().items():
                for place, part in enumerate(parts):
                    part.copy_(tensors[f"{name}.{place}"])
        device = self.frame.rotations.device
        self.frame = _read_frame(tensors, "frame", frame).to(device)
        recovery = self.recovery
        recovery.state = _fitting(_part(tensors, "good"), model)
        recovery.frame = _read_frame(tensors, "good_frame", frame).to(device)
        recovery.count, recovery.rate_factor = int(values["recoveries"]), float(values["rate_factor"])
        recovery.trouble = values["trouble"]
        if values["best_score"] is not None:
            self.best_score = float(values["best_score"])
            self.best_model = recovery.state if values["best_is_good"] else _fitting(_part(tensors, "best"), model)
            self.best_frame = _read_frame(tensors, "best_frame", frame).to(device)
        self.waited = int(values["waited"])
        series = {name: tensors[f"history.{name}"].tolist() for name in (*_SERIES, "validations")}
        self.history = read_history({**series, "best_epoch": values["best_epoch"]})
        if not self.epoch == len(self.history.epoch_seconds) == int(values["epoch"]):
            raise ValueError(f"epoch {values['epoch']} with {self.epoch} losses")
        self.history.resumed_from_epoch = self.epoch

    def _optimiser_parts(self) -> dict[str, list[Tensor]]:
        adam = self.optimiser
        return {"adam.means": adam.means, "adam.squares": adam.squares, "adam.steps": adam.steps}


def _copy(value: Tensor) -> Tensor:
    return value.detach().cpu() if value.device.type != "cpu" else value.detach().clone()


def _apart(tensors: Tensors) -> Tensors:
    """The same tensors, each in memory of its own and in order, as the file format wants them."""
    seen: set[int] = set()
    for name, value in tensors.items():
        if value.untyped_storage().data_ptr() in seen or not value.is_contiguous():
            tensors[name] = value.contiguous().clone()
        seen.add(value.untyped_storage().data_ptr())
    return tensors


def _part(tensors: Mapping[str, Tensor], name: str) -> Tensors:
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def _frame_tensors(name: str, frame: Frame) -> Tensors:
    return {f"{name}.{part}": getattr(frame, part).detach().cpu() for part in _FRAME}


def _read_frame(tensors: Mapping[str, Tensor], name: str, like: Frame) -> Frame:
    parts = _fitting(
        {part: tensors[f"{name}.{part}"] for part in _FRAME}, {part: getattr(like, part) for part in _FRAME}
    )
    return Frame(*parts.values())


def _fitting(tensors: Tensors, like: Mapping[str, Tensor]) -> Tensors:
    """The tensors, if they are those that are meant."""
    for name in tensors.keys() | like.keys():
        found, wanted = (part[name].shape if name in part else None for part in (tensors, like))
        if found != wanted:
            raise ValueError(f"{name} has shape {found}, not {wanted}")
    return tensors
