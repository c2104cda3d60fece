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
from l2g2g.graphs.table_options import TableOptions
from l2g2g.parallel.communicator import Communicator

if TYPE_CHECKING:
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.runs.resources import Stopwatch
    from l2g2g.runs.run_directory import RunDirectory

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
                how: dict[str, Any] = {"data_dir": self.data_dir, "tables": tables, "communicator": communicator}
                with show_steps(silent) as progress:
                    how |= {"directory": directory, "progress": progress, "measure": clock.measure}
                    opened = open_source(graph, features, config, **how)
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
