"""Ranks on the command line: a command that torchrun starts on several ranks connects to the others before it works.

Only the first rank prints and writes. An error is printed once, by the first rank that noticed it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from l2g2g.cli.common_options import with_parameters
from l2g2g.cli.help import panel_name
from l2g2g.errors import Interrupted, L2G2GError
from l2g2g.parallel.communicator import LOCAL, Communicator

if TYPE_CHECKING:
    from l2g2g.runs.run_directory import RunDirectory

Command = TypeVar("Command", bound=Callable[..., None])
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        help="Under torchrun: seconds after which a rank that does not answer ends the job.",
        show_default="600",
        rich_help_panel=panel_name("machine", rare=True),
    ),
]


def takes_ranks(command: Command) -> Command:
    """Hand a command its `communicator`, and give it the option --timeout.

    It must have `quiet`, and may have `profile`; both are for the first rank only.
    """
    option = inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=TimeoutOption)

    def with_ranks(*, timeout: float | None = None, **given: Any) -> None:
        if int(os.environ.get("WORLD_SIZE") or 1) < 2:
            return command(**given, communicator=LOCAL)
        return _run_joined(command, timeout, given)

    return with_parameters(command, with_ranks, "communicator", [option])


def _run_joined(command: Callable[..., None], timeout: float | None, given: dict[str, Any]) -> None:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # before torch is loaded: gloo talks about its addresses
    from l2g2g.parallel.communicator import USUAL_TIMEOUT, Place, join_ranks

    place = Place.read(os.environ)
    assert place is not None
    if place.rank:
        given |= {"quiet": True}
        if "profile" in given:
            given["profile"] = None
    with join_ranks(place, device=given.get("device") or "cpu", timeout=timeout or USUAL_TIMEOUT) as communicator:
        try:
            command(**given, communicator=communicator)
        except L2G2GError as error:
            if not communicator.reports_error():
                raise SystemExit(error.exit_code) from error
            if communicator.is_first:
                raise
            raise type(error)(f"rank {communicator.rank}: {error}") from error
        except Interrupted as error:  # all were: one tells
            if communicator.is_first:
                raise
            raise SystemExit(error.exit_code) from error


def is_later_rank() -> bool:
    """Whether torchrun started this process as another rank than the first; called before the ranks are connected."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1") and os.environ.get("RANK", "0") not in ("", "0")


@contextmanager
def open_run_of(communicator: Communicator, folder: Path | None, **choices: Any) -> Iterator[RunDirectory | None]:
    """The run directory of a job, which its first rank keeps; None on the others.

    A job that torchrun restarted goes on with what was saved before.
    """
    from l2g2g.runs.run_directory import holds_run, open_run

    if not communicator.is_first:
        yield None
        return
    if communicator.size > 1 and communicator.attempt and holds_run(folder):
        choices["resume"] = True
    with open_run(folder, **choices) as directory:
        yield directory


def make_rank_config(method: str, preset: str, *, communicator: Any, **options: Any) -> Any:
    """The settings on this rank, which takes the GPU of its number on its host."""
    from l2g2g.config import make_config

    return make_config(method, preset, **on_own_device(options, communicator))


def on_own_device(options: dict[str, Any], communicator: Any) -> dict[str, Any]:
    """The same options with a device of its own for each rank of a host."""
    if communicator.size > 1 and options.get("device") == "cuda":
        return {**options, "device": f"cuda:{communicator.local_rank}"}
    return options
