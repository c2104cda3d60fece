"""The option --profile: a command is timed, its stages and functions written to a file and shown on stderr."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from l2g2g.cli.help import panel_name

if TYPE_CHECKING:
    from l2g2g.cli.profiling import Recording

Command = TypeVar("Command", bound=Callable[..., None])
ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="Write where the time went, by stage and function, and what ranks sent each other to this JSON file.",
        rich_help_panel=panel_name("output", rare=True),
    ),
]
_active: list[tuple[Recording, list[dict[str, Any]]]] = []


def takes_profile(command: Command) -> Command:
    """Give a command the option. It must have `quiet` and `as_json`, and hand the row of each run to `note_run`."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    option = inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ProfileOption)

    @functools.wraps(command)
    def with_profile(*, profile: Path | None = None, **given: Any) -> None:
        if profile is None:
            return command(**given)
        with _recorded(profile, silent=given["quiet"] or given["as_json"]):
            return command(**given)

    with_profile.__signature__ = inspect.Signature([*own, option])  # type: ignore[attr-defined]
    with_profile.__annotations__ = {each.name: each.annotation for each in [*own, option]}
    return with_profile  # type: ignore[return-value]


def note_run(row: dict[str, Any]) -> None:
    """A run is finished: what was recorded since the last one is its. Does nothing without --profile."""
    if _active:
        from l2g2g.cli.profiling import describe_run

        recording, runs = _active[-1]
        runs.append(describe_run(row, recording.take()))


@contextmanager
def _recorded(path: Path, *, silent: bool) -> Iterator[None]:
    from rich.console import Console

    from l2g2g.cli.profiling import check_profile, record, render_profile, write_profile

    check_profile(path)
    runs: list[dict[str, Any]] = []
    with record() as recording:
        _active.append((recording, runs))
        try:
            yield
        finally:
            _active.pop()
    write_profile(path, runs)
    for run in runs if not silent else ():
        for table in render_profile(run):
            Console(stderr=True).print(table)
