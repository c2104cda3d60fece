"""Tracking: a training while it runs, as a bar on the screen and as curves for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l2g2g.errors import InputError, ResourceError

if TYPE_CHECKING:
    from l2g2g.training.report import EpochReport, OnEpoch


@contextmanager
def watch_training(
    epochs: int, label: str, *, silent: bool, tensorboard: Path | None = None
) -> Iterator[OnEpoch | None]:
    """A listener for one training. tensorboard: where its curves go, if anywhere."""
    with track(tensorboard) as curves, show_progress(epochs, label, silent) as bar:
        listeners = [each for each in (curves, bar) if each is not None]

        def tell(report: EpochReport) -> None:
            for listener in listeners:
                listener(report)

        yield tell if listeners else None


@contextmanager
def show_progress(epochs: int, label: str, silent: bool) -> Iterator[OnEpoch | None]:
    """A bar with epochs, loss and time left on stderr, where that is a terminal."""
    if silent:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(label, total=epochs, loss="–")
        yield lambda report: bar.update(task, completed=report.epoch, loss=f"{report.loss:.4f}")


@contextmanager
def track(folder: Path | None) -> Iterator[OnEpoch | None]:
    """A listener that writes every epoch into a folder, for `tensorboard --logdir`; None where no folder is given."""
    if folder is None:
        yield None
        return
    writer = _open_writer(folder)

    def write(report: EpochReport) -> None:
        for curve, value in report.curves().items():
            writer.add_scalar(curve, value, report.epoch)

    try:
        yield write
    finally:
        writer.close()


def check_tracking(folder: Path | None) -> None:
    """Refuse what could not be tracked, before a graph is read."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; --tensorboard needs a directory")
    from importlib.util import find_spec

    if find_spec("tensorboard") is None:
        raise ResourceError("--tensorboard needs TensorBoard: pip install 'l2g2g[tracking]'")


def _open_writer(folder: Path) -> Any:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what TensorBoard itself imports
            from torch.utils.tensorboard import SummaryWriter

            return SummaryWriter(folder)
    except ImportError as error:
        raise ResourceError("--tensorboard needs TensorBoard: pip install 'l2g2g[tracking]'") from error
    except OSError as error:
        raise ResourceError(f"{folder}: cannot be written to ({error.strerror}); give another directory") from error
