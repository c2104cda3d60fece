"""State: what changes from epoch to epoch, captured and restored bit by bit, and the return to the last good state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.errors import NumericalError
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.training.adam import Adam

Tensors = dict[str, Tensor]
NOT_FINITE = "some vectors are not finite numbers"
_FRAME = ("rotations", "translations", "scales")
_SERIES = ("losses", "epoch_seconds", "refresh_seconds")
_MOST_RECOVERIES, _RATE_FACTOR = 3, 0.3
_ROWS_AT_ONCE = 1 << 16
_SPREAD = 1e-5  # relative differences below this do not change an inner product in float32
_EXPLODED = 100.0


@dataclass
class History:
    """Losses, times and validations of a training.

    Attributes:
        losses, epoch_seconds: Of every epoch.
        validations: (epoch, score) of every validation.
        refresh_seconds: Of every alignment.
        best_epoch: The epoch whose model is kept.
        recoveries: Returns to the last good state.
        resumed_from_epoch: Epochs read from a checkpoint instead of being run; 0 without one.
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
        """Epochs done."""
        return len(self.losses)

    def __repr__(self) -> str:
        """Summarise in one line; the series are in the attributes."""
        if not self.losses:
            return "History(no epochs)"
        scores = [score for _, score in self.validations]
        best = f", best validation AUC {100 * max(scores):.1f} % at epoch {self.best_epoch}" if scores else ""
        return f"History({self.num_epochs} epochs, loss {self.losses[0]:.4f} to {self.losses[-1]:.4f}{best})"


def read_history(values: dict[str, Any]) -> History:
    """Make a history from its `asdict`. Raises TypeError or ValueError for other values."""
    history = History(**values)
    for name in _SERIES:
        setattr(history, name, [float(value) for value in getattr(history, name)])
    history.validations = [(int(epoch), float(score)) for epoch, score in history.validations]
    for name in ("best_epoch", "recoveries", "resumed_from_epoch"):
        setattr(history, name, int(getattr(history, name)))
    return history


def loss_trouble(loss: float, first_loss: float) -> str | None:
    """Describe what is wrong with a loss; None if nothing is."""
    if not math.isfinite(loss):
        return f"the loss became {loss}"
    if loss > _EXPLODED * (1 + abs(first_loss)):
        return f"the loss grew from {first_loss:.3g} to {loss:.3g}"
    return None


def embedding_trouble(embedding: Tensor, communicator: Communicator = LOCAL) -> str | None:
    """Describe what is wrong with vectors: not finite, or all of them equal; None if nothing is. A collective call.

    embedding: (num_nodes, dim), or the vectors of this rank.
    """
    shared = SharedRows(communicator, "check")
    parts = embedding.split(_ROWS_AT_ONCE)  # a float64 copy of all vectors would be the largest table of a run
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
    """The last good state of a training, to which it returns with smaller steps if it collapses or explodes.

    Attributes:
        state, frame: Parameters and alignment of the last good state.
        count: Returns so far.
        rate_factor: Factor on the learning rate.
        trouble: Reason for a return after which no good state was reached; None otherwise.
    """

    def __init__(self, model: Autoencoder, frame: Frame) -> None:
        self.model = model
        self.count, self.rate_factor = 0, 1.0
        self.keep(frame)

    def keep(self, frame: Frame) -> Tensors:
        """Keep the current parameters as the last good state, and return them."""
        self.trouble: str | None = None
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.frame = frame
        return self.state

    def go_back(self, trouble: str, epoch: int, optimiser: Adam) -> Frame:
        """Restore the last good parameters, clear the optimiser's moments, reduce the learning rate."""
        if self.count == _MOST_RECOVERIES:
            raise NumericalError(
                f"{trouble} in epoch {epoch + 1}, for the {self.count + 1}th time; lower the learning rate (--lr)"
            )
        self.count, self.trouble = self.count + 1, f"{trouble} in epoch {epoch + 1}"
        self.rate_factor *= _RATE_FACTOR
        self.model.load_state_dict(self.state)
        optimiser.forget()
        return self.frame

    def check_end(self) -> None:
        """Refuse to end training after a return without a good state since."""
        if self.trouble is not None:
            raise NumericalError(
                f"{self.trouble}, and training ended before it recovered; lower the learning rate (--lr)"
            )


@dataclass
class LoopState:
    """State of a training between two epochs. Random draws need none: they are functions of (seed, epoch).

    Attributes:
        frame: Alignment that holds until the next refresh.
        recovery: The last good state.
        best_score, best_model, best_frame: The best validation so far, if there was one.
        waited: Validations since then.
    """

    model: Autoencoder
    optimiser: Adam
    frame: Frame
    recovery: Recovery
    history: History = field(default_factory=History)
    best_score: float = -math.inf
    best_model: Tensors | None = None
    best_frame: Frame | None = None
    waited: int = 0

    @property
    def epoch(self) -> int:
        """Number of epochs done, which is the number of the next one."""
        return self.history.num_epochs

    def capture(self) -> tuple[Tensors, dict[str, Any]]:
        """Return (tensors, plain values) for `restore`. Tensors that training changes are copied."""
        tensors = {f"model.{name}": _copy(value) for name, value in self.model.state_dict().items()}
        for name, parts in self._optimiser_parts().items():
            tensors |= {f"{name}.{place}": _copy(part) for place, part in enumerate(parts)}
        tensors |= _frame_tensors("frame", self.frame)
        # The last good state is replaced, never changed, so it needs no copy. Often it is also the best one.
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
        return _separate(tensors | {"history.validations": validations}), values

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore a captured state. The model and the settings must be those of the capture.

        Raises KeyError, TypeError, ValueError, OverflowError or RuntimeError where something is missing or does not
        fit.
        """
        self.model.load_state_dict(_part(tensors, "model"))
        model, frame = self.model.state_dict(), self.frame
        with torch.no_grad():
            for name, parts in self._optimiser_parts().items():
                for place, part in enumerate(parts):
                    part.copy_(tensors[f"{name}.{place}"])
        self.frame = _read_frame(tensors, "frame", frame)
        recovery = self.recovery
        recovery.state = _check_shapes(_part(tensors, "good"), model)
        recovery.frame = _read_frame(tensors, "good_frame", frame)
        recovery.count, recovery.rate_factor = int(values["recoveries"]), float(values["rate_factor"])
        recovery.trouble = values["trouble"]
        if values["best_score"] is not None:
            self.best_score = float(values["best_score"])
            is_good = values["best_is_good"]
            self.best_model = recovery.state if is_good else _check_shapes(_part(tensors, "best"), model)
            self.best_frame = _read_frame(tensors, "best_frame", frame)
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


def _separate(tensors: Tensors) -> Tensors:
    """Give each tensor contiguous memory of its own, as the file format requires."""
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
    found = {part: tensors[f"{name}.{part}"] for part in _FRAME}
    parts = _check_shapes(found, {part: getattr(like, part) for part in _FRAME})
    return Frame(*parts.values()).to(like.rotations.device)


def _check_shapes(tensors: Tensors, like: Mapping[str, Tensor]) -> Tensors:
    for name in tensors.keys() | like.keys():
        found, wanted = (part[name].shape if name in part else None for part in (tensors, like))
        if found != wanted:
            raise ValueError(f"{name} has shape {found}, not {wanted}")
    return tensors
