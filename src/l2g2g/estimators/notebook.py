"""Notebook: a line of progress under the cell in which a model is fitted; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from l2g2g.training.report import EpochReport, OnEpoch

_UPDATE_SECONDS = 0.2  # at least, between two updates
_WIDTH = 30


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; a terminal of IPython is none."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def show_progress(label: str, epochs: int) -> Iterator[OnEpoch]:
    """A listener that shows the epochs of a training as a bar, which is updated in place and stays when it ends."""
    from IPython.display import display

    def show(text: str) -> dict[str, str]:
        return {"text/plain": text}

    handle: Any = display(show(f"{label}: {epochs} epochs"), raw=True, display_id=True)
    shown_at, line = 0.0, f"{label}: no epoch"

    def update(report: EpochReport) -> None:
        nonlocal shown_at, line
        filled = _WIDTH * report.epoch // max(1, epochs)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        line = f"{label} {bar} {report.epoch}/{epochs}, loss {report.loss:.4f}"
        if time.monotonic() - shown_at > _UPDATE_SECONDS:
            shown_at = time.monotonic()
            handle.update(show(line), raw=True)

    try:
        yield update
    finally:
        handle.update(show(line), raw=True)
