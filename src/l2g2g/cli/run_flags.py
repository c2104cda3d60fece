"""Run flags: options of the commands that train, which say where data are found and what is kept of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import DataDirOption, takes_group
from l2g2g.cli.help import panel_name
from l2g2g.cli.messages import describe_graph, show_steps
from l2g2g.cli.ranks import open_run_of
from l2g2g.config import Config
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.formats import TableOptions
from l2g2g.parallel.communicator import Communicator

if TYPE_CHECKING:
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.runs.resources import Stopwatch
    from l2g2g.runs.run_directory import RunDirectory
    from l2g2g.training.loop import EpochReport, OnEpoch

_OUTPUT, _RARE_OUTPUT = panel_name("output"), panel_name("output", rare=True)
_RunDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder to save the run in, for report, predict and --resume.", rich_help_panel=_OUTPUT),
]
_ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue the interrupted run in --run-dir.", rich_help_panel=_OUTPUT)
]
_CheckpointOption = Annotated[
    float | None,
    typer.Option(
        help="Minimum seconds between two checkpoints in --run-dir; 0 writes one every epoch.",
        show_default="1",
        rich_help_panel=_RARE_OUTPUT,
    ),
]
_TensorboardOption = Annotated[
    Path | None,
    typer.Option(
        help="Write the curves of training here, for tensorboard --logdir (extra tracking).",
        rich_help_panel=_RARE_OUTPUT,
    ),
]


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


@dataclass(frozen=True)
class RunFlags:
    """What `takes_run` gives a command; the attributes are its options."""

    data_dir: Path | None = None
    run_dir: Path | None = None
    resume: bool = False
    checkpoint_every: float | None = None
    tensorboard: Path | None = None

    def given(self) -> dict[str, Any]:
        """Options by name that were given."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}

    @contextmanager
    def open(
        self,
        graph: str,
        features: Path | None,
        config: Config,
        communicator: Communicator,
        tables: TableOptions,
        clock: Stopwatch,
        *,
        trainings: Iterable[str] = (),
        silent: bool,
    ) -> Iterator[tuple[RunDirectory | None, GraphStore]]:
        """The run directory, on the first rank and where one is kept, and the graph, which is described unless silent.

        trainings: those that the run will have, where there are several.
        """
        from l2g2g.runs.sources import open_source

        kept = open_run_of(communicator, self.run_dir, resume=self.resume, interval=self.checkpoint_every)
        with kept as directory, ExitStack() as stack:
            names = list(trainings)
            if directory is not None and names:
                directory.expect(names)
            with clock.measure("read"):
                with show_steps(silent) as progress:
                    opened = open_source(
                        graph,
                        features,
                        config,
                        data_dir=self.data_dir,
                        tables=tables,
                        communicator=communicator,
                        directory=directory,
                        progress=progress,
                        measure=clock.measure,
                    )
                    loaded = stack.enter_context(opened)
                describe_graph(loaded, silent)
            yield directory, loaded


takes_run = takes_group(
    "run",
    {
        "data_dir": (DataDirOption, None),
        "run_dir": (_RunDirOption, None),
        "resume": (_ResumeOption, False),
        "checkpoint_every": (_CheckpointOption, None),
        "tensorboard": (_TensorboardOption, None),
    },
    RunFlags,
)
