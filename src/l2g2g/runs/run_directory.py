"""Run directory: one run, its lock, and the checkpoints of its trainings.

DIR/lock               held by the process that runs; the system lets go of it when the process ends, however it ends
DIR/checkpoints/NAME   the last two checkpoints of a training, see `training.checkpoint`
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.array_writer import LOCK, locked
from l2g2g.training.checkpoint import CheckpointStore, CheckpointWarning
from l2g2g.training.checkpoint_writer import USUAL_INTERVAL, CheckpointWriter

_CHECKPOINTS = "checkpoints"


class RunDirectory:
    """An open run directory; `open_run` makes it."""

    def __init__(self, folder: Path, resume: bool, interval: float, patient: bool = False) -> None:
        self.folder, self.resume, self.interval, self.patient = folder, resume, interval, patient

    @property
    def names(self) -> list[str]:
        """Trainings that have checkpoints here."""
        return sorted({path.parent.name for path in (self.folder / _CHECKPOINTS).glob("*/epoch-*")})

    def expect(self, names: Iterable[str]) -> None:
        """Refuse to resume a run that holds other trainings only."""
        wanted, found = list(names), self.names
        if self.resume and found and not set(wanted) & set(found):
            raise InputError(
                f"{self.folder}: cannot be resumed: it holds {', '.join(found)}, and not {', '.join(wanted)}; "
                f"run it as it was, or give another --run-dir"
            )

    def keep(self, name: str, description: dict[str, Any]) -> CheckpointWriter:
        """A checkpoint writer for one training. description: data and settings, for JSON; see `differences`."""
        store = CheckpointStore(self.folder / _CHECKPOINTS / name)
        description = json.loads(json.dumps(description))
        if not self.resume:
            store.clear()
            return CheckpointWriter(store, description, interval=self.interval, patient=self.patient)
        store.clean()
        found = store.load()
        if found is None:
            warnings.warn(
                f"{self.folder}: nothing was saved of {name}; it starts anew", CheckpointWarning, stacklevel=2
            )
            return CheckpointWriter(store, description, interval=self.interval, patient=self.patient)
        changed = differences({**found.fingerprint, "machine": None}, {**description, "machine": None})
        if changed:
            raise InputError(
                f"{self.folder}: cannot be resumed, this run differs: {'; '.join(changed)}; "
                f"run it as it was, or give another --run-dir"
            )
        moved = differences(found.fingerprint, description)
        if moved:
            text = (
                f"{self.folder}: goes on with another {'; '.join(moved)}: close to one run in one go, not the same bits"
            )
            warnings.warn(text, CheckpointWarning, stacklevel=2)
        return CheckpointWriter(store, description, found, self.interval, self.patient)


def differences(then: dict[str, Any], now: dict[str, Any], inside: str = "") -> list[str]:
    """What differs between two descriptions, in words a user can act on."""
    found = []
    for name in [*now, *(name for name in then if name not in now)]:
        old, new = then.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{name} ")
        elif old != new:
            is_hash = any(isinstance(value, str) and len(value) == 64 for value in (old, new))
            shown = "not the same" if is_hash else f"was {_show(old)}, is {_show(new)}"
            found.append(f"{inside}{name} {shown}")
    return found


def _show(value: Any) -> str:
    return "not given" if value is None else str(value)


def holds_run(folder: str | Path | None) -> bool:
    """Whether a run was started in this folder."""
    return folder is not None and (Path(folder) / LOCK).exists()


@contextmanager
def open_run(
    folder: str | Path | None, *, resume: bool = False, interval: float | None = None, patient: bool = False
) -> Iterator[RunDirectory | None]:
    """Make and lock a run directory for as long as the context lasts; None where no folder is given.

    resume: go on with the run in it, which must be there; otherwise it must hold none.
    interval, patient: see `CheckpointWriter`.
    """
    if interval is not None and not interval >= 0:
        raise InputError(f"--checkpoint-every is {interval}; it must not be negative")
    if folder is None:
        for option, given in (("--resume", resume), ("--checkpoint-every", interval is not None)):
            if given:
                raise InputError(f"{option} needs --run-dir, the directory of the run")
        yield None
        return
    folder = Path(folder)
    if resume and not holds_run(folder):
        raise InputError(f"{folder}: nothing to resume, no run was started here; leave --resume out to start one")
    with locked(folder, "--run-dir"):
        _check_writable(folder)
        run = RunDirectory(folder, resume, USUAL_INTERVAL if interval is None else interval, patient)
        if not resume and run.names:
            raise InputError(f"{folder}: holds a run already; add --resume to go on with it, or give another --run-dir")
        yield run


def _check_writable(folder: Path) -> None:
    """Make the folder of checkpoints and write to it: permission bits say nothing to root or on a read-only mount."""
    try:
        (folder / _CHECKPOINTS).mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder / _CHECKPOINTS):
            pass
    except OSError as error:
        raise ResourceError(f"{folder}: cannot be written to ({error.strerror}); give another --run-dir") from error
