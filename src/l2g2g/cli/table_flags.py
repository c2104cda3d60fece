"""Table flags: the options of commands that say how edge lists and feature tables are read, see `TableOptions`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from l2g2g.cli.completion import complete_words
from l2g2g.cli.help import panel_name
from l2g2g.cli.option_groups import Flag, takes_group
from l2g2g.graphs.table_options import ID_CHOICES, MISSING_CHOICES, TableOptions

_FLAGS: dict[str, tuple[Any, Any]] = {
    "source": (
        str,
        typer.Option(
            help="Column of the edge list with the source of each edge: its name, or its number (the first is 1)."
        ),
    ),
    "target": (str, typer.Option(help="Column with the target of each edge.")),
    "weight": (str, typer.Option(help="Column with the weight of each edge.")),
    "header": (
        bool,
        typer.Option("--header/--no-header", help="Whether the first row is a header.", show_default="detected"),
    ),
    "delimiter": (
        str,
        typer.Option(
            help="Separator of the columns: one character, or comma, semicolon, tab or blank.", show_default="detected"
        ),
    ),
    "ids": (
        str,
        typer.Option(
            help="Read ids as text or integer.",
            show_default="integer if every id is one",
            autocompletion=complete_words(ID_CHOICES),
        ),
    ),
    "label_column": (
        str,
        typer.Option(
            help="Column of --features with the class of each node: shown in the report, never used in training."
        ),
    ),
    "missing": (
        str,
        typer.Option(
            help="How to treat a missing feature: error, zero or mean (of its column).",
            show_default="error",
            autocompletion=complete_words(MISSING_CHOICES),
        ),
    ),
}


def _flag(kind: Any, option: Any) -> Flag:
    option.rich_help_panel = panel_name("input")
    return Flag(Annotated[kind | None, option])


# Give a command that has a parameter `tables` the options of `TableOptions`, which it gets as one.
takes_tables = takes_group("tables", {name: _flag(*option) for name, option in _FLAGS.items()}, TableOptions)
