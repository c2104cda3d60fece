"""Checkpoints: states of a training on disk, written atomically and checked before use.

A checkpoint is a folder `epoch-00000123` as described in `graphs.array_folder`: tensors in a safetensors file, plain
values and the fingerprint in the manifest. The last two are kept. Without pickle a foreign checkpoint runs no code.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.array_folder import open_folder
from l2g2g.graphs.array_writer import write_folder

_KIND, _TENSORS = "checkpoint", "state.safetensors"
_KEPT = 2
_REMEDY = "it is not used"


class CheckpointWarning(UserWarning):
    """A checkpoint cannot be used; the message says what is used instead."""


@dataclass(frozen=True)
class Checkpoint:
    """A state of a training.

    Attributes:
        epoch: Number of epochs done.
        fingerprint: Data and settings of the training; a resume must have the same.
        values, tensors: The state, see `LoopState.capture`.
    """

    epoch: int
    fingerprint: dict[str, Any]
    values: dict[str, Any]
    tensors: dict[str, Tensor]


class CheckpointStore:
    """The checkpoints of one training in a folder of their own, used by one process at a time (`run_directory`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def paths(self) -> list[Path]:
        """Return the folders of the checkpoints, the latest first."""
        return sorted(self.folder.glob("epoch-*"), reverse=True)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint to disk, and remove all older ones but one."""
        from safetensors.torch import save

        epoch = checkpoint.epoch
        try:
            with write_folder(self.folder / f"epoch-{epoch:08d}", _KIND) as writer:
                writer.values = {"epoch": epoch, "fingerprint": checkpoint.fingerprint, "values": checkpoint.values}
                writer.save_file(_TENSORS, save(checkpoint.tensors))
            for old in self.paths()[_KEPT:]:
                _remove(old)
        except OSError as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            raise ResourceError(
                f"{self.folder}: the checkpoint of epoch {epoch} cannot be written ({cause.strerror or cause}); "
                f"earlier ones are as they were; free some space, then --resume"
            ) from error

    def load(self) -> Checkpoint | None:
        """Read the latest undamaged checkpoint, with a warning if a later one is damaged; None without checkpoints."""
        damaged: list[tuple[Path, str]] = []
        for path in self.paths():
            try:
                found = read_checkpoint(path)
            except (OSError, InputError) as error:
                damaged.append((path, str(error)))
                continue
            for bad, reason in damaged:
                text = f"{reason}; training goes on from epoch {found.epoch}"
                warnings.warn(text, CheckpointWarning, stacklevel=2)
                _replace(bad, bad.with_name(f"damaged-{bad.name}"))
            return found
        if damaged:
            reasons = "; ".join(reason for _, reason in damaged)
            raise InputError(f"no checkpoint is left to resume from: {reasons}; give another --run-dir and start anew")
        return None

    def clean(self) -> None:
        """Remove partial checkpoints of a killed process."""
        for path in self.folder.glob(".epoch-*"):
            shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> None:
        """Remove all checkpoints."""
        self.clean()
        for path in self.paths():
            _remove(path)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint. Raises InputError if anything differs from what was written."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    folder = open_folder(path, _KIND, remedy=_REMEDY)
    data = folder.read_file(_TENSORS)
    try:
        epoch, *described = (folder.values[name] for name in ("epoch", "fingerprint", "values"))
        fingerprint, values = ({**each} for each in described)
        return Checkpoint(int(epoch), fingerprint, values, load(data))
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: is no checkpoint of l2g2g ({reason}); {_REMEDY}") from error


def _remove(path: Path) -> None:
    """Rename a checkpoint before deleting it, so that no partial one has the name of a complete one."""
    if path.exists():
        hidden = path.with_name(f".{path.name}.old")
        _replace(path, hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def _replace(path: Path, other: Path) -> None:
    shutil.rmtree(other, ignore_errors=True)
    path.rename(other)
