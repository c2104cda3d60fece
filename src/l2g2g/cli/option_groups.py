"""Option groups: options that several commands have and get as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Command = TypeVar("Command", bound=Callable[..., None])


@dataclass(frozen=True)
class Flag:
    """An option of a group: its annotation for typer, and its default."""

    annotation: Any
    default: Any = None


def takes_group(name: str, flags: dict[str, Flag], make: Callable[..., Any]) -> Callable[[Command], Command]:
    """A decorator for commands that have a parameter of this name. flags: by the name under which make takes them.

    Options that are not given do not reach make.
    """

    def decorate(command: Command) -> Command:
        kind = inspect.Parameter.KEYWORD_ONLY
        own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != name]
        tail = [each for each in own if each.kind is inspect.Parameter.VAR_KEYWORD]
        head = [each.replace(kind=kind) for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(flag, kind, default=each.default, annotation=each.annotation)
            for flag, each in flags.items()
        ]

        @functools.wraps(command)
        def with_group(**given: Any) -> None:
            chosen = {flag: given.pop(flag, None) for flag in flags}
            command(**{name: make(**{flag: value for flag, value in chosen.items() if value is not None})}, **given)

        signature = inspect.Signature([*head, *added, *tail])
        with_group.__signature__ = signature  # type: ignore[attr-defined]
        with_group.__annotations__ = {each: found.annotation for each, found in signature.parameters.items()}
        return with_group  # type: ignore[return-value]

    return decorate
