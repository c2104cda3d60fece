"""Options and arguments that several commands have, each declared once, and decorators that add groups of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from l2g2g.cli.help import BASELINE_NAMES, HelpAllOption, complete_graph, complete_words, panel_name
from l2g2g.config import OPTIONS
from l2g2g.graphs.formats import ID_CHOICES, MISSING_CHOICES, WHOLE_GRAPHS, TableOptions
from l2g2g.methods import METHODS
from l2g2g.options import Option

Command = TypeVar("Command", bound=Callable[..., None])
_INPUT, _OUTPUT = panel_name("input"), panel_name("output")
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_TABLE_OPTIONS: dict[str, tuple[Any, Any]] = {
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


def table_option(name: str, *short: str) -> Any:
    """The option of a setting for typer. short: further spellings."""
    option = OPTIONS[name]
    return typer.Option(
        option.flags,
        *short,
        help=f"{option.help} {option.when}" if option.is_rare else option.help,
        show_default=option.default_text(),
        rich_help_panel=panel_name(option.group, rare=option.is_rare),
        autocompletion=complete_words(option.choices) if option.choices else None,
    )


def takes_settings(command: Command) -> Command:
    """Give a command that ends in ``**options`` all training options. Those that were not given do not reach it."""
    own = inspect.signature(command, eval_str=True).parameters
    options = [_parameter(option) for name, option in OPTIONS.items() if name not in own]
    names = {each.name for each in options}
    help_all = inspect.Parameter("help_all", _KEYWORD, default=False, annotation=HelpAllOption)
    (rest,) = (each.name for each in own.values() if each.kind is each.VAR_KEYWORD)

    def run(*, help_all: bool = False, **given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in names or value is not None})

    return with_parameters(command, run, rest, [help_all, *options])


def takes_group(name: str, flags: dict[str, tuple[Any, Any]], make: Callable[..., Any]) -> Callable[[Command], Command]:
    """A decorator for commands that have a parameter of this name, which stands for several options.

    flags: annotation and default of each option, by the name under which make takes it; those that are not given do
    not reach make.
    """
    added = [inspect.Parameter(flag, _KEYWORD, default=each[1], annotation=each[0]) for flag, each in flags.items()]

    def decorate(command: Command) -> Command:
        def run(**given: Any) -> None:
            chosen = {flag: given.pop(flag, None) for flag in flags}
            command(**{name: make(**{flag: value for flag, value in chosen.items() if value is not None})}, **given)

        return with_parameters(command, run, name, added)

    return decorate


def with_parameters(
    command: Command, run: Callable[..., None], replaced: str | None, added: list[inspect.Parameter]
) -> Command:
    """Give `run`, which calls a command, the parameters of the command, without `replaced` and with those added."""
    own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != replaced]
    head = [each.replace(kind=_KEYWORD) for each in own if each.kind is not each.VAR_KEYWORD]
    signature = inspect.Signature([*head, *added, *(each for each in own if each.kind is each.VAR_KEYWORD)])
    functools.update_wrapper(run, command)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    return run  # type: ignore[return-value]


def _parameter(option: Option) -> inspect.Parameter:
    is_text = bool(option.choices) or option.parse is not None
    kind: Any = str if is_text else option.kinds[0]
    annotation = Annotated[kind | None, table_option(option.name)]
    return inspect.Parameter(option.name, _KEYWORD, default=None, annotation=annotation)


def _graph() -> Any:
    return typer.Argument(
        metavar="GRAPH",
        help="An edge list (.csv/.tsv/.txt[.gz]/.parquet, or a folder of .csv or .parquet parts), "
        f"{', '.join(WHOLE_GRAPHS)}, the name of a data set, or a store (l2g2g prepare).",
        autocompletion=complete_graph,
    )


GraphArgument = Annotated[str, _graph()]
OptionalGraphArgument = Annotated[str | None, _graph()]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(help="Node features: .csv/.parquet matched by id, .npy/.npz by row number.", rich_help_panel=_INPUT),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder with the files of named data sets (cora-ml.npz or cora_ml.npz).", rich_help_panel=_INPUT),
]
MethodOption = Annotated[str | None, table_option("method", "-m")]
MethodsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        help=f"{', '.join(METHODS)}, or a baseline: {', '.join(BASELINE_NAMES)}; repeatable.",
        show_default="l2g2g",
        rich_help_panel=panel_name("model"),
        autocompletion=complete_words((*METHODS, *BASELINE_NAMES)),
    ),
]
PresetOption = Annotated[str | None, table_option("preset")]
SeedOption = Annotated[int | None, table_option("seed")]
OutputOption = Annotated[
    Path,
    typer.Option("--output", "-o", help="Output: .parquet, .arrow, .csv, .txt or .npy.", rich_help_panel=_OUTPUT),
]
OutputOrPartsOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Output: .parquet, .arrow, .csv, .txt or .npy; with a / at the end a folder of Parquet parts, of which "
        "every rank writes its own.",
        rich_help_panel=_OUTPUT,
    ),
]
TrainingOption = Annotated[
    str | None,
    typer.Option(
        help="If the run has several trainings: which one, as METHOD-seed-S. Default: the first.",
        rich_help_panel=_INPUT,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON lines only.", rich_help_panel=_OUTPUT)
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=_OUTPUT)]


def _table_flag(kind: Any, option: Any) -> tuple[Any, None]:
    option.rich_help_panel = _INPUT
    return Annotated[kind | None, option], None


# Give a command that has a parameter `tables` the options of `TableOptions`, which it gets as one.
takes_tables = takes_group(
    "tables", {name: _table_flag(*option) for name, option in _TABLE_OPTIONS.items()}, TableOptions
)
