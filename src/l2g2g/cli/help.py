"""Help and completion: options in groups, rarely changed ones only with --help-all, and what a shell completes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from l2g2g.graphs.formats import ENDINGS
from l2g2g.options import Group

_RARE = ", rarely changed"
_FEW = 16  # so many options need no groups
BASELINE_NAMES = (  # those of `evaluation.baselines`, whose import would load torch
    "spectral",
    "adamic-adar",
    "common-neighbours",
    "resource-allocation",
    "l3",
    "preferential-attachment",
)


def panel_name(group: Group, *, rare: bool = False) -> str:
    """The heading under which help shows an option."""
    return group.capitalize() + (_RARE if rare else "")


_ORDER = [panel_name(group, rare=rare) for group in get_args(Group) for rare in (False, True)]


class Command(TyperCommand):
    """A command whose help has its options in the order of the groups; its texts hold no markup."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without what is rarely changed."""
        self._shown([each for each in self.params if not _is_rare(each)]).print_help(ctx, formatter)

    def print_help(self, ctx: Any, formatter: Any) -> None:
        """Print what this command has, as typer does."""
        super().format_help(ctx, formatter)

    def format_all(self, ctx: Any, formatter: Any) -> None:
        """Print the help with all options."""
        self._shown(self.params).print_help(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What the usage line shows: GRAPH, not {GRAPH}."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def get_params(self, ctx: Any) -> list[Any]:
        """As typer's, which adds --help here."""
        return [_for_screen(each) for each in super().get_params(ctx)]

    def _shown(self, params: list[Any]) -> Command:
        """A copy for the screen: these options in order, with brackets that are not taken for markup."""
        shown = copy.copy(self)
        shown.help = None if self.help is None else escape(self.help)
        shown.params = [copy.copy(each) for each in sorted(params, key=_place)]
        for each in shown.params:
            if getattr(each, "help", None):
                each.help = escape(each.help)  # type: ignore[attr-defined]
            if len(params) <= _FEW:
                each.rich_help_panel = None  # type: ignore[attr-defined]
        return shown


class CommandGroup(TyperGroup):
    """Commands, whose own options show no type where they are switches."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As typer's."""
        return [_for_screen(each) for each in super().get_params(ctx)]


class App(typer.Typer):
    """A typer whose commands show their help as `Command` does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": CommandGroup, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Any:
        """As typer's."""
        return super().command(name, **{"cls": Command, **settings})


def _show_all(context: typer.Context, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        formatter = context.make_formatter()
        cast(Command, context.command).format_all(context, formatter)
        typer.echo(formatter.getvalue(), nl=False)
        raise typer.Exit


HelpAllOption = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show all options, including those that are rarely changed.",
    ),
]


def _for_screen(param: Any) -> Any:
    """A switch takes no value: it must not look as if it took a <bool>."""
    if getattr(param, "is_flag", False):
        param.display_type_rich = _show_nothing
    return param


def _show_nothing(ctx: Any) -> None:
    return None


def _is_rare(param: Any) -> bool:
    return (getattr(param, "rich_help_panel", None) or "").endswith(_RARE)


def _place(param: Any) -> int:
    panel = getattr(param, "rich_help_panel", None)
    return _ORDER.index(panel) if panel in _ORDER else -1


def complete_words(words: Iterable[str]) -> Callable[[str], list[str]]:
    """What completes one of these words."""
    known = tuple(words)

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def complete_graph(context: typer.Context, incomplete: str) -> list[str]:
    """Names of data sets that are there, and files and folders that may hold a graph."""
    return [*_dataset_names(context.params.get("data_dir"), incomplete), *_graph_files(incomplete)]


def _dataset_names(data_dir: Path | str | None, incomplete: str) -> list[str]:
    from l2g2g.errors import InputError
    from l2g2g.graphs.datasets import list_datasets

    try:
        known = list_datasets(data_dir)
    except InputError:  # a folder that is not there is said when the command runs
        return []
    wanted = incomplete.lower().replace("_", "-")
    return [item.name for item in known if item.available and item.name.startswith(wanted)]


def _graph_files(incomplete: str) -> Iterator[str]:
    folder, _, start = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            shown = incomplete[: len(incomplete) - len(start)] + path.name
            if path.is_dir():
                yield f"{shown}/"
            elif path.suffix.lower() in ENDINGS:
                yield shown
