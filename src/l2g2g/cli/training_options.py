"""Training options on the command line, made from the table of `Config`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from l2g2g.cli.completion import complete_words
from l2g2g.cli.help import HelpAllOption, panel_name
from l2g2g.config import OPTIONS
from l2g2g.options import Option

Command = TypeVar("Command", bound=Callable[..., None])


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
    kind = inspect.Parameter.KEYWORD_ONLY
    named = [each.replace(kind=kind) for each in own.values() if each.kind != each.VAR_KEYWORD]
    named.append(inspect.Parameter("help_all", kind, default=False, annotation=HelpAllOption))
    options = [_parameter(option) for name, option in OPTIONS.items() if name not in own]
    names = {each.name for each in options}

    @functools.wraps(command)
    def with_settings(*, help_all: bool = False, **given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in names or value is not None})

    with_settings.__signature__ = inspect.Signature([*named, *options])  # type: ignore[attr-defined]
    with_settings.__annotations__ = {each.name: each.annotation for each in [*named, *options]}
    return with_settings  # type: ignore[return-value]


def _parameter(option: Option) -> inspect.Parameter:
    is_text = bool(option.choices) or option.parse is not None
    kind: Any = str if is_text else option.kinds[0]
    annotation = Annotated[kind | None, table_option(option.name)]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
