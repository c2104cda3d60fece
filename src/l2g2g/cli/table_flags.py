"""Table flags: the options of commands that say how edge lists and feature tables are read, see `TableOptions`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from l2g2g.cli.completion import complete_words
from l2g2g.cli.help import panel_name
from l2g2g.graphs.table_options import ID_CHOICES, MISSING_CHOICES, TableOptions

Command = TypeVar("Command", bound=Callable[..., None])
_PANEL = panel_name("input")
_FLAGS: dict[str, tuple[Any, Any]] = {
    "source": (
        str,
        typer.Option(help="Column of the edge list with the source of each edge: its title, or its number from 1."),
    ),
    "target": (str, typer.Option(help="Column with the target of each edge.")),
    "weight": (str, typer.Option(help="Column with the weight of each edge.")),
    "header": (
        bool,
        typer.Option("--header/--no-header", help="Whether the first row names the columns.", show_default="detected"),
    ),
    "delimiter": (
        str,
        typer.Option(help="One character, or comma, semicolon, tab or blank.", show_default="detected"),
    ),
    "ids": (
        str,
        typer.Option(
            help="Read ids as text or integer.",
            show_default="integer if every id is written as one",
            autocompletion=complete_words(ID_CHOICES),
        ),
    ),
    "label_column": (
        str,
        typer.Option(
            help="Column of --features with the class of each node, for map, probe and report; never trained on."
        ),
    ),
    "missing": (
        str,
        typer.Option(
            help="What is done about a missing feature: error, zero or mean (of its column).",
            show_default="error",
            autocompletion=complete_words(MISSING_CHOICES),
        ),
    ),
}


def takes_tables(command: Command) -> Command:
    """Give a command that has a parameter ``tables`` the options of `TableOptions`, which it gets as one."""
    own = inspect.signature(command, eval_str=True).parameters
    kind = inspect.Parameter.KEYWORD_ONLY
    kept = [each for name, each in own.items() if name != "tables"]
    flags = []
    for name, (value, option) in _FLAGS.items():
        option.rich_help_panel = _PANEL
        flags.append(inspect.Parameter(name, kind, default=None, annotation=Annotated[value | None, option]))
    tail = [each for each in kept if each.kind is inspect.Parameter.VAR_KEYWORD]
    head = [each.replace(kind=kind) for each in kept if each.kind is not inspect.Parameter.VAR_KEYWORD]

    @functools.wraps(command)
    def with_tables(**given: Any) -> None:
        said = {name: given.pop(name, None) for name in _FLAGS}
        tables = TableOptions(**{name: value for name, value in said.items() if value is not None})
        command(tables=tables, **given)

    signature = inspect.Signature([*head, *flags, *tail])
    with_tables.__signature__ = signature  # type: ignore[attr-defined]
    with_tables.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    return with_tables  # type: ignore[return-value]
