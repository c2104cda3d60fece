"""Parameters of the estimators, made from the table of `Config`: signature, `__init__` and docstring."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

import numpy as np

from l2g2g.config import OPTIONS
from l2g2g.methods import METHODS
from l2g2g.options import Option, in_python, option, read_options

_ALWAYS_SET = ("seed", "preset")  # the others are None where the preset decides
_CHOSEN_BY_CLASS = "method"


@dataclass(frozen=True)
class FitOptions:
    """What `fit` takes beside the settings of `Config`."""

    random_state: int | np.random.RandomState | None = option(
        None,
        group="training",
        flags="random_state",
        unset="seed",
        help="scikit-learn's name of `seed`, an integer or a RandomState, which wins where it is given.",
        when="Use it in pipelines and searches of scikit-learn.",
    )
    validation_fraction: float = option(
        0.05,
        group="training",
        flags="validation_fraction",
        least=0,
        below=1,
        help="Fraction of the edges kept for validation, which ends training early; the final vectors use them too.",
        when="Set it to 0 to train on all edges for all epochs.",
    )
    run_dir: str | Path | None = option(
        None,
        group="output",
        flags="run_dir",
        unset="no directory",
        help="Directory in which `fit` keeps the state of training and the finished model.",
        when="Set it for long trainings, which can then be resumed.",
    )
    resume: bool = option(
        False,
        group="output",
        flags="resume",
        help="Go on with the training in `run_dir`.",
        when="Set it after an interruption.",
    )


FIT_OPTIONS = read_options(FitOptions)


def list_parameters(method: str) -> dict[str, Option]:
    """The parameters of the estimator of a method, by name."""
    row = METHODS[method]
    settings = {name: each for name, each in OPTIONS.items() if each.is_for(row) and name != _CHOSEN_BY_CLASS}
    return {"dim": settings["dim"], **settings, **FIT_OPTIONS}


def make_init(method: str) -> Callable[..., None]:
    """An `__init__` that takes the parameters of a method and keeps each in the attribute of its name."""
    keyword, first = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [
            inspect.Parameter("self", first),
            *(
                inspect.Parameter(
                    name,
                    first if name == "dim" else keyword,
                    default=each.defaults["default"] if name in (*_ALWAYS_SET, *FIT_OPTIONS) else None,
                    annotation=_annotation(each),
                )
                for name, each in list_parameters(method).items()
            ),
        ]
    )

    def __init__(self: Any, *arguments: Any, **settings: Any) -> None:
        unknown = [name for name in settings if name not in signature.parameters]
        if unknown:
            near = difflib.get_close_matches(unknown[0], signature.parameters, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"help({type(self).__name__}) lists them"
            raise TypeError(f"{type(self).__name__} has no parameter {unknown[0]!r}; {hint}")
        given = signature.bind(self, *arguments, **settings)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name != "self":
                setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def describe_parameters(method: str) -> str:
    """The section of a docstring about the parameters of a method: what each does, its default, when to change it."""
    row = METHODS[method]
    lines = ["Args:"]
    for name, each in list_parameters(method).items():
        text = f"{name}: {each.help} {each.when} Default: {each.default_text(row)}."
        lines += textwrap.wrap(in_python(text, OPTIONS), 110, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines)


def _annotation(each: Option) -> Any:
    texts = (str,) if each.parse is not None else ()
    words = (Literal.__getitem__(each.choices),) if each.choices else ()
    return Union[(*each.kinds, *texts, *words, None)]
