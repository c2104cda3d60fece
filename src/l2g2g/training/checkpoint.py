"""Checkpoints: states of a training on disk, complete or not there at all, and checked before they are used.

A checkpoint is a folder `epoch-00000123`, written and read as `graphs.array_folder` describes: the tensors as another
file (safetensors), and the state's plain values and what is trained in the manifest. The last two stay. No pickle, so
a foreign checkpoint runs no code.
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
    """A checkpoint cannot be used, and what is used instead."""


@dataclass(frozen=True)
class Checkpoint:
    """A state of a training.

    Attributes:
        epoch: Epochs that were done.
        fingerprint: What was trained on and how; a resume must have the same.
        values, tensors: The state, see `training.state`.
    """

    epoch: int
    fingerprint: dict[str, Any]
    values: dict[str, Any]
    tensors: dict[str, Tensor]


class CheckpointStore:
    """The checkpoints of one training in a folder of their own. One process at a time: see `run_directory`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def paths(self) -> list[Path]:
        """Folders of the checkpoints, the latest first."""
        return sorted(self.folder.glob("epoch-*"), reverse=True)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; when this returns it is on disk, and the older ones but one are gone."""
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
        """The latest checkpoint that is whole, with a warning if it is not the latest; None where there is none."""
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
        """Remove what a killed process left half written or half removed."""
        for path in self.folder.glob(".epoch-*"):
            shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> None:
        """Remove all checkpoints."""
        self.clean()
        for path in self.paths():
            _remove(path)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint. Raises InputError where anything differs from what was written."""
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
    """Rename, then delete: half of a checkpoint never stands under the name of a whole one."""
    if path.exists():
        hidden = path.with_name(f".{path.name}.old")
        _replace(path, hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def _replace(path: Path, other: Path) -> None:
    shutil.rmtree(other, ignore_errors=True)
    path.rename(other)
