"""Checkpoints: states of a training on disk, complete or not there at all, and checked before they are used.

A checkpoint is a folder `epoch-00000123` with the tensors (safetensors) and a JSON manifest that holds the values, the
fingerprint of graph and settings, the SHA-256 of the tensors and that of itself. It is written under another name,
forced to disk and then renamed. The last two stay. No pickle, so a foreign checkpoint runs no code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.array_writer import force_to_disk

FORMAT = "l2g2g checkpoint 2"
_TENSORS, _MANIFEST = "state.safetensors", "manifest.json"
_KEPT = 2


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

        name = f"epoch-{checkpoint.epoch:08d}"
        part = self.folder / f".{name}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.mkdir()
            data = save(checkpoint.tensors)
            _write(part / _TENSORS, data)
            _write(part / _MANIFEST, _describe(checkpoint, data))
            force_to_disk(part)
            _remove(self.folder / name)  # the same epoch of an earlier start
            part.rename(self.folder / name)
            force_to_disk(self.folder)
            for old in self.paths()[_KEPT:]:
                _remove(old)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ResourceError(
                f"{self.folder}: the checkpoint of epoch {checkpoint.epoch} cannot be written ({reason}); "
                f"earlier ones are as they were; free some space, then --resume"
            ) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)

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
                text = f"{reason}; it is not used, training goes on from epoch {found.epoch}"
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

    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        data = (path / _TENSORS).read_bytes()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path / _MANIFEST}: is damaged (no JSON)") from error
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: is missing") from error
    if not isinstance(manifest, dict) or manifest.pop("sha256", None) != _digest(_canonical(manifest)):
        raise InputError(f"{path / _MANIFEST}: is damaged (its checksum differs)")
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path}: written as '{manifest.get('format')}', this version reads '{FORMAT}'")
    try:
        expected = manifest["files"][_TENSORS]
        if len(data) != expected["bytes"]:
            raise InputError(f"{path / _TENSORS}: is damaged ({len(data):,} bytes of {expected['bytes']:,})")
        if _digest(data) != expected["sha256"]:
            raise InputError(f"{path / _TENSORS}: is damaged (its checksum differs)")
        described = {name: manifest[name] for name in ("fingerprint", "values")}
        for name, value in described.items():
            if not isinstance(value, dict):
                raise TypeError(f"{name} is {type(value).__name__}, not a table")
        return Checkpoint(int(manifest["epoch"]), **described, tensors=load(data))
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no checkpoint of l2g2g ({type(error).__name__}: {error})") from error


def _describe(checkpoint: Checkpoint, data: bytes) -> bytes:
    manifest = {
        "format": FORMAT,
        "epoch": checkpoint.epoch,
        "fingerprint": checkpoint.fingerprint,
        "values": checkpoint.values,
        "files": {_TENSORS: {"sha256": _digest(data), "bytes": len(data)}},
    }
    manifest["sha256"] = _digest(_canonical(manifest))
    return json.dumps(manifest, indent=1).encode()


def _canonical(manifest: dict[str, Any]) -> bytes:
    """The same bytes before writing and after reading."""
    return json.dumps(manifest, sort_keys=True).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    """Rename, then delete: half of a checkpoint never stands under the name of a whole one."""
    if path.exists():
        hidden = path.with_name(f".{path.name}.old")
        _replace(path, hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def _replace(path: Path, other: Path) -> None:
    shutil.rmtree(other, ignore_errors=True)
    path.rename(other)
